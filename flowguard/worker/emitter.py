"""The reports to the observer of what happened to a message. They are in the events' own words."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, assert_never

from flowguard.errors import EnvelopeError, OtherRelease, Untrusted
from flowguard.events import Event, EventType, Observer
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import ENDED, Claim, Commit, Status
from flowguard.spans import Phase, Span, open_span, opens_spans
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.worker.failure_note import veiled
from flowguard.worker.ports import Refusal
from flowguard.worker.routing import Arrival, Unroutable


class Emitter:
    """Reports each moment of a message's way to one observer."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.opens_spans = opens_spans(observer)
        """Whether the observer opens anything around a phase."""

    def emit(self, type_: EventType, arrival: Arrival | None, **facts: Any) -> None:
        self._observer(Event(type_, arrival.message if arrival is not None else None, facts))

    def span(self, phase: Phase, *messages: Message, **facts: Any) -> AbstractContextManager[object]:
        """Return what the observer opens around a phase of these messages. Each may be named several times."""
        if not self.opens_spans:
            return nullcontext()
        each = {id(message): message for message in messages}
        return open_span(self._observer, Span(phase, tuple(each.values()), facts))

    def working_on(self, arrival: Arrival) -> AbstractContextManager[object]:
        """Return what the observer opens around one message's way through its stage."""
        envelope = arrival.envelope
        return self.span(Phase.MESSAGE, arrival.message, record=envelope.message_id, source=envelope.source.value)

    def broken(self, envelope: Envelope, arrival: Arrival | None, error: Exception, why: str) -> None:
        """Report what outside its stage keeps a record in its queue."""
        field = {"field": error.field} if isinstance(error, Untrusted) else {}
        self.emit(_event_of(error), arrival, record=envelope.message_id, **field, why=why)

    def claimed(self, arrival: Arrival, claim: Claim) -> None:
        before = claim.before
        if before is not None and before.request_id != claim.message.request_id and before.status not in ENDED:
            self.emit(EventType.TOOK_OVER, arrival, from_request=before.request_id, from_stage=before.stage)
            if arrival.flow.on_conflict is not OnConflict.SUPERSEDE and before.reset_at is None:
                self.emit(EventType.ABANDONED, arrival, from_request=before.request_id)
        kills = {"kills": claim.item.kills} if claim.item.kills else {}
        self.emit(EventType.CLAIMED, arrival, epoch=claim.item.epoch, **kills)

    def committed(self, arrival: Arrival, claim: Claim, commit: Commit) -> None:
        event_type, facts = _of_commit(arrival, commit)
        self.emit(event_type, arrival, epoch=claim.item.epoch, **facts)

    def sent(self, message: Message, send: Send, refusal: Refusal | None) -> None:
        """Report a send that was taken or refused."""
        event, why = (EventType.SENT, {}) if refusal is None else (EventType.NOT_SENT, {"why": refusal.why})
        self._observer(Event(event, message, {**_facts(send), **why}))

    def parked(self, message: Message, send: Send, why: str) -> None:
        """Report a send that was refused for good and lies among the dead letters."""
        self._observer(Event(EventType.PARKED, message, {**_facts(send), "why": why}))


def _event_of(error: Exception) -> EventType:
    if isinstance(error, Unroutable | OtherRelease):
        return EventType.UNROUTABLE
    if isinstance(error, Untrusted):
        return EventType.UNTRUSTED
    return EventType.UNREADABLE if isinstance(error, EnvelopeError) else EventType.BROKEN


def _facts(send: Send) -> dict[str, Any]:
    return {"kind": send.kind.value, "to": str(send.to), "id": send.id, "delay": send.delay}


def _of_commit(arrival: Arrival, commit: Commit) -> tuple[EventType, dict[str, Any]]:
    """Return the event that reports a commit, and its facts."""
    if commit.failed is not None:
        note = commit.failed.error
        return EventType.FAILED, {"error": note.type, "why": note.text, "on_failed": arrival.flow.on_failed}
    writes = {"writes": len(commit.writes)}
    if commit.undone:
        return EventType.UNDONE, writes
    match commit.status:
        case Status.RUNNING:
            return EventType.COMMITTED, writes
        case Status.WAITING:
            group = commit.wait.plan.group if commit.wait is not None else None
            names = sorted(commit.wait.plan.names) if commit.wait is not None else []
            names = names if group is None else [f"a group of {group.size:,}"]
            return EventType.WAITING, {**writes, "names": ", ".join(names)}
        case Status.COMPLETED:
            return EventType.COMPLETED, writes
        case Status.FAILED:
            error = None if commit.error is None else veiled(arrival.flow, commit.error)
            return EventType.FAILED, {"error": error.type if error else "", "why": error.text if error else ""}
        case _:
            assert_never(commit.status)
