"""The time of a test stands still until the test moves it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from flowguard.testing import FlowClock


def test_it_is_the_time_of_the_whole_process(flow_clock: FlowClock) -> None:
    assert flow_clock.moment == datetime.now(UTC) == datetime(2026, 1, 1, tzinfo=UTC)
    assert flow_clock.now() == int(time.time() * 1000)


def test_it_moves_when_it_is_told_to(flow_clock: FlowClock) -> None:
    flow_clock.advance(days=1, hours=2, minutes=3, seconds=4.5)
    assert flow_clock.moment == datetime.now(UTC) == datetime(2026, 1, 2, 2, 3, 4, 500_000, tzinfo=UTC)


def test_it_never_goes_back(flow_clock: FlowClock) -> None:
    with pytest.raises(ValueError, match="would go back by 0:01:00"):
        flow_clock.advance(minutes=-1)
    assert flow_clock.moment == datetime(2026, 1, 1, tzinfo=UTC)


def test_it_begins_where_a_test_wants_it() -> None:
    with FlowClock(1_700_000_000_000):
        assert datetime.now(UTC) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
