"""What a race shows by luck: which process comes when is the machine's business, so a race may miss what is broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

RACES: Final = 10
"""The least lucky mutant is missed by one race of six: by ten in a row once in sixty million."""


def noticed_in(race: Callable[[Path], set[str]], folder: Path, wanted: str) -> int:
    """How many races, each in a folder of its own, it took until ``wanted`` was among the broken checks.

    Raises:
        AssertionError: none of ``RACES`` races showed it.
    """
    for number in range(1, RACES + 1):
        (of_its_own := folder / f"race{number}").mkdir()
        if wanted in race(of_its_own):
            return number
    raise AssertionError(f"{RACES} races with a missing guard do not break the check {wanted!r}")
