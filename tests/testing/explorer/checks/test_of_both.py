"""An end that two versions of the code have led to, part by part."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.testing.explorer.checks.equivalence import End
from flowguard.testing.explorer.checks.of_both import nearest_of_both


def end(messages: dict[str, str] | None = None, sent: dict[str, int] | None = None, **items: Any) -> End:
    """Return an end with one item for each name in the table ``bills``."""
    return End(
        {"bills": {name: [{"total": value}] for name, value in items.items()}},
        {("sqs:mails", name): body for name, body in (messages or {}).items()},
        {("sqs:mails", body): times for body, times in (sent or {}).items()},
        frozenset(),
    )


@pytest.mark.parametrize(
    ("found", "new", "old", "differ"),
    [
        (end(a=1, b=2), end(a=1, b=1), end(a=2, b=2), []),
        (end(a=3, b=1), end(a=1, b=1), end(a=2, b=2), ["a: total"]),
        (end(a=1, b=1), end(a=1), end(b=1), ["how many there are"]),
        (end(), end(a=1), end(b=1), ["how many there are"]),
        (end(a=1), end(a=1), end(), []),
        (end({"1": "x"}), end({"1": "x"}), end({"1": "y"}), []),
        (end({"1": "x", "2": "y"}), end({"1": "x"}), end({"2": "y"}), ["how many there are"]),
        (end(sent={"x": 1, "y": 1}), end(sent={"x": 1}), end(sent={"y": 1}), ["how many there are"]),
        (end(sent={"y": 1}), end(sent={"x": 1}), end(sent={"y": 1}), []),
    ],
)
def test_each_part_is_as_in_either_and_there_is_no_more_and_no_less(
    found: End, new: End, old: End, differ: list[str]
) -> None:
    assert [problem.text for problem in nearest_of_both(found, [new], [old])] == differ


def test_of_many_pairs_the_nearest_counts() -> None:
    new, old = [end(a=1), end(a=7)], [end(a=2), end(a=3)]
    assert nearest_of_both(end(a=3), new, old) == []
    [problem] = nearest_of_both(end(a=4), [*new, end(a=1, b=1)], old)
    assert (problem.text, problem.found) == ("a: total", 4)


def test_the_numbers_of_both_versions_are_named() -> None:
    [problem] = nearest_of_both(end(a=1, b=1, c=1), [end(a=1, b=1)], [end(c=1)])
    assert (problem.where, problem.expected, problem.found) == ("bills", "1 or 2", "3")
