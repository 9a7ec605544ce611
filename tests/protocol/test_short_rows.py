"""What a row leaves out at its end."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.protocol.short_rows import short_row


@pytest.mark.parametrize(
    ("row", "short"),
    [
        ([], []),
        ([None, 0, False, "", {}], []),
        ([0, "a"], [0, "a"]),
        ([3, None, "a", 0], [3, None, "a"]),
        ([3, None], [3]),
    ],
)
def test_a_row_ends_with_what_says_something(row: list[Any], short: list[Any]) -> None:
    given = list(row)
    assert short_row(row) == short
    assert row == given, "it is a new list"
