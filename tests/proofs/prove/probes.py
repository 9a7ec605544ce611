"""Which schedules meet a guard so that it matters.

A mutant runs exactly as the whole flowguard does until its guard would have answered otherwise. So one exploration of
the unmutated code, with a probe at each guard, tells for every mutant which schedules can tell it apart at all: the
others need not be run again. Each probe sits inside the code under proof and changes nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAME = "_flowguard_prove"
"""Under which a probed module finds this one."""

_met: set[int] = set()


def taken() -> frozenset[int]:
    """The numbers of the mutants whose guard mattered since the last call."""
    met = frozenset(_met)
    _met.clear()
    return met


def note(number: int) -> None:
    _met.add(number)


def reached(number: int) -> bool:
    """For a statement or a branch: being there is what matters."""
    _met.add(number)
    return True


def truth(if_true: int | None, if_false: int | None, value: Any) -> Any:
    """For a condition: the numbers are of what differs where it holds, and where it does not."""
    number = if_true if value else if_false
    if number is not None:
        _met.add(number)
    return value


def differs(number: int, value: Any, other: Callable[[], Any]) -> Any:
    """For an expression that a mutant replaces: does the other one have another value? One that fails has."""
    if number in _met:  # a long list of which a part is left out takes its time
        return value
    try:
        if other() != value:
            _met.add(number)
    except Exception:  # the mutant's own failure, which is its matter
        _met.add(number)
    return value
