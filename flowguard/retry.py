"""Policies of when a failed message is tried again: pure arithmetic. Sending it is the runtime's business."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from flowguard.errors import shown, span_problem
from flowguard.startup.named_tuple import NamedTuple

LONGEST_SQS_DELAY = timedelta(seconds=900)
"""The longest that SQS can delay a message by. A longer delay needs a flow that says ``long_delays=True``."""

LONGEST_VISIBILITY = timedelta(hours=12) - timedelta(minutes=20)
"""The longest that a record is hidden by, which is how a FIFO queue's records are tried again.

SQS hides it for 12 hours since it was received. Of these its batch may take 5 minutes to be gathered, and 15 to be
handled.
"""

LONGEST_DELAY = timedelta(days=14)
"""The longest delay that EventBridge Scheduler is asked for: a message does not live longer in a queue either."""

MOST_ATTEMPTS = 100


class Backoff(Protocol):
    """The delay in seconds before a retry. ``retry`` is its number, 1 for the first."""

    def seconds(self, retry: int) -> float: ...


class Fixed(NamedTuple):
    """The same delay every time."""

    delay: float = 10

    def seconds(self, retry: int) -> float:
        """Return the delay before retry number ``retry``."""
        return self.delay


class Linear(NamedTuple):
    """Grows by ``step`` seconds with each retry."""

    first: float = 10
    step: float = 10

    def seconds(self, retry: int) -> float:
        """Return the delay before retry number ``retry``."""
        return self.first + self.step * (retry - 1)


class Exponential(NamedTuple):
    """Grows ``factor``-fold with each retry, starting at ``first`` seconds."""

    first: float = 5
    factor: float = 3

    def seconds(self, retry: int) -> float:
        """Return the delay before retry number ``retry``."""
        return float(self.first * self.factor ** (retry - 1))


class RetryPolicy(NamedTuple):
    """How often and how far apart a failed message is tried again.

    ``attempts`` counts the first one. ``jitter`` is the share of a delay that is drawn at random: with 0.2 a delay of
    10 s becomes 8 to 10 s. ``max_delay`` caps the growth of the backoff, by declaration and never in silence; above 15
    minutes the flow must say ``long_delays=True``. ``give_up_after`` begins no further attempt when the run was asked
    for longer ago than that. ``for_errors`` has other policies for some exceptions; the nearest class counts, and each
    policy counts all attempts.
    """

    attempts: int = 5
    backoff: Backoff = Exponential()
    jitter: float = 0.2
    max_delay: timedelta = LONGEST_SQS_DELAY
    give_up_after: timedelta | None = None
    for_errors: Mapping[type[Exception], RetryPolicy] = {}

    def problems(self) -> list[str]:
        """List what is wrong with this policy, a sentence each."""
        return _type_problems(self) or self._value_problems()

    def _value_problems(self) -> list[str]:
        problems = []
        if not 1 <= self.attempts <= MOST_ATTEMPTS:
            problems.append(
                f"retry.attempts is {self.attempts}; it counts the first attempt, so it is at least 1, "
                f"and at most {MOST_ATTEMPTS}"
            )
        else:
            asked = (_asked(self.backoff, retry) for retry in range(1, self.attempts))
            problems.extend([problem for problem in asked if isinstance(problem, str)][:1])
        if not 0 <= self.jitter <= 1:
            problems.append(f"retry.jitter is {self.jitter}; it is a share between 0 and 1")
        if not timedelta(0) <= self.max_delay <= LONGEST_DELAY:
            problems.append(f"retry.max_delay is {self.max_delay}; it is between 0 and {LONGEST_DELAY.days} days")
        if self.give_up_after is not None and self.give_up_after <= timedelta(0):
            problems.append(f"retry.give_up_after is {self.give_up_after}; it must be positive")
        for kind, policy in self.for_errors.items():
            problems.extend(f"for {kind.__name__}, {problem}" for problem in policy.problems())
        return problems

    @property
    def longest_delay(self) -> timedelta:
        """Return the longest delay that any of its policies may ask for."""
        return max([self.max_delay, *(policy.longest_delay for policy in self.for_errors.values())])

    def policy_for(self, error: BaseException) -> RetryPolicy:
        """Return the policy that is set for the error's class or its nearest base class, else this one."""
        for kind in type(error).__mro__:
            if kind in self.for_errors:
                return self.for_errors[kind]
        return self

    def delay(self, retry: int, draw: random.Random) -> int:
        """Compute the whole seconds to wait before retry number ``retry``."""
        return self.judged_delay(retry, draw)[0]

    def judged_delay(self, retry: int, draw: random.Random) -> tuple[int, str]:
        """Return the delay in whole seconds, and what is wrong with the backoff where ``max_delay`` stands for it."""
        seconds, problem = self._longest(retry)
        return round(seconds * (1 - self.jitter * draw.random())), problem

    def longest(self, retry: int) -> float:
        """Return the seconds before retry number ``retry`` without jitter."""
        return self._longest(retry)[0]

    def _longest(self, retry: int) -> tuple[float, str]:
        asked, most = _asked(self.backoff, retry), self.max_delay.total_seconds()
        return (most, asked) if isinstance(asked, str) else (min(asked, most), "")


