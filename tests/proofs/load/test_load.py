"""What bounds a load, and the page that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs.load.__main__ import table
from tests.proofs.load.limits import POLLS, Load, course

PAGE = Path(__file__).parents[3] / "docs" / "proofs" / "performance.md"


@pytest.mark.slow("plays a load")
def test_the_page_has_the_table() -> None:
    assert "\n".join(table()) in PAGE.read_text()


@pytest.mark.parametrize(
    ("load", "first"),
    [
        (Load(), "write units of the table"),
        (Load(warm=8_000), POLLS),
        (Load(warm=8_000, ms=500), "concurrency of the account"),
        (Load(warm=8_000, objects=5), "write units of an item"),
    ],
)
def test_each_limit_can_be_the_first(load: Load, first: str) -> None:
    assert course(load).first == first


def test_a_load_below_every_limit_has_no_backlog() -> None:
    came = course(Load(messages=50))
    assert (came.first, came.largest, came.drained) == ("nothing", 0, None)


def test_a_new_table_takes_twice_as_much_after_half_an_hour() -> None:
    load = Load()
    assert load.bounds(0, 0)["write units of the table"] == 2_000
    assert load.bounds(1_800, 4_000)["write units of the table"] == 4_000
    came = course(load)
    assert came.drained is not None
    assert 1_800 < came.drained < 7_200
