"""A schedule that names what its run does not have is refused, with what the run has instead."""

from __future__ import annotations

import pytest

from flowguard.testing.explorer import UnmetSchedule, replay
from tests.testing.explorer import seeded

ORDER = seeded.Order(order_id="o1")


@pytest.mark.parametrize(
    ("schedule", "part", "why"),
    [
        ("d999", "d999", "the run has 3 calls"),
        ("a1.e999", "e999", "the run has"),
        ("p1-1", "p1-1", "call 1, dynamodb UpdateItem, cannot meet that"),
        ("x9", "x9", "the run has 1 delivery"),
        ("o1-1", "o1-1", "0 other records waited at delivery 1"),
        ("r1", "r1", "0 dead letters could be sent back"),
        ("z999", "z999", "the run has"),
    ],
)
def test_what_there_is_not_is_named(schedule: str, part: str, why: str) -> None:
    with pytest.raises(UnmetSchedule, match=why) as raised:
        replay(seeded.flow_of(seeded.PlainPut), [ORDER], schedule, tables=seeded.TABLES)
    assert (raised.value.schedule, raised.value.part) == (schedule, part)


@pytest.mark.parametrize("schedule", ["none", "d1", "a2", "z2", "v2", "x1", "f2"])
def test_what_there_is_runs(schedule: str) -> None:
    replay(seeded.flow_of(seeded.PlainPut), [ORDER], schedule, tables=seeded.TABLES)
