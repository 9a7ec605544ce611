"""Moments as a distance from now."""

from __future__ import annotations

import pytest

from flowguard.operate.moments import distance

HOUR, DAY = 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("ahead", "shown"),
    [
        (2 * DAY - 3_000, "in 2 d"),
        (DAY + DAY // 2 - 1_000, "in 1 d"),
        (12 * HOUR - 1_000, "in 12 h"),
        (59_000, "in 59 s"),
        (1, "in 0 s"),
        (0, "0 s ago"),
        (3_000 - 2 * DAY, "1 d ago"),
    ],
)
def test_what_is_ahead_is_rounded_and_what_is_past_counts_whole_units(ahead: int, shown: str) -> None:
    assert distance(10 * DAY + ahead, 10 * DAY) == shown
