"""Lambda functions that know nothing of flowguard: any ``handler(event, context)`` with the queue that it reads.

    explore(PlainFunction("orders", handler), [sqs_event("orders", {"order_id": "o1"})], tables={"totals": "day"})

Each runs in execution environments, as Lambda has it::

    record ── an idle environment, or else a cold start ──▶ handler(event, context) ──▶ idle again
                       ▲ the module is loaded anew                    └── killed: the environment is gone
"""

from __future__ import annotations

import inspect
import itertools
import json
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from flowguard.clock import Clock
from flowguard.errors import SettingsError
from flowguard.sim.functions import ServedFunction
from flowguard.sim.reused_clients import SameClients
from flowguard.testing.context import FakeContext
from flowguard.testing.explorer.run.module_state import KeptValues, Memory

Handler: TypeAlias = Callable[[Any, Any], Any]

_SECOND = 1000
_MOST_RECORDS = 10_000


@dataclass(frozen=True, slots=True)
class PlainFunction:
    """A handler with ``queue`` as the queue that it reads and ``topic`` as the topic in front of it. Both are names.

    ``visibility`` is the queue's visibility timeout, ``timeout`` how long the function may run, in seconds: as long as
    the visibility timeout, where nothing else is said. A worker that is held up for longer is dead.

    ``batch`` is how many records it gets at once at most. ``partial`` says that its event source mapping has
    ``ReportBatchItemFailures``. Without it only an exception is a failure, and one of all records.

    One that is ``direct`` reads no queue. It is invoked with each message as its event: what SNS, EventBridge or API
    Gateway hand to a function, or any payload. Then ``queue`` is just its name. As of an asynchronous invocation, a
    failed one is made twice more, and at last goes to its on-failure destination.

    What the handler's own module keeps (caches, objects of libraries) is new in each execution environment: the module
    is loaded once more. Its boto3 clients are the same ones: they keep nothing. What other modules keep is shared, and
    so is everything where the handler cannot be found in its module by its name, as a function within a function.
    """

    queue: str
    handler: Handler
    visibility: int = 30
    timeout: int | None = None
    partial: bool = True
    topic: str | None = None
    direct: bool = False
    batch: int = 1

    def __post_init__(self) -> None:
        if not callable(self.handler):
            raise SettingsError(self.queue, f"{self.handler!r} is no handler; give a function of event and context")
        if inspect.iscoroutinefunction(self.handler):
            fix = "give what is deployed: def handler(event, context): return asyncio.run(…)"
            raise SettingsError(self.queue, f"{self.handler!r} is a coroutine, which Lambda does not await; {fix}")
        batch: object = self.batch
        if isinstance(batch, bool) or not isinstance(batch, int) or not 0 < batch <= _MOST_RECORDS:
            raise SettingsError(self.queue, f"a batch of {batch!r}; Lambda hands out 1 to {_MOST_RECORDS} records")
        if self.direct and self.batch > 1:
            raise SettingsError(self.queue, "what is invoked directly gets no batch; leave out batch or direct")
        if not 0 < (self.visibility if self.timeout is None else self.timeout) <= self.visibility:
            given = f"a timeout of {self.timeout} s, a visibility timeout of {self.visibility} s"
            raise SettingsError(self.queue, f"{given}: Lambda wants the first from 1 s, and no longer than the second")

    @property
    def name(self) -> str:
        """Return the name of its queue, by which reports call it."""
        return self.queue

    @property
    def module(self) -> ModuleType | None:
        """Return the module in which the handler was written."""
        return _module_of(self.handler)

    @property
    def is_loaded_anew(self) -> bool:
        """Answer whether each execution environment has the handler's module anew."""
        return _source_of(self.handler) is not None

    def deployed(self, clock: Clock, clients: SameClients, memory: Memory | None = None) -> ServedFunction:
        """Return the function with no execution environment yet. The modules of all environments share the clients.

        ``memory`` notes what they keep.
        """
        timeout = self.timeout * _SECOND if self.timeout is not None and self.timeout < self.visibility else None
        return ServedFunction(
            self.queue,
            _Deployed(self, clock, clients, memory or Memory([])),
            self.visibility * _SECOND,
            timeout,
            plain=True,
            batch=self.batch,
        )


