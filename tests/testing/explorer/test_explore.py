"""The explorer finds each kind of bug at its line, and finds nothing where there is none."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.sim.engines import in_memory
from flowguard.testing import sqs_event
from flowguard.testing.explorer import Report, View, explore, invariant, on_moto, replay
from tests.testing.explorer import seeded


def explored(stage: Any, **about: Any) -> Report:
    message: Any = sqs_event("orders", {"order_id": "o1"})
    return explore(seeded.flow_of(stage), [message], tables=seeded.TABLES, **{"bound": 0, "walks": 0, **about})


@functools.cache
def alone(stage: Any) -> Report:
    """Each fault by itself: explored once, for all tests that look at it."""
    return explored(stage)


@pytest.mark.proof("explores flows")
@pytest.mark.parametrize(
    ("stage", "fix"),
    [
        (seeded.PlainAdd, "runs again after a crash: record it with step.update, or make it conditional"),
        (seeded.PlainSend, "nothing on the message says that it is a copy: record it with step.send"),
        (seeded.CheckThenAct, "put the check into the write's own ConditionExpression"),
        (seeded.RandomKey, "runs again after a crash: record it with step.put"),
        (seeded.BeforeClaim, "runs again after a crash: record it with step.update"),
        (seeded.Swallowed, "failed, and the stage went on without it: let the error out"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_bug_is_found_at_its_line_with_its_cure(stage: Any, fix: str) -> None:
    violation, *others = alone(stage).violations
    refused = [other.schedule for other in others]
    assert refused == (["f1"] if stage is seeded.BeforeClaim else []), "its message is parked: the object is not read"
    assert all(
        "runs while the message is read" in other.fix and "into the stage's handle" in other.fix for other in others
    )
    guilty = seeded.Counted if stage is seeded.BeforeClaim else stage
    assert violation.site is not None
    assert (violation.site.file, violation.site.line) == (seeded.__file__, seeded.guilty_line(guilty.__name__))
    assert violation.rule == "equivalence"
    assert fix in violation.fix
    assert "." not in violation.schedule, "one fault is enough"


@pytest.mark.proof("explores flows")
@pytest.mark.parametrize("stage", [seeded.PlainPut, seeded.Recorded, seeded.RecordedRandom])
def test_what_may_be_repeated_is_not_complained_of(stage: Any) -> None:
    report = explored(stage, bound=20, walks=10)
    assert report.ok, str(report)


@pytest.mark.proof("explores flows")
def test_what_depends_on_the_time_differs_unless_it_may() -> None:
    (violation,) = explored(seeded.Told).violations
    assert violation.site is not None
    assert violation.site.text.startswith("step.put(")
    assert violation.option == 'free={"orders": ["at"]}: at is not compared any more'
    assert "free=" not in violation.fix
    assert explored(seeded.Told, free={"orders": ["at"]}).ok


@pytest.mark.slow("explores flows and handlers")
def test_a_fault_met_a_call_and_which_did_is_counted() -> None:
    report = alone(seeded.PlainPut)
    assert report.coverage["plain-put: UpdateItem of claim"] == "adefltuvz"
    (mine,) = [faults for call, faults in report.coverage.items() if "PutItem orders at" in call]
    assert mine == "aefltuvz", "dying before it is dying after the claim"


@pytest.mark.proof("explores a flow twice")
def test_the_same_call_twice_gives_the_same_report() -> None:
    first, second = (explored(seeded.PlainAdd, bound=5, walks=5, seed=3) for _ in range(2))
    assert first == second
    assert str(first).splitlines()[:-1] == str(second).splitlines()[:-1]


@pytest.mark.long("explores a flow once more on moto")
def test_the_engine_makes_no_difference() -> None:
    assert explored(seeded.PlainAdd, engine=on_moto) == alone(seeded.PlainAdd)


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    ("flow", "schedule"),
    [(seeded.ToldTwoStages, "d2.d5-1.r1-1"), (seeded.OpensLater, "u2.a2"), (seeded.TwoStages, "p3-1.x1-2")],
    ids=["redriven", "scheduled", "late"],
)
def test_the_engine_makes_no_difference_to_a_schedule(flow: Any, schedule: str) -> None:
    on_both = [
        replay(flow, [seeded.Order(order_id="o1")], schedule, tables=seeded.TABLES, engine=engine)
        for engine in (on_moto, in_memory)
    ]
    assert on_both[0] == on_both[1]
    assert on_both[0].ok, str(on_both[0])


def test_what_is_no_engine_is_told() -> None:
    made: Any = 3
    with pytest.raises(SettingsError, match="makes 3, which is no engine; give in_memory or on_moto"):
        explored(seeded.PlainAdd, engine=lambda clock: made)


@pytest.mark.slow("explores flows and handlers")
def test_a_schedule_shows_its_failure_again() -> None:
    (violation,) = alone(seeded.CheckThenAct).violations
    about: Any = sqs_event("orders", {"order_id": "o1"})
    flow = seeded.flow_of(seeded.CheckThenAct)
    again = replay(flow, [about], violation.schedule, tables=seeded.TABLES)
    assert again.timeline == violation.timeline
    assert [one.problems for one in again.violations] == [violation.problems]
    assert not again.ok
    assert str(again).startswith("\n".join([*violation.timeline, "", "violation: equivalence, schedule "]))
    undisturbed = replay(flow, [about], "none", tables=seeded.TABLES)
    assert undisturbed.ok
    assert str(undisturbed) == "\n".join([*undisturbed.timeline, "", "0 violations"])


@pytest.mark.slow("explores flows and handlers")
def test_a_failure_is_shown_as_people_need_it() -> None:
    shown = str(alone(seeded.PlainAdd))
    line = f"seeded.py:{seeded.guilty_line('PlainAdd')}"
    assert "violation 1 of 1: equivalence, schedule a2" in shown
    assert "╳ dies after it (applied)" in shown
    assert "totals, day monday: amount  5            10" in shown
    assert f"{line}: table.update_item(" in shown
    assert "\n1 violation, " in shown


def test_a_report_in_json_has_it_all() -> None:
    found = alone(seeded.PlainAdd).as_json()
    (violation,) = found["violations"]
    assert violation["schedule"] == "a2"
    assert violation["problems"][0]["expected"] == 5
    assert violation["source"].startswith("table.update_item(")


@invariant
def at_most_once_a_day(view: View) -> None:
    item = view.item("totals", day="monday")
    assert item is None or item["amount"] <= 5, f"{item['amount']} on a monday"


@pytest.mark.proof("explores flows")
def test_a_users_own_invariant_is_checked_after_each_schedule() -> None:
    report = explored(seeded.PlainAdd, invariants=[at_most_once_a_day], free={"totals": ["amount"]})
    (violation,) = report.violations
    assert (violation.rule, violation.problems[0].text.splitlines()[0]) == ("at_most_once_a_day", "10 on a monday")
    assert violation.site is not None


@pytest.mark.proof("explores flows")
def test_a_view_shows_runs_and_messages_without_copies() -> None:
    seen: list[tuple[Any, Any]] = []

    def look(view: View) -> bool:
        seen.append(([run.status for run in view.runs()], [one.body for one in view.sent("emails")]))
        return True

    assert explored(seeded.Recorded, invariants=[look]).ok
    complete: Any = (["COMPLETED"], [{"ordered": "o1"}])
    from_dlq: Any = (["FAILED"], [])
    refused: Any = [(["COMPLETED"], []), ([], []), (["RUNNING"], [])]
    assert {str(one) for one in seen} == set(map(str, [complete, from_dlq, *refused]))


def test_a_payload_that_starts_no_flow_is_refused() -> None:
    with pytest.raises(TypeError, match="Order starts none of the flows: flow-before-claim with Counted"):
        explore(seeded.flow_of(seeded.BeforeClaim), [seeded.Order(order_id="o1")])
