"""The third step of a message: its stage runs. What the stage asks for is planned, and nothing of it has happened."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from flowguard.errors import Cancelled, GroupUnsaved, OtherRelease, RunFailed
from flowguard.outcome import Outcome, WaitForGroup
from flowguard.payload.encoding import decode
from flowguard.protocol.groups import group_key
from flowguard.protocol.run import Commit, RunItem
from flowguard.recorded.table_writes import RefusedWrites
from flowguard.spans import Phase
from flowguard.stage import AnyStage
from flowguard.step import Before, Step
from flowguard.wire.message import Message
from flowguard.wire.trace_context import is_sampled
from flowguard.worker.children import children_cancelled
from flowguard.worker.emitter import Emitter
from flowguard.worker.group_parts import SavedGroup, keep_part, read_parts
from flowguard.worker.hop_memory import GoesOn, HopMemory
from flowguard.worker.hop_planner import planner_of
from flowguard.worker.leases import keeps_lease
from flowguard.worker.limits import places_of
from flowguard.worker.plan import Planner
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival

if TYPE_CHECKING:
    from flowguard.recorded.read_answers import EndedGroup
    from flowguard.worker.event_loop import EventLoop

KEPT_TO_COMMIT_MS = 2_000
"""Kept of a claim for the commit, while the requests of a group are saved."""


class HandlePhase:
    """Calls handlers, and plans the commits of what they ask for. Closes what handlers of one invocation have shared.

    ``outside`` is where handlers run: others may go on meanwhile.
    """

    def __init__(
        self, services: Services, emitter: Emitter, outside: Callable[[], AbstractContextManager[None]] | None
    ) -> None:
        self._services = services
        self._emitter = emitter
        self._outside = outside
        self._loop: EventLoop | None = None

    def close(self) -> None:
        """Close what the handlers of this invocation have shared."""
        if self._loop is not None:
            self._loop.close()

    def planned(self, arrival: Arrival, memory: HopMemory, refused: RefusedWrites, calls: int) -> Commit:
        """Call the handler, and plan the commit of what it asks for.

        Raises :class:`flowguard.worker.hop_memory.NoPlace` where it has to wait for a place of its stage's limits.
        """
        if not calls:  # what is there later is of this very attempt
            if arrival.envelope.source.is_stream or arrival.flow.debounce is not None:
                from flowguard.worker.kept_back import keep_back  # most hops are kept back by nothing

                keep_back(self._services, self._emitter, arrival, memory.claim)
            memory.begin(partial(places_of, self._services, self._emitter, arrival))
        claim = memory.claim
        if (why := claim.item.cancelled_because or arrival.message.cancelled) and claim.item.own_failure is None:
            raise Cancelled(why)
        if arrival.problem is not None or arrival.stage is None:
            raise arrival.problem or RunFailed("the message is for no stage")
        if claim.item.lost is not None:
            raise claim.item.lost
        stage, message, planner = arrival.stage, arrival.message, planner_of(self._services, arrival, claim)
        services, stored, payload = self._services, claim.item.state, arrival.payload
        if message.resumed:
            from flowguard.worker.resumed_payload import resumed_payload  # most hops come after no wait

            payload = resumed_payload(stage, claim.item.wait)
        elif payload is None or calls:  # a handler that is called again may have changed what it was given
            payload = _read(stage, message, claim.item)
        state = stage.state() if stored is None else _written_before(stage.state, stored, "the state")
        memory.take_places(payload)  # last: who has a place calls its handler
        step: Step[Any] = Step(
            message,
            state=state,
            clock=services.clock,
            committed_at=planner.moment,
            signer=services.signer,
            tokens=services.tokens,
            before=Before(
                refused,
                memory,
                left=None if claim.item.left is None else partial(memory.calls.made, claim.item.left.read),
                left_error=_left_error(claim.item),
                tables=memory.calls.of_tables(services.tables),
                calls=calls,
                epoch=claim.item.epoch,
                leased=keeps_lease(arrival.flow, stage),
                debugs=services.debug_sampled and is_sampled(message.trace),
                group=self._ended_group(arrival, memory),
                reset_by=claim.item.reset_by,
                claim=claim,
                children=lambda why: children_cancelled(arrival.flow, message, claim.item, why, services.signer),
            ),
        )
        if self._outside is None and not self._emitter.opens_spans:  # mostly: nobody waits outside, or looks on
            outcome = self._outcome(stage().handle(payload, step))
        else:
            with self._emitter.span(Phase.HANDLE, message):
                with nullcontext() if self._outside is None else self._outside():
                    returned = stage().handle(payload, step)
                outcome = self._outcome(returned)
        ended_at = services.clock.now()
        planned = self._saved(outcome, planner, memory, calls) if isinstance(outcome, WaitForGroup) else outcome
        return planner.ended(planned, step)._replace(ended_at=ended_at)

    def _ended_group(self, arrival: Arrival, memory: HopMemory) -> EndedGroup | None:
        wait = memory.claim.item.wait
        group = wait.plan.group if wait is not None and wait.plan is not None else None
        return None if group is None else memory.calls.ended_group(self._services.store.waits, arrival.flow.name, group)

    def _saved(self, outcome: WaitForGroup, planner: Planner, memory: HopMemory, calls: int) -> SavedGroup:
        """Save the requests of a group. They are this attempt's own: nothing asks them before its commit.

        Raises :class:`GoesOn` where they need another invocation. A hop that was only read remembers nothing.
        """
        item, clock, groups = memory.claim.item, self._services.clock, self._services.store.waits.groups
        until = item.lease_until - KEPT_TO_COMMIT_MS
        of_group = planner.of_group(group_key(item.request_id, item.requested_at, item.hop, item.owner, calls))
        parts = read_parts(memory)
        saved = of_group.saved(outcome, partial(memory.calls.save, groups), lambda: clock.now() < until, parts)
        if isinstance(saved, SavedGroup):
            return saved
        if memory.claim.unwritten is not None:
            raise GroupUnsaved(planner.message.stage, 0)
        keep_part(memory, len(parts), saved)
        raise GoesOn(saved.requests)

    def _outcome(self, returned: Outcome | Coroutine[Any, Any, Outcome]) -> Outcome:
        """Return what a handler has returned, or what one returns that awaits."""
        if not isinstance(returned, Coroutine):
            return returned
        from flowguard.worker.event_loop import EventLoop  # a function whose handlers await nothing starts quicker

        if self._loop is None:
            self._loop = EventLoop()
        return self._loop.result_of(returned)


def _read(stage: AnyStage, message: Message, item: RunItem) -> Any:
    """Decode the payload. Raises :class:`RunFailed` for a request of whatever sender that cannot be read.

    Where a hop before has written it, or a handler may have read it, it is of another release.
    """
    payload_name = f"the payload of {stage.name}"
    if message.hop > 1 or _may_have_been_read(message, item):
        return _written_before(stage.payload, message.body, payload_name)
    return decode(stage.payload, message.body, what=payload_name)


def _written_before(kind: type[Any], text: str, payload_name: str) -> Any:
    """Decode what a release could read. Raises :class:`OtherRelease` where that was another one."""
    try:
        return decode(kind, text, what=payload_name)
    except RunFailed as error:
        raise OtherRelease(str(error)) from None


def _may_have_been_read(request: Message, item: RunItem) -> bool:
    """Answer whether a handler may have read the request: it failed, was killed, or has remembered something.

    A letter that was sent back was read before its claim. What a flow asks for, its own code has made.
    """
    remembers = item.memo is not None and item.memo.is_of(request.request_id, request.hop)
    return bool(request.retry or item.kills or request.answer_to) or remembers


def _left_error(item: RunItem) -> str | None:
    """Return the error of the run before, if that failed and was not undone."""
    failed = item.failed
    return None if failed is None or failed.undone or item.own_failure is not None else str(failed.error)
