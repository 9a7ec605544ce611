"""Checks that no write shortens the life of what something else still needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from flowguard.flow import AnyFlow
from flowguard.protocol.run import RunItem, Status
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.life import RowKind, Shortened
from flowguard.testing.explorer.record.schedule import OF_CODE
from flowguard.worker.lifetimes import LONGEST_WAIT, Lifetimes


class Allowed(NamedTuple):
    """A life that may get shorter, and why. ``is_it`` gets the flow's lifetimes and what was written."""

    kind: RowKind
    why: str
    is_it: Callable[[Lifetimes, Shortened], bool]


def _is_of_another_run(lifetimes: Lifetimes, write: Shortened) -> bool:
    before, after = write.before, write.after
    if before is None or after is None:
        return False
    return (before.request_id, before.requested_at) != (after.request_id, after.requested_at)


def _is_claim_after_no_wait(lifetimes: Lifetimes, write: Shortened) -> bool:
    return _is_claim(write) and (write.after is None or write.after.wait is None)


def _is_claim_after_a_wait(lifetimes: Lifetimes, write: Shortened) -> bool:
    wait = None if write.after is None else write.after.wait
    return _is_claim(write) and wait is not None and _reaches(write, lifetimes.of_wait(wait.deadline))


def _is_claim(write: Shortened) -> bool:
    before, after = write.before, write.after
    return before is not None and after is not None and after.epoch > before.epoch and not after.done


def _is_beyond_every_wait(lifetimes: Lifetimes, write: Shortened) -> bool:
    after: RunItem | None = write.after
    ends = after is not None and after.done and after.status is not Status.WAITING
    return ends and _reaches(write, write.at + LONGEST_WAIT.total_seconds() * 1_000)


def _is_attempt_before(lifetimes: Lifetimes, write: Shortened) -> bool:
    return not write.is_another and write.was - write.lives <= lifetimes.copies // 1_000


def _is_of_a_newer_answer(lifetimes: Lifetimes, write: Shortened) -> bool:
    return write.is_another


def _reaches(write: Shortened, moment: float) -> bool:
    return write.lives >= moment // 1_000


ALLOWED: Final = (
    Allowed(RowKind.RUN, "another run has the object: nothing looks for the one before", _is_of_another_run),
    Allowed(RowKind.RUN, "nobody waits between a claim and its commit, which writes the rest", _is_claim_after_no_wait),
    Allowed(RowKind.RUN, "a claim after a wait keeps what may still answer that", _is_claim_after_a_wait),
    Allowed(RowKind.RUN, "what was good for ever is not when there is another end", _is_beyond_every_wait),
    Allowed(RowKind.AWAITED, "an attempt had an earlier deadline, and copies outlast both", _is_attempt_before),
    Allowed(RowKind.GROUP, "an attempt had an earlier deadline, and copies outlast both", _is_attempt_before),
    Allowed(
        RowKind.PLACE, "a worker was held up before it kept the place, and copies outlast both", _is_attempt_before
    ),
    Allowed(RowKind.EARLY, "a newer answer has taken the place", _is_of_a_newer_answer),
)
"""Every write that may shorten a life. All others are violations."""


def no_life_is_shortened(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that what something still needs lives as long as before (I15)."""
    known: Mapping[str, AnyFlow] = {flow.name: flow for flow in flows}
    has_two = history.schedule.has(OF_CODE)  # of which each may name another stage for the answer
    for shortened in history.shortened:
        is_row = has_two and shortened.kind is RowKind.AWAITED
        write = shortened._replace(is_another=shortened.is_another and not is_row)
        flow = known.get(write.key.split("#")[1])
        if flow is None or not any(may.kind is write.kind and may.is_it(Lifetimes(flow), write) for may in ALLOWED):
            yield Problem(
                "I15", write.key, f"a write shortened the life of a {write.kind.value}", write.was, write.lives
            )
