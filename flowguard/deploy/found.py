"""The Lambda functions that a module defines, each with its flows and stages, or with its ``@once``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import ismethod
from pathlib import Path
from types import ModuleType

from flowguard.callback_function import CallbackHandler
from flowguard.deploy.options import SettingsOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.flow import AnyFlow, Flow
from flowguard.handler import LambdaHandler
from flowguard.key_table import KeyTable
from flowguard.once_function import OnceFunction, OnceRule
from flowguard.project.loading import load_module
from flowguard.stage import AnyStage
from flowguard.start_function import StartHandler


class FunctionKind(Enum):
    """The kind of a function."""

    STAGES = "stages"
    ANSWERS = "answers"
    KILLED = "killed"
    """It ends the runs whose records SQS gave up."""
    ONCE = "once"
    """It calls a function under ``@once`` with each record of a queue."""
    STARTS = "starts"
    """It starts runs for HTTP requests."""
    CALLED = "called"
    """It is under ``@once``, and whatever calls it is not made here. Only the table of its keys is."""


@dataclass(frozen=True)
class FoundFunction:
    """A handler of a module. ``attribute`` is its name there; ``together`` is that of ``lambda_handler``.

    ``once`` is the rule of a function under ``@once``, which has no flows.
    """

    module: str
    attribute: str
    kind: FunctionKind
    flows: tuple[AnyFlow, ...]
    stages: tuple[tuple[AnyFlow, AnyStage], ...] = ()
    together: bool = False
    once: OnceRule | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its flows, or that of its rule."""
        return (self.once.name,) if self.once is not None else tuple(flow.name for flow in self.flows)

    @property
    def owner(self) -> str:
        """Return the name of its first flow, or of its rule."""
        return self.names[0]

    @property
    def handler(self) -> str:
        """Return the handler's name for Lambda."""
        return f"{self.module}.{self.attribute}"


def find_functions(targets: Sequence[str], *, directory: Path | None = None) -> tuple[FoundFunction, ...]:
    """Find the functions of ``MODULE`` or ``MODULE:FLOW``, in the order of the targets and of their modules.

    ``MODULE:FLOW`` takes only the functions that serve the flow, which is named by its class or by its name; a function
    under ``@once`` goes by the name of that. A handler that two of the modules have is the first one's. Raises
    :class:`CannotDeploy` where there is none.
    """
    place = str(directory if directory is not None else Path.cwd())
    if place not in sys.path:
        sys.path.insert(0, place)
    functions: dict[tuple[int, FunctionKind], FoundFunction] = {}
    for target in targets:
        name, _, flow = target.partition(":")
        module = load_module(name)
        mine = [(key, function) for key, function in _handlers(module) if not flow or _serves(function, flow)]
        if not mine:
            raise CannotDeploy(target, (_none(module, flow),))
        for key, function in mine:
            functions.setdefault((key, function.kind), function)
    batched = {id(function.once) for function in functions.values() if function.kind is FunctionKind.ONCE}
    return tuple(
        function
        for function in functions.values()
        if function.kind is not FunctionKind.CALLED or id(function.once) not in batched
    )


def _handlers(module: ModuleType) -> Iterator[tuple[int, FoundFunction]]:
    for attribute, value in vars(module).items():
        if isinstance(value, CallbackHandler):
            flows = tuple(dict.fromkeys(value.flows))
            yield id(value), FoundFunction(module.__name__, attribute, FunctionKind.ANSWERS, flows)
        elif isinstance(value, StartHandler):
            yield id(value), FoundFunction(module.__name__, attribute, FunctionKind.STARTS, value.flows)
        elif isinstance(value, LambdaHandler) and value.from_dlq:
            yield id(value), FoundFunction(module.__name__, attribute, FunctionKind.KILLED, value.routes.flows)
        elif isinstance(value, LambdaHandler):
            flows = value.routes.flows
            served = tuple((flow, stage) for flow in flows for stage in value.routes.serves(flow))
            function = FoundFunction(module.__name__, attribute, FunctionKind.STAGES, flows, served, value.together)
            yield id(value), function
        elif ismethod(value) and isinstance(once := value.__self__, OnceFunction) and value == once.batch:
            yield id(once), FoundFunction(module.__name__, attribute, FunctionKind.ONCE, (), once=once.rule)
        elif isinstance(value, OnceFunction) and value.__module__ == module.__name__:
            yield id(value), FoundFunction(module.__name__, attribute, FunctionKind.CALLED, (), once=value.rule)


