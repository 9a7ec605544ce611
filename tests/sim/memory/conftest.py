from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowguard.clock import ManualClock
from flowguard.sim.memory.aws import MemoryAWS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def aws(clock: ManualClock) -> Iterator[MemoryAWS]:
    """An empty AWS in memory, by a clock that stands still."""
    with MemoryAWS(clock) as found:
        yield found
