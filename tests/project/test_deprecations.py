"""A name that goes says when: the version in which it ends, and the day before which it does not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "flowguard"
DATED = re.compile(r"until version \d+\.\d+, and not before \d{4}-\d{2}-\d{2}")


def undated(source: str) -> Iterator[int]:
    """Yield the lines of warnings of something deprecated that do not say until when it works."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        parts = [*call.args, *(given.value for given in call.keywords)]
        if any(isinstance(part, ast.Name) and part.id.endswith("DeprecationWarning") for part in parts):
            texts = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant)]
            if not any(isinstance(text, str) and DATED.search(text) for text in texts):
                yield call.lineno


@pytest.mark.slow("reads all modules")
def test_everything_that_is_deprecated_says_until_when_it_works() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        for line in undated(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('warn("use b; a works until version 0.4, and not before 2027-06-01", DeprecationWarning)', []),
        ('warnings.warn(f"{old} works until version 1.0, and not before 2027-06-01", category=DeprecationWarning)', []),
        ('warn("use b", DeprecationWarning)', [1]),
        ('warn("use b; a ends in 0.4", PendingDeprecationWarning, stacklevel=2)', [1]),
        ('warn("a works until version 0.4", category=DeprecationWarning)', [1]),
        ('warn("slow", RuntimeWarning)', []),
    ],
)
def test_a_warning_without_a_version_and_a_day_is_found(text: str, lines: list[int]) -> None:
    assert [*undated(text)] == lines