def _serves(function: FoundFunction, flow: str) -> bool:
    return flow in function.names or any(flow == served.__name__ for served in function.flows)


def _none(module: ModuleType, flow: str) -> str:
    handlers = [handler for _, handler in _handlers(module)]
    if handlers:
        served = sorted({name for handler in handlers for name in handler.names})
        return f"no handler of {module.__name__} serves {flow!r}; they serve {', '.join(served)}"
    beside = _beside(module)
    fix = "name the module that has them" + (f", such as {beside}" if beside else "")
    makers = "lambda_handler(…), callback_handler(…), start_handler(…) or dlq_handler(…)"
    return f"{module.__name__} has no handler made by {makers}, and no function under @once; {fix}"


def _beside(module: ModuleType) -> str | None:
    """Return a module in this package, or next to this module, that seems to have the handlers."""
    inside = [Path(place) for place in getattr(module, "__path__", ())]
    package = module.__name__ if inside else module.__name__.rpartition(".")[0]
    places = inside or [Path(module.__file__ or "").parent]
    return f"{package}.handlers".lstrip(".") if any((place / "handlers.py").is_file() for place in places) else None


def keys_of(rule: OnceRule, run_table: str) -> KeyTable:
    """Return the table of the keys of a function under ``@once``."""
    return rule.table if rule.table is not None else KeyTable(run_table, "pk", "sk", "ttl")


def key_actions(function: FoundFunction) -> tuple[str, ...]:
    """Return what a function under ``@once`` does in the table of its keys. The item of a limit's key is put."""
    has_limits = function.once is not None and bool(function.once.limits)
    return ("dynamodb:PutItem", "dynamodb:UpdateItem") if has_limits else ("dynamodb:UpdateItem",)


def plain_name(rule: OnceRule) -> str:
    """Return the rule's name in the signs that Lambda and SQS take."""
    return re.sub("[^A-Za-z0-9_-]", "-", rule.name)


def what_calls_it_needs(function: FoundFunction, settings: SettingsOptions) -> str:
    """Return which permissions the caller of a function under ``@once`` needs, where the template does not make it.

    Empty for any other function.
    """
    if function.once is None or function.kind is not FunctionKind.CALLED:
        return ""
    table, prefix = keys_of(function.once, settings.table).name, settings.prefix or "flowguard/"
    bucket = f", s3:GetObject and s3:PutObject on {settings.bucket}/{prefix}*" if settings.bucket is not None else ""
    where = f"{function.handler} is under @once({function.once.name!r})"
    actions = " and ".join(key_actions(function))
    return f"{where}, and what calls it is your own: give its role {actions} on the table {table!r}{bucket}"


def flows_of(functions: Iterable[FoundFunction]) -> tuple[AnyFlow, ...]:
    """Return the flows that the functions serve, each once.

    Raises :class:`CannotDeploy` for two of one name, whose messages would be mixed up.
    """
    flows: dict[str, type[Flow]] = {}
    for function in functions:
        for flow in function.flows:
            if flows.setdefault(flow.name, flow) is not flow:
                other = flows[flow.name]
                problem = (
                    f"{flow.__module__}.{flow.__name__} and {other.__module__}.{other.__name__} have the same name"
                )
                raise CannotDeploy(flow.name, (f"{problem}; rename one",))
    return tuple(flows.values())
