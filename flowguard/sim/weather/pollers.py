"""Pollers of a mapping that back off."""

from __future__ import annotations

from typing import Final

from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.layer import Invoked, Layer

LONGEST: Final = 60_000
"""The longest pause, ms. AWS gives no number; a minute is the step in which it raises a mapping's concurrency."""


class Pollers(Layer):
    """Mappings that poll less after invocations that Lambda throttled, and come back step by step.

    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    """

    def __init__(self) -> None:
        self._pause = 0
        self._polls_at = 0

    def polled_from(self, now: int) -> int:
        return max(now, self._polls_at)

    def backs_off(self, now: int) -> None:
        """Take note of an invocation that failed as a whole or was throttled."""
        self._pause = min(max(1_000, 2 * self._pause), LONGEST)
        self._polls_at = now + self._pause

    def invoked(self, delivery: Delivery, function: str, now: int) -> Invoked:
        self._pause //= 2
        return Invoked.YES
