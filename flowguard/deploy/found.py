"""The Lambda functions that a module defines, each with its flows and stages."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType

from flowguard.callback_function import CallbackHandler
from flowguard.deploy.problems import CannotDeploy
from flowguard.flow import AnyFlow, Flow
from flowguard.handler import LambdaHandler
from flowguard.sim.loading import load_module
from flowguard.stage import AnyStage


class FunctionKind(Enum):
    """The kind of a function."""

    STAGES = "stages"
    ANSWERS = "answers"
    KILLED = "killed"
    """It ends the runs whose records SQS gave up."""


@dataclass(frozen=True)
class FoundFunction:
    """A handler of a module. ``attribute`` is its name there; ``together`` is that of ``lambda_handler``."""

    module: str
    attribute: str
    kind: FunctionKind
    flows: tuple[AnyFlow, ...]
    stages: tuple[tuple[AnyFlow, AnyStage], ...] = ()
    together: bool = False

    @property
    def handler(self) -> str:
        """Return the handler's name for Lambda."""
        return f"{self.module}.{self.attribute}"


def find_functions(targets: Sequence[str], *, directory: Path | None = None) -> tuple[FoundFunction, ...]:
    """Find the functions of ``MODULE`` or ``MODULE:FLOW``, in the order of the targets and of their modules.

    ``MODULE:FLOW`` takes only the functions that serve the flow, which is named by its class or by its name. A handler
    that two of the modules have is the first one's. Raises :class:`CannotDeploy` where there is none.
    """
    place = str(directory if directory is not None else Path.cwd())
    if place not in sys.path:
        sys.path.insert(0, place)
    found: dict[int, FoundFunction] = {}
    for target in targets:
        name, _, flow = target.partition(":")
        module = load_module(name)
        mine = [(key, one) for key, one in _handlers(module) if not flow or _serves(one, flow)]
        if not mine:
            raise CannotDeploy(target, (_none(module, flow),))
        for key, one in mine:
            found.setdefault(key, one)
    return tuple(found.values())


def _handlers(module: ModuleType) -> Iterator[tuple[int, FoundFunction]]:
    for attribute, value in vars(module).items():
        if isinstance(value, CallbackHandler):
            flows = tuple(dict.fromkeys(value.flows))
            yield id(value), FoundFunction(module.__name__, attribute, FunctionKind.ANSWERS, flows)
        elif isinstance(value, LambdaHandler) and value.from_dlq:
            yield id(value), FoundFunction(module.__name__, attribute, FunctionKind.KILLED, value.routes.flows)
        elif isinstance(value, LambdaHandler):
            flows = value.routes.flows
            served = tuple((flow, stage) for flow in flows for stage in value.routes.serves(flow))
            found = FoundFunction(module.__name__, attribute, FunctionKind.STAGES, flows, served, value.together)
            yield id(value), found


def _serves(function: FoundFunction, flow: str) -> bool:
    return any(flow in (one.name, one.__name__) for one in function.flows)


def _none(module: ModuleType, flow: str) -> str:
    handlers = [one for _, one in _handlers(module)]
    if handlers:
        served = sorted({one.name for handler in handlers for one in handler.flows})
        return f"no handler of {module.__name__} serves {flow!r}; they serve {', '.join(served)}"
    beside = _beside(module)
    fix = "name the module that has them" + (f", such as {beside}" if beside else "")
    return f"{module.__name__} has no handler made by lambda_handler(…), callback_handler(…) or dlq_handler(…); {fix}"


def _beside(module: ModuleType) -> str | None:
    """Return a module next to this one that seems to have the handlers."""
    package = module.__name__.rpartition(".")[0]
    here = Path(module.__file__ or "").parent
    return f"{package}.handlers".lstrip(".") if (here / "handlers.py").is_file() else None


def flows_of(functions: Iterable[FoundFunction]) -> tuple[AnyFlow, ...]:
    """Return the flows that the functions serve, each once.

    Raises :class:`CannotDeploy` for two of one name, whose messages would be mixed up.
    """
    found: dict[str, type[Flow]] = {}
    for function in functions:
        for flow in function.flows:
            if found.setdefault(flow.name, flow) is not flow:
                other = found[flow.name]
                problem = (
                    f"{flow.__module__}.{flow.__name__} and {other.__module__}.{other.__name__} have the same name"
                )
                raise CannotDeploy(flow.name, (f"{problem}; rename one",))
    return tuple(found.values())
