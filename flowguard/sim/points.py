"""The points of a message's processing at which a worker may die or another may run.

The ports that a runtime calls are wrapped, so that a listener is called between two of its steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from flowguard.protocol.outbox import Send
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.worker.asks import Answer, Ask, Calls, Committing
from flowguard.worker.ports import Refusal, Sender, Services


class Point(StrEnum):
    """The points in their order.

    Sends are made between the two of the dispatch; a record that sends nothing passes neither.
    """

    BEFORE_CLAIM = "before-claim"
    AFTER_CLAIM = "after-claim"
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    BEFORE_DISPATCH = "before-dispatch"
    AFTER_DISPATCH = "after-dispatch"
    BEFORE_ACK = "before-ack"
    AFTER_ACK = "after-ack"


class Passing(Protocol):
    """A listener that is called when the current record passes a point. Only claim and commit give a ``message``."""

    def __call__(self, point: Point, message: Message | None, /) -> None: ...


def with_points(services: Services, passing: Passing) -> Services:
    """Wrap the services so that they report each point.

    Those around the ack are reported by the caller that acknowledges.
    """
    watched, sender = services.watched, _Sender(services.sender, passing)
    return services._replace(watched=lambda calls: _Calls(watched(calls), passing), sender=sender)


class _Calls:
    """Calls that report the points of each of their records.

    They do so whether or not a claim is given, and whether or not a commit is fenced.
    """

    def __init__(self, calls: Calls, passing: Passing) -> None:
        self._calls = calls
        self._passing = passing

    def __call__(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        commits = isinstance(asks[0], Committing)
        self._pass(Point.BEFORE_COMMIT if commits else Point.BEFORE_CLAIM, asks)
        answers = self._calls(asks)
        self._pass(Point.AFTER_COMMIT if commits else Point.AFTER_CLAIM, asks)
        return answers

    def _pass(self, point: Point, asks: Sequence[Ask]) -> None:
        for ask in asks:
            self._passing(point, ask.message)


class _Sender:
    """A sender that reports the start of a dispatch. Its end is not seen from here, for it is made of several sends."""

    def __init__(self, sender: Sender, passing: Passing) -> None:
        self._sender = sender
        self._passing = passing

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        self._passing(Point.BEFORE_DISPATCH, None)
        return self._sender.send(sends)

    def postpone(self, envelope: Envelope, seconds: int) -> str | None:
        return self._sender.postpone(envelope, seconds)

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        self._sender.hand_back(records)
