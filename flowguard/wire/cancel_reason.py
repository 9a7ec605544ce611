"""The reason of a cancellation, a text for people."""

from __future__ import annotations

from typing import Any

from flowguard.errors import RunFailed, shown
from flowguard.text.printable import bounded

LONGEST_REASON = 200
"""Characters of the reason of a cancellation that are kept."""

_LONGEST_READ = 2 * LONGEST_REASON
"""Characters of a reason as it is read: one that was cut says so."""


def reason(why: str) -> str:
    """Return the reason as it is kept: bounded, and without half surrogate pairs, which nothing stores.

    Raises :class:`RunFailed` for what says nothing.
    """
    given: Any = why
    if not isinstance(given, str) or not given.strip():
        raise RunFailed(f"why={shown(why)}; write a text that says why the run is cancelled")
    return bounded(_storable(given), LONGEST_REASON)


def read_reason(why: object) -> str:
    """Read the reason of a cancellation. Raises ValueError for what :func:`reason` has not made."""
    if not isinstance(why, str) or not why.strip() or len(why) > _LONGEST_READ:
        raise ValueError(f"has a cancellation whose reason is no text of at most {_LONGEST_READ} characters")
    return _storable(why)


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
