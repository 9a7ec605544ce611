"""The last lines of `make prove` say why it ends with 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.proofs.prove.others import Outcome
from tests.proofs.prove.report import MOST_FAILURES, Figures


def figures(
    others: Mapping[str, Outcome] | None = None, stale: Sequence[str] = (), failing: Sequence[str] = ()
) -> Figures:
    return Figures([], [], [], 0, dict(others or {}), stale, failing, {"soak": 40.0})


def outcome(*broken: str, code: int = 0) -> Outcome:
    return Outcome("python -m soak", not broken and code == 0, {}, 3, broken, 40.0, code=code)


def test_nothing_failed() -> None:
    good = figures({"soak": outcome()})
    assert good.is_good
    assert str(good).endswith("seconds      40: soak 40")


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        (figures({"soak": outcome("no message is left", code=1)}), "soak: no message is left"),
        (
            figures({"tests": outcome(code=3)}),
            "tests: every check holds, and python -m soak ended with 3",
        ),
        (figures({"races": outcome("Traceback\nValueError: no engine", code=1)}), "races: ValueError: no engine"),
        (figures(stale=["a guard"]), "stale: a guard"),
        (figures(failing=["tests/test_one.py::test"]), "tests: tests/test_one.py::test fails on the whole flowguard"),
    ],
)
def test_the_last_line_says_what_failed(failed: Figures, why: str) -> None:
    assert not failed.is_good
    assert str(failed).endswith(f"\nFAILED       {why}")


def test_many_failures_are_counted() -> None:
    many = figures(stale=[f"guard {number}" for number in range(MOST_FAILURES + 2)])
    last = str(many).splitlines()[-MOST_FAILURES - 1 :]
    assert last[0] == "FAILED       stale: guard 0"
    assert last[-1] == "FAILED       and 2 more: they stand above"
