"""Messages that have nothing to do with one another are searched apart."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flowguard.testing.explorer import UnmetSchedule, View, explore, replay
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.record.touched import Touched
from flowguard.testing.explorer.search.lasting import TriedRefusals, lasting
from flowguard.testing.explorer.search.pairs import call_names
from flowguard.testing.explorer.search.parts import joined, parts_of
from tests.testing.explorer import seeded
from tests.testing.explorer.search.worlds import TABLES, Booked, Degrading, Kept, Order, Replaced, Reporting, runs_of

o1, o2, o3 = (Order(order_id=f"o{number}") for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("flow", "orders", "parts"),
    [
        (Booked, (o1, o2, o3), [(1,), (2,), (3,)]),
        (Booked, (o1, o2, o1), [(1, 3), (2,)]),
        (Replaced, (o1, o2, Order(order_id="o3", shelf="b")), [(1, 2), (3,)]),
        (Kept, (o1, o2), [(1, 2)]),
    ],
    ids=["all add to one item", "two are of one object", "two write one item", "a module keeps something"],
)
def test_messages_are_apart_whose_runs_touch_nothing_of_one_anothers(
    flow: Any, orders: tuple[Order, ...], parts: list[tuple[int, ...]]
) -> None:
    with runs_of(flow, *orders) as runs:
        assert parts_of(runs.run(Schedule()), dict(enumerate(runs.all, 1))) == parts


def test_a_message_that_nobody_received_may_touch_anything() -> None:
    with runs_of(Booked, o1, o2) as runs:
        with runs.only((1,)):
            first = runs.run(Schedule())
        assert parts_of(first, dict(enumerate(runs.all, 1))) == [(1, 2)]


def test_parts_are_joined_by_what_a_third_has_touched() -> None:
    left, right, both = Touched(), Touched(), Touched()
    left.add([("dynamodb", "t", "1")], is_read=False)
    right.add([("dynamodb", "t", "2")], is_read=False)
    assert joined({(1,): left, (2,): right}) == [(1,), (2,)]
    both.add([("dynamodb", "t")], is_read=True)
    assert joined({(1,): left, (2,): right, (4,): both}) == [(1, 2, 4)]


@pytest.mark.proof("explores one message, and two")
def test_each_part_is_searched_and_the_report_counts_them() -> None:
    report = explore(Booked, [o1, o2], tables=TABLES, bound=0, walks=0)
    alone = explore(Booked, [o1], tables=TABLES, bound=0, walks=0)
    assert (report.ok, report.parts, report.as_json()["parts"], alone.parts) == (True, 2, 2, 1)
    assert "searched apart: 2 parts of the messages, which touch nothing of one another's" in report.summary()
    assert not any("searched apart" in line for line in alone.summary())
    assert report.schedules - 2 * alone.schedules < 1, "no part refuses for good what another one did"
    assert report.orders == 2 * alone.orders == 2


@pytest.mark.proof("explores flows")
def test_a_schedule_of_a_part_says_which_messages_come_and_shows_the_same_again() -> None:
    flow, messages = seeded.flow_of(seeded.PlainAdd), [seeded.Order(order_id="o1"), seeded.Order(order_id="o2")]
    report = explore(flow, messages, tables=seeded.TABLES, bound=0, walks=0)
    violation = report.violations[0]
    assert violation.schedule.startswith("1/")
    trace = replay(flow, messages, violation.schedule, tables=seeded.TABLES)
    assert trace.schedule == violation.schedule
    assert [(one.rule, one.site) for one in trace.violations] == [(violation.rule, violation.site)]


def test_a_schedule_of_messages_that_there_are_not_is_refused() -> None:
    for schedule in ("3/none", "1+3/none"):
        with pytest.raises(UnmetSchedule, match=f"{re.escape(schedule[:-4])} of the schedule .* 2 first messages"):
            replay(Booked, [o1, o2], schedule, tables=TABLES)


def test_a_schedule_of_a_part_says_nothing_of_the_runs_of_others() -> None:
    assert replay(Booked, [o1, o2], "1/none", tables=TABLES, failing=["o2"]).ok
    assert not replay(Booked, [o1, o2], "none", tables=TABLES, failing=["o2"]).ok


@pytest.mark.proof("explores flows")
def test_parts_that_meet_under_a_fault_are_searched_together_too() -> None:
    report = explore(Reporting, [o1, o2], tables=TABLES, bound=0, walks=0, for_good=False, any_order=True)
    assert report.parts == 3, "each by itself, and then both"


@pytest.mark.proof("explores flows")
def test_what_a_module_keeps_under_a_fault_alone_is_met_by_the_other_messages() -> None:
    report = explore(Degrading, [o1, o2], tables=TABLES, bound=0, walks=0, for_good=False)
    assert report.parts == 3, "each by itself, and then both"
    assert {one.schedule for one in report.violations} == {"1+2/e2"}


@pytest.mark.proof("explores flows")
def test_a_stub_that_may_remember_keeps_messages_together() -> None:
    about: Any = {"tables": TABLES, "bound": 0, "walks": 0, "for_good": False}
    stub: Any = {"ssm.GetParameter": lambda params: {"Parameter": {"Value": "x"}}}
    assert explore(Booked, [o1, o2], stubs=stub, **about).parts == 1


@pytest.mark.proof("explores flows")
def test_a_search_that_is_interrupted_before_a_part_is_no_verdict() -> None:
    alone = explore(Booked, [o1], tables=TABLES, bound=0, walks=0)

    def stop(schedules: int, violations: int) -> None:
        if schedules == 1 + alone.schedules + 1:  # after the run of both and the single faults of the first part
            raise KeyboardInterrupt

    report = explore(Booked, [o1, o2], tables=TABLES, bound=0, walks=6, progress=stop)
    assert (report.is_complete, report.singles_left, report.parts_left) == (False, 0, 2)
    assert (report.is_judged, report.ok) == (False, False)
    assert "not searched to the end, 2 parts of the messages" in report.summary()


def both(view: View) -> str | None:
    return "both are closed" if len(view.table("closed")) == 2 else None


@pytest.mark.slow("explores two messages together")
def test_an_invariant_may_be_about_all_messages() -> None:
    report = explore(Booked, [o1, o2], tables=TABLES, invariants=[both], bound=0, walks=0, most=1)
    assert [(one.rule, one.schedule) for one in report.violations] == [("both", "none")]


def test_a_search_in_parts_ends_in_time_and_is_no_verdict_then() -> None:
    report = explore(Booked, [o1, o2], tables=TABLES, seconds=0.000_001)
    assert (report.parts, report.stopped_after, report.is_judged) == (2, 0.000_001, False)
    assert report.singles_left > 20


def test_what_one_part_refused_for_good_no_other_part_refuses_at_that_call_of_that_stage() -> None:
    with runs_of(Booked, o1, o2) as runs, runs.only((1,)):
        first = runs.run(Schedule())
    names, tried = tuple(call_names(first)), TriedRefusals()
    assert tried.new(first, names) == [*lasting(first)] != []
    assert tried.new(first, names) == []
    assert tried.new(first, [f"of another stage, {name}" for name in names]) == [*lasting(first)]
