"""The first step at which a schedule parts from an undisturbed run, as far as it matters for what differs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from flowguard.testing.explorer.record.history import CallRecord, History
from flowguard.testing.explorer.report.diagnosis import concerns
from flowguard.testing.explorer.report.lines import called, fault


def parting(history: History, undisturbed: History, places: Sequence[str]) -> str:
    """Return the step at which something is written otherwise than undisturbed. Empty where no call is another one.

    ``places`` are the tables and destinations that differ. Where all that is written there is written as undisturbed,
    it is the first call at which anything differs.
    """
    for where in places:
        if step := _first_other(_writes(history, where), _writes(undisturbed, where)):
            return step
    return _first_other(history.calls, undisturbed.calls, with_faults=True)


def _writes(history: History, where: str) -> list[CallRecord]:
    """Return the calls that took effect at a table or destination."""
    calls = (made for made in history.calls if made.applied and not made.is_read)
    return [made for made in calls if concerns(made.operation, made.target, where)]


def _first_other(ours: Sequence[CallRecord], theirs: Sequence[CallRecord], *, with_faults: bool = False) -> str:
    for mine, other in zip_longest(ours, theirs):
        if mine is None:
            return f"the undisturbed run goes on with call {other.number}, {called(other)}; here it is never made"
        if other is None or _step(mine, with_faults) != _step(other, with_faults):
            struck = f": {fault(mine)[2:]}" if fault(mine) else ""
            return f"call {mine.number} of w{mine.worker}, {called(mine)}{struck}"
    return ""


def _step(made: CallRecord, with_faults: bool) -> tuple[str, ...]:
    return (called(made), made.error or "", fault(made)) if with_faults else (called(made),)
