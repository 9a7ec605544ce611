"""What the tests of the shipped flows have in common: the runner that any user has, on the day of the samples."""

from __future__ import annotations

import pytest

from flowguard.testing import FlowClock


@pytest.fixture(autouse=True)
def _a_little_later_than_the_samples_were_recorded(flow_clock: FlowClock) -> None:
    """2026-01-02T03:06:00Z."""
    flow_clock.advance(days=1, hours=3, minutes=6)
