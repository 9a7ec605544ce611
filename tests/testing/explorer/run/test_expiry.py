"""Copies that come as late as queues keep them, and run items that have expired by then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard.testing.explorer import explore, replay
from flowguard.testing.explorer.record.unmet import UnmetSchedule
from flowguard.worker.lifetimes import Lifetimes
from tests.testing.explorer import seeded
from tests.testing.explorer.histories import history_of

ORDER = seeded.Order(order_id="o1")
CHAIN: Any = (seeded.PassOn, seeded.CountThem)
DAYS_14 = timedelta(days=14) // timedelta(milliseconds=1)
Patch = pytest.MonkeyPatch


def kept_for(patch: Patch, share: float) -> None:
    """Run items live for less than twice the retention."""
    patch.setattr(Lifetimes, "of_run", lambda self, moment: moment + int(share * self.retention))


def test_a_copy_comes_as_late_as_its_queues_keep_it_and_no_later() -> None:
    history = history_of(seeded.TwoStages, [ORDER], "x1-2", tables=seeded.TABLES)
    assert history.deliveries[-1].at - history.start == DAYS_14 - 1000
    assert history.latest(), "its item lives for twice as long"


@pytest.mark.proof("explores a whole case")
def test_a_copy_of_a_late_copy_is_met_by_the_item_of_the_first() -> None:
    history = history_of(CHAIN, [ORDER], "x1-2.x4-2", tables=seeded.TABLES)
    assert history.tables["totals"] == ({"day": "monday", "amount": 5},)
    assert history.deliveries[-1].at - history.start >= 2 * (DAYS_14 - 1000)
    report = explore(CHAIN, [ORDER], tables=seeded.TABLES, bound=10, walks=5)
    assert report.ok, str(report)


def test_an_item_that_has_expired_is_gone_when_the_copy_comes(monkeypatch: Patch) -> None:
    kept_for(monkeypatch, 0.5)
    history = history_of(seeded.TwoStages, [ORDER], "x1-2", tables=seeded.TABLES)
    assert [version.item for version in history.versions if version.item is None] == [None]


def test_what_has_expired_may_still_be_there(monkeypatch: Patch) -> None:
    kept_for(monkeypatch, 0.9)
    trace = replay(seeded.TwoStages, [ORDER], "x1-2.k1", tables=seeded.TABLES)
    assert trace.violations == (), "the copy meets the item that has expired"
    with pytest.raises(UnmetSchedule, match="k1 of the schedule 'k1' changes nothing: nothing of the run expires"):
        replay(seeded.TwoStages, [ORDER], "k1", tables=seeded.TABLES)


def test_an_item_that_is_removed_is_said_so() -> None:
    with pytest.MonkeyPatch.context() as patch:
        kept_for(patch, 0.5)
        trace = replay(seeded.TwoStages, [ORDER], "x1-2", tables=seeded.TABLES)
    assert "run#two-stages#o1 has expired, and is removed" in str(trace)


def test_items_that_live_shorter_than_a_record_apply_it_again(monkeypatch: Patch) -> None:
    kept_for(monkeypatch, 0.9)
    found = replay(seeded.TwoStages, [ORDER], "x1-2", tables=seeded.TABLES).violations
    assert {(one.rule, one.problems[0].text) for one in found} == {("equivalence", "day monday: amount")}


@pytest.mark.proof("explores a whole case")
def test_items_that_live_for_one_retention_apply_a_copy_of_a_copy_again(monkeypatch: Patch) -> None:
    """docs/decisions/0003: the copy is sent one retention after the first, and read one retention after that."""
    kept_for(monkeypatch, 1)
    assert replay(CHAIN, [ORDER], "x1-2", tables=seeded.TABLES).violations == ()
    report = explore(CHAIN, [ORDER], tables=seeded.TABLES, bound=0, walks=0)
    assert {one.schedule for one in report.violations} == {"x1-2.x4-2"}, "found beyond the bound"


def test_a_second_late_copy_of_a_record_comes_with_the_first() -> None:
    history = history_of(seeded.TwoStages, [ORDER], "x1-2.x3-2", tables=seeded.TABLES)
    late = [one for one in history.deliveries if one.at - history.start > DAYS_14 // 2]
    assert len(late) == 2
    assert late[1].at - late[0].at < 1000


def test_nobody_is_held_up_for_longer_than_lambda_lets_a_function_run() -> None:
    history = history_of(seeded.TwoStages, [ORDER], "x1-2.z2-999", tables=seeded.TABLES)
    (goes_on,) = [note.at for note in history.notes if note.text == "goes on"]
    assert goes_on - history.start <= 900_000
