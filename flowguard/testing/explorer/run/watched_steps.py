"""Where stages record effects, recall results and raise errors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Protocol

from flowguard.flow import AnyFlow, is_flow
from flowguard.project.queues import queue_of
from flowguard.stage import AnyStage
from flowguard.step import Step
from flowguard.testing.explorer.record.history import History, LimitedHandler
from flowguard.testing.explorer.record.site import calling_site, raising_site
from flowguard.testing.explorer.run.debugger import Debugger
from flowguard.testing.explorer.run.worker import Worker
from flowguard.worker.hop_memory import HopMemory

_RECORDING: Final = ("put", "update", "delete", "newest_wins", "modify", "send", "group")


class Watching(Protocol):
    """The invocation that has the turn."""

    @property
    def worker(self) -> Worker | None: ...

    @property
    def history(self) -> History: ...

    @property
    def debugger(self) -> Debugger | None: ...


@contextmanager
def watched_steps(flows: Iterable[AnyFlow], watching: Watching) -> Iterator[None]:
    """Note the recording and raising lines of user code, and recalled names."""
    with ExitStack() as changed:
        changed.callback(setattr, HopMemory, "recall", HopMemory.recall)
        HopMemory.recall = _recalling(HopMemory.recall, watching)  # type: ignore[method-assign]  # for the block
        for name in _RECORDING:
            real = getattr(Step, name)
            setattr(Step, name, _noted(real, watching))
            changed.callback(setattr, Step, name, real)
        for stage in dict.fromkeys(stage for flow in flows for stage in flow.stages):
            before, handle = vars(stage).get("handle"), stage.handle
            changed.callback(_put_back, stage, before)
            stage.handle = _telling(handle, watching)  # type: ignore[method-assign]  # for the block
        yield


def _put_back(stage: Any, before: Any) -> None:
    if before is None:
        del stage.handle
    else:
        stage.handle = before


def _noted(real: Callable[..., Any], watching: Watching) -> Callable[..., Any]:
    @functools.wraps(real)
    def record(self: Any, *given: Any, **named: Any) -> Any:
        to = given[0] if given else named.get("table", named.get("to"))
        if watching.worker is not None:
            name = _inbox_of(to) if is_flow(to) else str(to).rpartition(":")[2]
            watching.history.recorded[name] = calling_site(until="_work")
        return real(self, *given, **named)

    return record


def _recalling(real: Callable[[HopMemory, str], str | None], watching: Watching) -> Callable[..., str | None]:
    @functools.wraps(real)
    def recall(self: HopMemory, name: str) -> str | None:
        if (worker := watching.worker) is not None:
            item = self.claim.item
            worker.entries[worker.turn].recalled.add((item.request_id, item.hop, name))
        return real(self, name)

    return recall


def _inbox_of(flow: AnyFlow) -> str:
    """Return the queue that the requests of a group go to."""
    return queue_of(flow, flow.entry())


def _telling(real: Callable[..., Any], watching: Watching) -> Callable[..., Any]:
    @functools.wraps(real)
    def handle(self: Any, *given: Any, **named: Any) -> Any:
        began = _began(self, given, watching)
        try:
            if watching.debugger is None or watching.worker is None:
                outcome = real(self, *given, **named)
            else:
                outcome = watching.debugger.called(watching.worker.entry.worker, real, self, *given, **named)
            if began is not None and isinstance(outcome, Coroutine):
                return _awaited(outcome, began, watching)
            return outcome
        except (Exception, SystemExit) as error:
            if (worker := watching.worker) is not None:
                worker.entries[worker.turn].raised_at = raising_site(error)
            if watching.debugger is not None:
                watching.debugger.raised(error)
            if began is not None:
                began.raised_after = len(watching.history.calls)
            raise

    return handle


async def _awaited(outcome: Coroutine[Any, Any, Any], began: LimitedHandler, watching: Watching) -> Any:
    try:
        return await outcome
    except (Exception, SystemExit):
        began.raised_after = len(watching.history.calls)
        raise


def _began(stage: AnyStage, given: tuple[Any, ...], watching: Watching) -> LimitedHandler | None:
    """Note that a handler of a stage with limits is called."""
    if watching.worker is None or not stage.limits:
        return None
    payload, step = given
    places = [limit.place_of(payload, step.object_id) for limit in stage.limits]
    keys = tuple(f"limit#{step._message.flow}#{stage.name}#{place}" for place in places if place is not None)
    hop, history = (step.object_id, step.request_id, step.hop), watching.history
    item = history.latest()[f"run#{step._message.flow}#{step.object_id}"]
    at, worker = step._clock.now(), watching.worker.entry.worker
    began = LimitedHandler(keys, hop, worker, len(history.calls), at, item.lease_until)
    history.limited.append(began)
    return began
