"""The first step at which a schedule parts from an undisturbed run, as far as it matters for what differs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from flowguard.testing.explorer.record.history import CallRecord, History
from flowguard.testing.explorer.report.diagnosis import concerns
from flowguard.testing.explorer.report.lines import called, fault


class Parting(NamedTuple):
    """The step, and the number of its call. None where the call is one that is never made."""

    step: str
    call: int | None

    def __str__(self) -> str:
        """Format it as a report shows it."""
        return self.step


def parting(history: History, undisturbed: History, places: Sequence[str]) -> Parting | None:
    """Return the step at which something is written otherwise than undisturbed. None where no call is another one.

    ``places`` are the tables and destinations that differ. Where all that is written there is written as undisturbed,
    it is the first call at which anything differs.
    """
    for where in places:
        if step := first_other(_writes(history, where), _writes(undisturbed, where)):
            return step
    return first_other(history.calls, undisturbed.calls, with_faults=True)


def _writes(history: History, where: str) -> list[CallRecord]:
    """Return the calls that took effect at a table or destination."""
    calls = (made for made in history.calls if made.applied and not made.is_read)
    return [made for made in calls if concerns(made.operation, made.target, where)]


def first_other(
    ours: Sequence[CallRecord], theirs: Sequence[CallRecord], *, with_faults: bool = False
) -> Parting | None:
    """Return the first of our calls that is not the other run's at this place, or the first that we never make."""
    for mine, other in zip_longest(ours, theirs):
        if mine is None:
            lost = f"call {other.number}, {called(other)}"
            return Parting(f"the undisturbed run goes on with {lost}; here it is never made", None)
        if other is None or _step(mine, with_faults) != _step(other, with_faults):
            struck = f": {fault(mine)[2:]}" if fault(mine) else ""
            return Parting(f"call {mine.number} of w{mine.worker}, {called(mine)}{struck}", mine.number)
    return None


def _step(made: CallRecord, with_faults: bool) -> tuple[str, ...]:
    return (called(made), made.error or "", fault(made)) if with_faults else (called(made),)
