"""The finding of a check: one thing that is wrong at the end of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. ``rule`` is the invariant's name or ``equivalence``.

    ``where`` is the table, queue or run item that it is about. Two problems with equal rule and ``where`` are one
    problem met twice.
    """

    rule: str
    where: str
    text: str
    expected: Any = None
    found: Any = None


EQUIVALENCE = "equivalence"
UNDISTURBED = "undisturbed"
EXPLODED = "does not come to rest"
HANGS = "does not end"
STATE = "module state"
RELEASE = "two versions"
ORDER = "not one after the other"