class _Deployed:
    """The Lambda function that the event source mapping invokes."""

    def __init__(self, function: PlainFunction, clock: Clock, clients: SameClients, memory: Memory) -> None:
        self._function = function
        self._clock = clock
        self._clients = clients
        self._memory = memory
        self._idle: list[_Environment] = []
        self._numbers = itertools.count(1)

    def __call__(self, event: Any) -> Any:
        """Return the records to be delivered again, each by its id. Raises what the handler does."""
        direct = self._function.direct
        records = [] if direct else [record["messageId"] for record in event["Records"]]
        context = self._context()
        warm = self._idle.pop() if self._idle and not self._memory.is_lost else None
        environment = warm if warm is not None else _cold(self._function.handler, self._clients)
        try:
            answer = environment.handler(event, context)
        except Exception:  # Python's runtime goes on after one; a killed environment is gone
            self._keep(environment)
            raise
        self._keep(environment)
        failed = _failed(answer, records) if self._function.partial and not direct else []
        return {"batchItemFailures": [{"itemIdentifier": record} for record in failed]}

    def _keep(self, environment: _Environment) -> None:
        self._memory.after(environment.kept)
        self._idle.append(environment)

    def _context(self) -> FakeContext:
        seconds = self._function.timeout or self._function.visibility
        return FakeContext(
            self._function.queue,
            timeout=timedelta(seconds=seconds),
            clock=self._clock,
            aws_request_id=f"00000000-0000-4000-8000-{next(self._numbers):012d}",
        )


def _failed(answer: Any, records: list[str]) -> list[str]:
    """Return the records that an event source mapping takes to have failed.

    Those are all records for an answer that names one which is not there, or none by its right name. An empty answer is
    a success, and so is one with no list of failures.
    """
    answer = json.loads(json.dumps(answer))  # as the runtime sends it; what cannot be sent is a failure
    failures = answer.get("batchItemFailures") if isinstance(answer, dict) else None
    if not failures:
        return []
    try:
        named = [failure["itemIdentifier"] for failure in failures]
    except (TypeError, LookupError):
        return records
    return named if set(named) <= set(records) else records


# -- execution environments --------------------------------------------------------------------------------------------


class _Environment(NamedTuple):
    """An execution environment: the handler of a module that was loaded for it, and what the module kept then."""

    handler: Handler
    kept: KeptValues | None


def _cold(handler: Handler, clients: SameClients) -> _Environment:
    """Load the handler's module once more and return its handler.

    Returns the same handler where that cannot be done.
    """
    if (source := _source_of(handler)) is None:
        return _Environment(handler, None)
    module, spec, loader = source
    fresh = module_from_spec(spec)
    sys.modules[module.__name__] = fresh  # dataclasses and models look their module up while it is loaded
    try:
        with clients.kept():
            loader.exec_module(fresh)
    finally:
        sys.modules[module.__name__] = module
    return _Environment(_named(fresh, _path(handler)), KeptValues(fresh))


def _source_of(handler: Handler) -> tuple[ModuleType, ModuleSpec, Loader] | None:
    """Return what a handler's module can be loaded from once more. None where that would not bring the handler."""
    module = _module_of(handler)
    spec = module.__spec__ if module is not None else None
    if module is None or spec is None or spec.loader is None or module.__name__ == "__main__":
        return None
    return (module, spec, spec.loader) if _named(module, _path(handler)) == handler else None


def _module_of(handler: Handler) -> ModuleType | None:
    """Return the module that a handler is of. A method is of its object's, which a decorator has named."""
    return sys.modules.get(getattr(getattr(handler, "__self__", handler), "__module__", ""))


def _path(handler: Handler) -> str:
    """Return the handler's name in its module. That of a method begins with the object there that it is bound to."""
    bound_to, module = getattr(handler, "__self__", None), _module_of(handler)
    if bound_to is None or module is None:
        return str(getattr(handler, "__qualname__", ""))
    names = [name for name, value in vars(module).items() if value is bound_to]
    return f"{names[0]}.{handler.__name__}" if names else ""


def _named(module: ModuleType, path: str) -> Any:
    try:
        return operator.attrgetter(path)(module)
    except AttributeError:
        return None
