"""Checks of what refusals that never end lead to.

What is refused is parked, failed by name or left to SQS. It never loops and never stands in the way of the next
request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId
from flowguard.project.queues import queues_of, topics
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import RunItem, Status
from flowguard.sim.posted_messages import as_posted
from flowguard.testing.explorer.checks.failures import last_of_runs
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import CallRecord, DeliveryRecord, History
from flowguard.testing.explorer.record.parked import as_sent
from flowguard.testing.explorer.record.refusal import LastingRefusal
from flowguard.testing.explorer.record.schedule import DEATHS, FaultKind
from flowguard.testing.explorer.record.wait_messages import asks_in
from flowguard.testing.explorer.run.fault_effects import LAST_RECEIVE
from flowguard.worker.restart import restart_id

PARKED: Final = "parked"
"""The event of a message that lies among the dead letters instead of being sent."""

LOST: Final = "lost"
"""The event of a message of a replaced run that can neither be sent nor parked."""


_CLAIMS: Final = frozenset({"claim", "claim the call"})
"""Claims of hops, and of calls under ``@once``: nothing goes on where they are refused."""

_WITHOUT_VERDICT: Final = frozenset(
    {"save group", "remember", "note the back-off", "tell of a pause", "tell of its end"}
)
"""Calls on the run table that keep no record in its queue.

An attempt that cannot save or remember has failed like any other. Why a run rests is noted when its retry was sent, and
for nobody but those who look. So is that a key has paused itself.
"""

_JUDGED: Final = frozenset(
    {
        *(EventType.COMMITTED, EventType.WAITING, EventType.COMPLETED, EventType.FAILED, EventType.UNDONE),
        *(EventType.DONE, EventType.DUPLICATE, EventType.STALE, EventType.SUPERSEDED, EventType.IGNORED),
        *(EventType.GIVEN_UP, EventType.ATTACHED, EventType.KEPT, EventType.RESET, EventType.RETRIED),
        EventType.IN_LINE,
        *(EventType.ANSWERED, EventType.TIMED_OUT, EventType.WAS_RESET, EventType.WAS_CANCELLED),
    }
)
"""The ending of a record for each answer of the run table."""


@dataclass(frozen=True)
class Standing:
    """The refusals of a history that never end.

    ``dead_letters`` says that a flow's queue for them is among them, ``run_table`` that the run table is, ``tables``
    that another table is and ``texts`` that objects in S3 are gone. ``inboxes`` is where messages are read.
    """

    refusals: tuple[LastingRefusal, ...]
    run_table: bool
    tables: bool
    dead_letters: bool
    texts: bool
    inboxes: frozenset[str]

    @classmethod
    def of(cls, history: History, flows: Sequence[AnyFlow]) -> Standing:
        refusals = tuple(refusal.refusal for refusal in history.refusals)
        letters = {flow.dead_letters.short_name for flow in flows if isinstance(flow.dead_letters, Queue)}
        return cls(
            refusals,
            run_table=any(_is_run_table(history, refusal) for refusal in refusals),
            tables=any(refusal.service == "dynamodb" and not _is_run_table(history, refusal) for refusal in refusals),
            dead_letters=any(refusal.service == "sqs" and refusal.name in letters for refusal in refusals),
            texts=any(refusal.service == "s3" and not refusal.of_user for refusal in refusals),
            inboxes=history.inner | frozenset(_inboxes(flows)),
        )

    def refuses(self, to: Destination) -> bool:
        """Answer whether nothing is sent there any more."""
        match to:
            case Queue():
                service, name = "sqs", to.short_name
            case Topic():
                service, name = "sns", to.arn.rpartition(":")[2]
            case Bus():
                service, name = "events", to.name
            case Function():
                service, name = "lambda", to.name
            case _:
                assert_never(to)
        return any((refusal.service, refusal.name) == (service, name) for refusal in self.refusals)

    def to_be_sent(self, sends: Sequence[Send]) -> list[Send]:
        """Return the sends without those that can neither be sent nor parked.

        Where there are such sends the next hop's message is left out, too. Of an outbox whose text may be gone nothing
        is left.
        """
        if self.texts:
            return []
        left = [send for send in sends if not (self.dead_letters and self.refuses(send.to))]
        return left if len(left) == len(sends) else [send for send in left if not send.kind.is_last]

    def waits(self, history: History, key: str, item: RunItem) -> bool:
        """Answer whether a run that has not ended stands where it may: its message or the next is parked or kept."""
        if self.run_table or self.dead_letters:
            return True
        hops = (item.hop, item.hop + 1) if self.texts or self.tables else (item.hop + 1,)
        letters = [posted for posted in history.posted if posted.is_letter and posted.run == key]
        restart = restart_id(*_of_key(key), item)
        if restart is not None and any(letter.id == restart.request_id for letter in letters):
            return True
        return (item.done or self.tables) and any(
            letter.id == item.request_id and letter.place.hop in hops for letter in letters
        )

    def ends_elsewhere(self, history: History) -> bool:
        """Answer whether the end may differ from the undisturbed one.

        It may where a run failed by right, waits or was never started, and where nobody was asked.
        """
        if not self.refusals:
            return False
        if self.run_table or self.dead_letters:
            return True
        if any(item.status is not Status.COMPLETED for item in history.latest().values()):
            return True
        if any(item.status is Status.FAILED for item in last_of_runs(history).values()):
            return True
        asks = {request_id for (request_id, _), _ in asks_in(history)}
        left = [posted for posted in history.posted if posted.is_unsent]
        return any(as_sent(posted).to in self.inboxes or as_sent(posted).id in asks for posted in left)


def _of_key(key: str) -> tuple[str, ObjectId]:
    """Return the flow and the object of a run item's key."""
    _, flow, object_id = key.split("#", 2)
    return flow, ObjectId(object_id)


