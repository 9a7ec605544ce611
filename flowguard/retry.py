"""When a failed message is tried again: pure arithmetic. Sending it is the runtime's business."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

LONGEST_SQS_DELAY = timedelta(seconds=900)
"""What SQS can delay a message by; a policy that would exceed it is refused when the stage is defined."""


class Backoff(Protocol):
    """The delay, in seconds, before retry number ``retry`` (1 is the first)."""

    def seconds(self, retry: int) -> float: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same delay every time."""

    delay: float = 10

    def seconds(self, retry: int) -> float:
        return self.delay


@dataclass(frozen=True, slots=True)
class Linear:
    """Grows by ``step`` seconds with each retry."""

    first: float = 10
    step: float = 10

    def seconds(self, retry: int) -> float:
        return self.first + self.step * (retry - 1)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Grows ``factor``-fold with each retry, starting at ``first`` seconds."""

    first: float = 5
    factor: float = 3

    def seconds(self, retry: int) -> float:
        return float(self.first * self.factor ** (retry - 1))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how far apart.

    ``attempts`` counts the first one. ``jitter`` is the share of a delay that is drawn at random: with 0.2 a delay of
    10 s becomes 8 to 10 s. ``max_delay`` caps the growth of the backoff, by declaration and never in silence.
    """

    attempts: int = 5
    backoff: Backoff = field(default_factory=Exponential)
    jitter: float = 0.2
    max_delay: timedelta = LONGEST_SQS_DELAY

    def problems(self) -> list[str]:
        """What is wrong with this policy, a sentence each."""
        found = []
        if self.attempts < 1:
            found.append(f"retry.attempts is {self.attempts}; it counts the first attempt, so it is at least 1")
        if not 0 <= self.jitter <= 1:
            found.append(f"retry.jitter is {self.jitter}; it is a share between 0 and 1")
        if not timedelta(0) <= self.max_delay <= LONGEST_SQS_DELAY:
            found.append(f"retry.max_delay is {self.max_delay}; SQS delays a message by at most {LONGEST_SQS_DELAY}")
        return found

    def delay(self, retry: int, draw: random.Random) -> int:
        """Whole seconds to wait before retry number ``retry``."""
        longest = min(self.backoff.seconds(retry), self.max_delay.total_seconds())
        return round(longest * (1 - self.jitter * draw.random()))

    def exhausted(self, retry: int) -> bool:
        """Whether the attempt with this retry number was the last one allowed."""
        return retry + 1 >= self.attempts
