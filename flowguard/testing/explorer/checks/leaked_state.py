"""Ends that depend on what they should not: on what a module keeps of another record, or on the order of records."""

from __future__ import annotations

from collections.abc import Sequence

from flowguard.testing.explorer.checks.problem import ORDER, STATE, Problem


def state_problem(kept: Sequence[str], differ: Sequence[Problem]) -> Problem:
    """Return the problem of an end that depends on what modules kept. ``differ`` is how it differs."""
    names = ", ".join(kept)
    if not differ:
        return Problem(STATE, names, "keeps what a record left, and a later record finds it")
    first = differ[0]
    text = f"keeps what a record left, and a later record finds it: {first.where}, {first.text}"
    return Problem(STATE, names, text, first.expected, first.found)


def order_problem(differ: Sequence[Problem]) -> Problem:
    """Return the problem of two orders of records that end differently. ``differ`` is how, and not empty."""
    first = differ[0]
    text = f"{first.text} depends on the order of the records, which a standard queue does not keep"
    return Problem(ORDER, first.where, text, first.expected, first.found)


def interleaving_problem(differ: Sequence[Problem]) -> Problem:
    """Return the problem of an interleaving of runs. ``differ`` is how its end is unlike those of whole runs."""
    first = differ[0]
    text = f"{first.text} is as in no order of the runs, one after the other"
    return Problem(ORDER, first.where, text, first.expected, first.found)
