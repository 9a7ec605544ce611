"""Copies of messages that were deleted."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.layer import Layer


class LateCopies(Layer):
    """Records of standard queues that come once more, up to ``after`` (ms) after they were deleted.

    SQS says that a server which was away keeps its copy of a message.
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/standard-queues-at-least-once-delivery.html
    """

    def __init__(self, after: int, draw: Random) -> None:
        self._after = after
        self._draw = draw
        self._copied: set[str] = set()

    def copied_at(self, delivery: Delivery, now: int) -> Collection[int]:
        """Return the moment of the one copy that each message has."""
        if delivery.queue is None or delivery.group is not None or delivery.message_id in self._copied:
            return ()
        self._copied.add(delivery.message_id)
        return (now + self._draw.randrange(max(self._after, 1)),)
