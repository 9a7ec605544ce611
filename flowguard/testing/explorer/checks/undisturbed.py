"""What the undisturbed run came to. A flow that never works cannot show what a fault breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from flowguard.errors import shown
from flowguard.events import EventType
from flowguard.protocol.run import Status
from flowguard.testing.explorer.checks.identity import side_messages
from flowguard.testing.explorer.checks.problem import UNDISTURBED, Problem
from flowguard.testing.explorer.record.history import DeliveryRecord, History
from flowguard.verdicts import AnswerVerdict

_LEFT: Final = (EventType.UNROUTABLE, EventType.UNTRUSTED, EventType.UNREADABLE)
"""The record is left in its queue, for no stage here is for it."""

_MISTAKES: Final = frozenset(
    error.__name__
    for error in (TypeError, AttributeError, KeyError, IndexError, NameError, UnboundLocalError, ZeroDivisionError)
)
"""What Python raises by itself. No handler means to end a run with it."""

COMING_LIKE_THIS: Final = "fails where answers and messages come like this"

SENT_TWICE: Final = "a message of a stage is sent twice though nothing goes wrong"


class UndisturbedEnd(NamedTuple):
    """The end of one run, or of one record of a plain function, in which nothing went wrong.

    ``of`` is the object's id, the function's queue, or of a message without an object its flow and stage. ``why`` is
    the error that it failed with.
    """

    name: str
    of: str
    status: str
    why: str | None

    @property
    def has_failed(self) -> bool:
        """Return whether it failed."""
        return self.status == Status.FAILED.value

    def __str__(self) -> str:
        """Format the end as a report shows it."""
        return f"{self.name} {self.status}" + (f", {self.why}" if self.why else "")


def undisturbed_ends(history: History) -> tuple[UndisturbedEnd, ...]:
    """Return the ends of runs, of records that plain functions read and of those that no stage could read."""
    return (*_runs(history), *_records(history), *_unread(history))


def not_run(history: History) -> dict[str, str]:
    """Return by its id why nothing ran for a message.

    It is for another flow, stage or release, nobody here believes it, or it belongs to a run that is not there.
    """
    why: dict[str, str] = {}
    ran: set[str] = set()
    for delivery in history.deliveries:
        refused = _refused(history, delivery)
        if refused is not None:
            why.setdefault(delivery.message_id, refused)
        elif not _is_parked(delivery):
            ran.add(delivery.message_id)
    return {name: text for name, text in why.items() if name not in ran}


def unawaited(history: History) -> dict[str, str]:
    """Return by its id why an answer changed nothing: no run waits for what it names."""
    last = {delivery.message_id: delivery for delivery in history.deliveries}
    return {
        name: f"UNKNOWN: no run waits for {shown(event.facts.get('name') or event.facts.get('id'))}"
        for name, delivery in last.items()
        for event in delivery.events
        if event.type is EventType.ANSWERED and event.facts.get("verdict") == AnswerVerdict.UNKNOWN
    }


def _refused(history: History, delivery: DeliveryRecord) -> str | None:
    """Return why no stage gets the record of a delivery. None where one does."""
    for event in delivery.events:
        if event.type in _LEFT:
            return str(event.facts.get("why"))
        if event.type is EventType.GONE and (message := event.message) is not None:
            run = f"{message.flow} of {message.object_id or 'no object'}"
            if all(version.key != f"run#{message.flow}#{message.object_id}" for version in history.versions):
                return f"GONE: it is of hop {message.hop} of a run that is not here, {run}; give what begins it too"
    return None


def _is_parked(delivery: DeliveryRecord) -> bool:
    """Answer whether a record was put among the dead letters as it came, for no release that can read it has come."""
    return bool(delivery.events) and delivery.events[0].type is EventType.PARKED


def unexpected(
    ends: Iterable[UndisturbedEnd], failing: Sequence[str], may_fail: Collection[str] = ()
) -> Iterator[Problem]:
    """Yield what fails though nothing goes wrong, and what was expected to fail and does not."""
    failed = {end.of for end in ends if end.has_failed}
    for end in ends:
        if end.has_failed and end.of not in failing and end.of not in may_fail:
            yield Problem(
                UNDISTURBED, end.name, f"fails though nothing goes wrong: {end.why}", Status.COMPLETED.value, end.status
            )
    for name in failing:
        if name not in failed and name not in may_fail:
            yield Problem(UNDISTURBED, name, "does not fail, and was expected to", Status.FAILED.value, "no failure")


def mistaken(ends: Iterable[UndisturbedEnd], meant: Collection[str]) -> Iterator[Problem]:
    """Yield what an error in code ends, of one order of records. What handlers reject there may be right."""
    for end in ends:
        if end.has_failed and end.of not in meant and (end.why or "").partition(":")[0] in _MISTAKES:
            why = f"{COMING_LIKE_THIS}, though no call fails: {end.why}"
            yield Problem(UNDISTURBED, end.name, why, Status.COMPLETED.value, end.status)


def lacking(history: History) -> Iterator[Problem]:
    """Yield what handlers need and there is not. It is no error of theirs, though it may look like one to them."""
    names = {
        delivery.worker: delivery.stage or delivery.queue or f"record {delivery.record}"
        for delivery in history.deliveries
    }
    for need in dict.fromkeys(lack.what for lack in history.needs):
        lack = next(lack for lack in history.needs if lack.what == need)
        yield Problem(UNDISTURBED, names.get(lack.worker) or "a function", need)


def sent_twice(history: History) -> Iterator[Problem]:
    """Yield what stages sent, and was sent a second time though nothing goes wrong: a person gets two mails.

    The second copy has the same id, and a stage drops it. A record that the user gives may bring one: it is one of two
    of the same run, or takes over a run of which nothing proves what was sent.
    """
    recorded = {(send.id, send.body) for send in side_messages(history)}
    given = Counter(map(_run_of, _given(history)))
    known: set[tuple[str | None, str]] = set()
    for message in history.posted:
        which = message.id, message.body
        if which not in recorded or not message.call:
            continue
        worked = history.deliveries[history.calls[message.call - 1].worker - 1]
        run = _run_of(worked)
        takes_over = worked.record not in history.senders and not _is_proved(history, worked)
        is_bidden = takes_over or given[run] > 1
        if which in known and not is_bidden:
            yield Problem(UNDISTURBED, message.to, SENT_TWICE, "one message", f"two with the id {message.id}")
        known.add(which)


def _is_proved(history: History, delivery: DeliveryRecord) -> bool:
    """Answer whether the item that a delivery found proves that its outbox was sent."""
    run = _run_of(delivery)
    if run is None:
        return False
    key, since = f"run#{run[0]}#{run[1]}", min(delivery.calls)
    before = [version.item for version in history.versions if version.key == key and version.call < since]
    return bool(before) and before[-1] is not None and before[-1].has_sent_beside_its_wait


def _given(history: History) -> Iterator[DeliveryRecord]:
    """Yield the first deliveries of the records that the user gives for stages."""
    for delivery in history.deliveries:
        if (
            delivery.receive == 1
            and delivery.record not in history.senders
            and not (delivery.settles or delivery.is_request)
        ):
            yield delivery


def _run_of(delivery: DeliveryRecord) -> tuple[str, str, str] | None:
    """Return the run of the first event of a delivery."""
    message = next((event.message for event in delivery.events if event.message is not None), None)
    return None if message is None else (message.flow, message.object_id, message.request_id)


def _runs(history: History) -> Iterator[UndisturbedEnd]:
    hung = history.hung
    for key, item in sorted(history.latest().items()):
        _, flow, object_id = key.split("#", 2)
        if hung is not None and not item.done and item.status is not Status.FAILED and not _is_plain(history, hung):
            yield UndisturbedEnd(f"{flow} of {object_id}", object_id, Status.FAILED.value, hung.why)
            continue
        yield UndisturbedEnd(f"{flow} of {object_id}", object_id, item.status.value, item.error)


def _unread(history: History) -> Iterator[UndisturbedEnd]:
    """Yield the messages that failed before a run began: their stages could not read them."""
    for delivery, event in history.events(EventType.FAILED):
        message = event.message
        if delivery.receive == 1 and message is not None and not message.object_id:
            stage = f"{message.flow}/{message.stage}"
            yield UndisturbedEnd(f"{stage} of no object", stage, Status.FAILED.value, str(event.facts.get("why")))


def _is_plain(history: History, delivery: DeliveryRecord) -> bool:
    return delivery.queue is not None and f"sqs:{delivery.queue}" in history.inner


def _records(history: History) -> Iterator[UndisturbedEnd]:
    last = {
        record: (delivery, acked)
        for delivery in history.deliveries
        if _is_plain(history, delivery)
        for record, acked in {delivery.record: delivery.acked, **delivery.batch}.items()
    }
    for record, (delivery, acked) in last.items():
        name = f"{delivery.queue}, record {record}"
        if acked:
            yield UndisturbedEnd(name, str(delivery.queue), Status.COMPLETED.value, None)
        else:
            yield UndisturbedEnd(name, str(delivery.queue), Status.FAILED.value, delivery.why or "not acknowledged")
