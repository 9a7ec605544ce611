"""Which test noticed a mutant the last time, where it took long to look for it; and which tests noticed some of a
function.

Nothing is believed that stands here: these tests are only the first ones to be run on a mutant. Where they meet it no
more, are gone, or do not fail, the others follow as ever. ``python -m tests.proofs.prove --remember`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("remembered.json")

BY_FUNCTION: Final = Path(__file__).with_name("noticing.json")

EXPLORER: Final = "the explorer"
"""Stands in the place of a test where only the explorer noticed: it is tried before all tests that meet the mutant."""

LONG: Final = 0.1
"""Seconds of CPU. To look for a test that notices it takes a fifth of that for most mutants."""


def remembered(file: Path = FILE) -> dict[str, str]:
    """Return the tests by the names of the mutants. A mutant that is not there was noticed soon, or is new."""
    by_test: dict[str, list[str]] = json.loads(file.read_text())
    return {mutant: test for test, mutants in by_test.items() for mutant in mutants}


def remember(tests: Mapping[str, str], file: Path = FILE) -> None:
    """Write the tests by the names of the mutants, each test once."""
    by_test: dict[str, list[str]] = {}
    for mutant, test in sorted(tests.items()):
        by_test.setdefault(test, []).append(mutant)
    file.write_text(json.dumps(dict(sorted(by_test.items())), ensure_ascii=False, indent=0) + "\n")


def noticing(file: Path = BY_FUNCTION) -> dict[str, list[str]]:
    """Return by a function's name the tests that noticed mutants of it. They are asked before all others."""
    by_test: dict[str, list[str]] = json.loads(file.read_text())
    found: dict[str, list[str]] = {}
    for test, functions in by_test.items():
        for function in functions:
            found.setdefault(function, []).append(test)
    return found


def remember_noticing(tests: Mapping[str, Iterable[str]], file: Path = BY_FUNCTION) -> None:
    """Write the tests by the names of the functions, each test once."""
    by_test: dict[str, list[str]] = {}
    for function, noticed in sorted(tests.items()):
        for test in noticed:
            by_test.setdefault(test, []).append(function)
    file.write_text(json.dumps(dict(sorted(by_test.items())), ensure_ascii=False, indent=0) + "\n")