def _inboxes(flows: Sequence[AnyFlow]) -> Iterator[str]:
    """Yield the addresses that posted messages have for queues and topics of stages."""
    for flow in flows:
        yield from (f"sqs:{queue}" for stage in flow.stages for queue in queues_of(flow, stage))
    yield from (f"sns:{topic}" for topic in topics(flows).values())


def _is_run_table(history: History, refusal: LastingRefusal) -> bool:
    tables = {made.target for made in history.calls if str(made.site) in _CLAIMS}
    return refusal.service == "dynamodb" and refusal.name in tables


def refusals_are_settled(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I6: what is refused for good is FAILED or parked by name and leaves the object to the next request."""
    if not history.refusals:
        return
    standing = Standing.of(history, flows)
    if standing.run_table:
        yield from _nothing_else_happens(history, standing)
        return
    yield from _parked_is_reported(history)
    if not standing.dead_letters:
        yield from _nothing_goes_round(history)
        yield from _failures_name_it(history)
    yield from _next_requests_go_through(history)


def _nothing_else_happens(history: History, standing: Standing) -> Iterator[Problem]:
    """Check that a record whose worker the run table refuses stays in its queue and leads to nothing."""
    refused: dict[int, int] = {}
    for made in history.calls:
        if made.fault is FaultKind.REFUSED and _is_own(made, "dynamodb") and str(made.site) not in _WITHOUT_VERDICT:
            refused.setdefault(made.worker, made.number)
    committed = set(_committed(history))
    for delivery in history.deliveries:
        number = refused.get(delivery.worker)
        if delivery.acked and number is not None and not _was_judged(delivery) and not _looks(history, number):
            yield Problem(
                "I6", delivery.queue or "a function", "a record was acked, though the run table denies access"
            )
    for message in history.posted:
        if message.call and not message.from_user:
            worker = history.calls[message.call - 1].worker
            is_later = message.call > refused.get(worker, message.call)
            if is_later and (worker, message.id) not in committed and not _is_of_another(history, worker):
                yield Problem(
                    "I6", message.to, "a message was sent, though the run table denies access", None, message.id
                )


def _looks(history: History, refused: int) -> bool:
    """Answer whether the worker of a refused call had sent the look of its hop before. That one comes in its place."""
    worker = history.calls[refused - 1].worker
    looks = [message.call for message in history.posted if message.place.turn is not None and message.call]
    return any(call < refused and history.calls[call - 1].worker == worker for call in looks)


def _was_judged(delivery: DeliveryRecord) -> bool:
    """Answer whether a record that shares its worker with others had an answer of the run table."""
    return delivery.shared and bool({event.type for event in delivery.events} & _JUDGED)


def _is_of_another(history: History, worker: int) -> bool:
    """Answer whether what a worker sends after a refusal may be of a record that it had brought to an end before."""
    return any(map(_was_judged, history.given_to(worker)))


def _committed(history: History) -> Iterator[tuple[int, str | None]]:
    """Yield the worker of each commit of a wait with the ids that it has to send, whatever is refused after it."""
    for version in history.versions:
        item = version.item
        if item is not None and item.status is Status.WAITING and item.outbox is not None:
            posted = (as_posted(send, 0) for send in item.outbox.sends)
            yield from ((version.worker, message.id) for message in posted)


def comes_until_it_expires(history: History, flows: Sequence[AnyFlow]) -> bool:
    """Answer whether a message may come until its queue deletes it: the dead letters refuse it for good."""
    return Standing.of(history, flows).dead_letters


def _nothing_goes_round(history: History) -> Iterator[Problem]:
    """Check that a record which fails the same way each time is not left for SQS to give up."""
    if any(choice.kind in DEATHS and choice.more == LAST_RECEIVE for choice in history.schedule.choices):
        return
    claimed = {made.worker for made in history.calls if str(made.site) == "claim"}
    known = {delivery.record for delivery in history.deliveries if delivery.worker in claimed}
    is_users = all(refusal.refusal.of_user for refusal in history.refusals)
    for delivery in history.deliveries:
        if is_users and delivery.record not in known:  # user code failed before it could be claimed, as a validator may
            continue
        if (
            is_users and delivery.envelope is not None and delivery.envelope.retried_in_place
        ):  # each attempt is a receive
            continue
        if delivery.from_dlq and f"sqs:{delivery.queue}" not in history.inner:
            text = f"a record was delivered until SQS gave it up, though {_named(history)} for good"
            yield Problem("I6", delivery.queue or "a function", text)
            return


def _parked_is_reported(history: History) -> Iterator[Problem]:
    """Check that a parked message has the reason in its letter and is reported by an event.

    A worker that got no answer from SQS does not know that it was parked. The worker that parks it again reports it.
    """
    letters = [
        (letter, history.given_to(history.calls[letter.call - 1].worker))
        for letter in history.posted
        if (letter.is_unsent or letter.says_to) and letter.call
    ]
    reported = {
        letter.id for letter, given in letters if given[0].died or any(_is_parked(event) for event in _of(given))
    }
    for letter, given in letters:
        error = letter.place.first_error
        if error is None or not any(refused.refusal.answer.code in str(error) for refused in history.refusals):
            yield Problem(
                "I7", letter.to, "a parked message does not name what refused it", _codes(history), str(error)
            )
        if letter.id not in reported:
            yield Problem("I7", letter.to, "a message was parked, and nothing reports it", PARKED, _last(given))


def _failures_name_it(history: History) -> Iterator[Problem]:
    """Check that a run which failed by the refusal of a table names that refusal."""
    refused = {
        made.worker
        for made in history.calls
        if made.fault is FaultKind.REFUSED and str(made.site) == "commit" and _is_own(made, "dynamodb")
    }
    for version in history.versions:
        item = version.item
        if item is None or version.worker not in refused or item.status is not Status.FAILED or item.error is None:
            continue
        if not any(code in item.error for code in _codes(history)):
            yield Problem("I6", version.key, "a failed run does not name what refused it", _codes(history), item.error)


def _next_requests_go_through(history: History) -> Iterator[Problem]:
    if (after := history.after) is None:
        return
    done = {
        (version.key, version.item.request_id)
        for version in after.versions
        if version.item is not None and version.item.done
    }
    done |= {
        (f"run#{event.message.flow}#{event.message.object_id}", event.message.request_id)
        for _, event in after.events(EventType.ATTACHED, EventType.KEPT, EventType.PARKED)
        if event.message
    }
    for key, request in history.asked.items():
        if (key, request) not in done and not _made_way(history, after, key):
            text = f"a next request for the object is not carried out, though only {_named(history)}"
            yield Problem("I6", key, text, request)


def _made_way(before: History, after: History, key: str) -> bool:
    """Answer whether a new request of another flow took the object and was carried out.

    It may have the id of an earlier one, where its flow names requests by their payload. Its time is another.
    """
    known = {_run(version.item) for version in before.versions if version.key == key and version.item is not None}
    later = (version.item for version in after.versions if version.key == key and version.item is not None)
    return any(item.done and _run(item) not in known for item in later)


def _run(item: RunItem) -> tuple[str, int]:
    return item.request_id, item.requested_at


def _is_own(made: CallRecord, service: str) -> bool:
    return made.service == service and not made.site.is_users


def _is_parked(event: Event) -> bool:
    return event.type.value == PARKED


def _of(given: Sequence[DeliveryRecord]) -> list[Event]:
    """Return the events of all records that a worker got."""
    return [event for delivery in given for event in delivery.events]


def _last(given: Sequence[DeliveryRecord]) -> str | None:
    events = _of(given)
    return events[-1].type.value if events else None


def _codes(history: History) -> list[str]:
    return [refusal.refusal.answer.code for refusal in history.refusals]


def _named(history: History) -> str:
    return ", ".join(f"{refused.refusal} refuses" for refused in history.refusals)