def _asked(backoff: Backoff, retry: int) -> float | str:
    """Ask for the seconds before a retry. Return what is wrong where there are none: users write backoffs, too."""
    name = f"retry.backoff {shown(backoff)}"
    try:
        seconds: object = backoff.seconds(retry)
    except Exception as error:  # its text may quote anything
        return f"{name} raises {type(error).__name__} for retry {retry}"
    is_endless = isinstance(seconds, float) and not math.isfinite(seconds)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or is_endless:
        return f"{name} asks for {shown(seconds)} before retry {retry}; a delay is a number of seconds"
    return seconds if seconds >= 0 else f"{name} asks for a negative delay; time goes forward"


def policy_problems(policy: object) -> list[str]:
    """List what is wrong with what a stage gives as its ``retry``, a sentence each."""
    if isinstance(policy, RetryPolicy):
        return policy.problems()
    attempts = shown(policy) if type(policy) is int else "…"
    return [f"retry is {shown(policy)}, and no policy; write retry=RetryPolicy(attempts={attempts})"]


def _type_problems(policy: RetryPolicy) -> list[str]:
    """List the fields whose values are of another type than declared. Code that nobody type-checked gives those too."""
    problems = []
    if not _is_a(int, policy.attempts):
        problems.append(f"retry.attempts is {shown(policy.attempts)}; write a whole number: attempts=5")
    if not callable(getattr(policy.backoff, "seconds", None)):
        problems.append(f"retry.backoff is {shown(policy.backoff)}; write Fixed(…), Linear(…) or Exponential(…)")
    if not _is_a((int, float), policy.jitter):
        problems.append(f"retry.jitter is {shown(policy.jitter)}; write a share between 0 and 1: jitter=0.2")
    for name, span in (("max_delay", policy.max_delay), ("give_up_after", policy.give_up_after)):
        if not (span is None and name == "give_up_after") and (problem := span_problem(span)):
            problems.append(f"retry.{name} {problem}")
    return [*problems, *_error_problems(policy.for_errors)]


def _error_problems(for_errors: object) -> list[str]:
    if not isinstance(for_errors, Mapping):
        return [f"retry.for_errors is {shown(for_errors)}; write {{SomeError: RetryPolicy(…)}}"]
    error_problems = []
    for kind, policy in for_errors.items():
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            error_problems.append(
                f"retry.for_errors has {shown(kind)}, which is no class of errors; write {{SomeError: …}}"
            )
        elif not isinstance(policy, RetryPolicy):
            error_problems.append(f"for {kind.__name__}, {policy_problems(policy)[0]}")
    return error_problems


def _is_a(kinds: type | tuple[type, ...], value: object) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
