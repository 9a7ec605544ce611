"""How long copies of a message go about, and how long its receiver remembers the first, in whole days.

A sender commits on day 0 and may be sent for again, by its own record or by whoever takes its object over. Each copy
may be read for as long as a queue and its dead-letter queue keep it. The receiver has an item of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

from flowguard.destinations import Queue
from flowguard.flow import Flow
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol import claims
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import ClaimRequest, RunItem, Status
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.verdicts import Verdict
from flowguard.wire.message import Message
from flowguard.worker.lifetimes import Lifetimes

NAME = "retention"
ABOUT = "copies of a message outlive the first one; does its receiver remember it?"
RETENTION = 2
LAST_DAY = 4 * RETENTION
MOST_COPIES = 2
_DAY = 86_400_000
_COMMIT = 1_000 * _DAY


class Receive(Stage[dict[str, Any]], name="receive"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Receiver(Flow, name="receiver", object_id="id", retention=timedelta(days=RETENTION)):
    stages = (Receive,)


class Days(NamedTuple):
    """``copies`` are the days on which each copy on its way is gone, read or not; ``forgotten`` is the day on which the
    receiver's item is removed. ``taken_over`` says that a newer request has the sender's object."""

    day: int = 0
    sent: int = 0
    copies: tuple[int, ...] = ()
    forgotten: int | None = None
    handled: int = 0
    taken_over: bool = False


class Retention:
    """The steps of this world; the same three methods as those of :class:`tests.proofs.model.actions.Actions`."""

    _message: ClassVar[Message] = Message(
        flow="receiver",
        stage="receive",
        version=1,
        object_id=ObjectId("c"),
        request_id=RequestId("run-1.1.0"),
        requested_at=_COMMIT,
        body="{}",
    )

    def start(self) -> Days:
        return Days()

    def steps(self, days: Days) -> Iterator[tuple[str, Days]]:
        if days.day < LAST_DAY:
            yield f"day {days.day + 1}", days._replace(day=days.day + 1)
        if days.sent < MOST_COPIES:
            yield from self._sends(days)
        for place, gone in enumerate(days.copies):
            if days.day < gone:
                left = days.copies[:place] + days.copies[place + 1 :]
                yield from self._read(days._replace(copies=left))

    def fault_of(self, days: Days, moved: bool) -> str:
        return "a copy is handled like a new message" if days.handled > 1 else ""

    def _sends(self, days: Days) -> Iterator[tuple[str, Days]]:
        """The sender's record can come again for as long as it lives; a takeover sends what is young enough."""
        more = days._replace(sent=days.sent + 1, copies=tuple(sorted((*days.copies, days.day + RETENTION))))
        if days.day < RETENTION and not days.taken_over:
            yield "the sender's record is delivered, and its message sent", more
        side = Send(Kind.SIDE, Queue("receiver"), "{}", "run-1.1.0")
        outbox = Outbox(RequestId("run-1"), _COMMIT, (side,))
        if outbox.left_by_another(RequestId("run-2"), _moment(days) - RETENTION * _DAY):
            yield "a takeover sends the message", more._replace(taken_over=True)

    def _read(self, days: Days) -> Iterator[tuple[str, Days]]:
        now = _moment(days)
        request = ClaimRequest(
            message=self._message,
            owner=Owner("receiver"),
            now=now,
            lease_until=now,
            on_conflict=Receiver.on_conflict,
            abandoned_before=now,
            expires_at=Lifetimes(Receiver).of_run(now),
        )
        if claims.decide(self._item(days, request), request) is not Verdict.CLAIMED:
            yield "a copy is read and dropped", days
            return
        forgotten = (claims.taken(None, request).ttl * 1_000 - _COMMIT) // _DAY
        yield "a copy is read and handled", days._replace(handled=days.handled + 1, forgotten=forgotten)

    def _item(self, days: Days, request: ClaimRequest) -> RunItem | None:
        if days.forgotten is None or days.day >= days.forgotten:
            return None
        return claims.taken(None, request)._replace(done=True, status=Status.COMPLETED)


def _moment(days: Days) -> int:
    return _COMMIT + days.day * _DAY
