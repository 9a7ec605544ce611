"""Two versions of a flow's code in one search: a release with messages in flight, and its rollback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard import Done, Outcome, Stage, Step
from flowguard.destinations import Topic
from flowguard.errors import SettingsError
from flowguard.flow import AnyFlow
from flowguard.names.ids import RequestId
from flowguard.sim.engines import in_memory
from flowguard.sim.world import START
from flowguard.testing import Report, Trace, UnmetSchedule, View, explore, replay, sqs_event
from flowguard.testing.explorer import PlainFunction
from flowguard.testing.explorer.checks.lifetimes import no_life_is_shortened
from flowguard.testing.explorer.checks.problem import EQUIVALENCE, RELEASE, UNDISTURBED
from flowguard.testing.explorer.checks.two_versions import cause_of
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.life import RowKind, Shortened
from flowguard.testing.explorer.record.schedule import ALL_OLD, Choice, FaultKind, Schedule
from flowguard.testing.explorer.report.lanes import LaneDelivery
from flowguard.testing.explorer.report.page import page_of_schedule
from flowguard.testing.explorer.report.sarif import sarif
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Needs, Sandbox
from flowguard.testing.explorer.search.pairs import seconds_in
from flowguard.testing.explorer.search.right_ends import RightEnds
from flowguard.testing.explorer.search.runs import Runs
from tests.testing.explorer import releases
from tests.testing.explorer.histories import history_of
from tests.testing.explorer.releases import Order, Priced, PricedByDefault, PricedIn, billing, orders

OLD = orders(billing("bill"), Priced(total=5))


def searched(new: AnyFlow, old: AnyFlow | None, **more: Any) -> Report:
    return explore(new, [Order(order_id="o1")], before=old, tables=releases.TABLES, answers=answers(old), **more)


def traced(new: AnyFlow, old: AnyFlow | None, schedule: str, message: Any = None) -> Trace:
    given = [Order(order_id="o1") if message is None else message]
    return replay(new, given, schedule, before=old, tables=releases.TABLES, answers=answers(old))


def answers(old: AnyFlow | None) -> Any:
    return None if old is None else releases.ANSWERS


SEEDED: list[tuple[str, AnyFlow, AnyFlow, str, str, str]] = [
    (
        "a stage has another name",
        orders(billing("invoice"), Priced(total=5)),
        OLD,
        "c2",
        "the new code does not take a message of the old one: orders has no stage 'bill'; it has price, invoice; so "
        "bills, order_id o1",
        "out of stages= when no message for it can be left",
    ),
    (
        "a payload has a field more, without a default",
        orders(billing("bill", PricedIn), PricedIn(total=5, currency="EUR")),
        OLD,
        "c2",
        "the payload of bill is no PricedIn: currency: Field required",
        "give a new field a default",
    ),
    (
        "what the stages do has another order",
        releases.counting(first=False),
        releases.counting(first=True),
        "c2",
        "day monday: amount",
        "keep in each stage what it did",
    ),
    (
        "an answer goes to a stage that is gone",
        releases.asking("enter"),
        releases.asking("book"),
        "c2.c3-1.c4",
        "orders has no stage 'book'",
        "out of stages= when no message for it can be left",
    ),
    (
        "a queue has another name",
        orders(billing("bill", inbox="bills-2"), Priced(total=5)),
        orders(billing("bill", inbox="bills-1"), Priced(total=5)),
        "c2",
        "no function of the code reads this queue any more",
        "keep inbox= as it was",
    ),
    (
        "the last stage is gone whose messages lie in the flow's own queue",
        releases.shop(),
        releases.shop("close"),
        "c2",
        "the new code of shop has no stage 'close' that reads shop; so bills, order_id o1",
        "out of stages= when no message for it can be left; and keep its inbox= as it was",
    ),
    (
        "a handler raises for what the other release has left",
        releases.total_of(6, refuses=5),
        releases.total_of(5),
        "c2",
        "the new code fails where the other one was before: ",
        "go on from what the other one has left",
    ),
    (
        "a version is read by one release alone",
        releases.release(*orders(billing("bill"), Priced(total=5)).stages, version=2),
        releases.release(*OLD.stages, version=1, accepts=[2]),
        "none",
        "the new code does not take a message of the old one: orders does not read version 1, only [2]",
        "read both versions first",
    ),
]


@pytest.mark.parametrize(
    ("new", "old", "schedule", "text", "fix"), [seed[1:] for seed in SEEDED], ids=[seed[0] for seed in SEEDED]
)
def test_a_release_that_breaks_what_is_on_its_way_is_found_first(
    new: AnyFlow, old: AnyFlow, schedule: str, text: str, fix: str
) -> None:
    [violation] = searched(new, old, most=1).violations
    assert violation.schedule == schedule
    assert text in violation.problems[0].text
    assert fix in violation.fix


@pytest.mark.slow("explores a flow by two versions")
def test_another_name_of_what_is_done_once_does_it_twice() -> None:
    report = searched(releases.charging("charge-card", "card"), releases.charging("charge", "cash"), for_good=False)
    first, there = report.violations
    assert (first.schedule, first.rule) == ("a2.c2", EQUIVALENCE)  # nobody has noted yet what was done
    assert (there.schedule, there.rule) == ("a3.c2", RELEASE)
    text = "the old code remembers 'charge' in hop 1, and the new one 'charge-card'; so charges, how many there are"
    assert (there.problems[0].text, there.problems[0].found) == (text, "2")
    assert "keep the name" in there.fix
    assert there.site is not None
    assert "step.once(name, put)" in there.site.text


def test_a_name_more_is_no_other_name() -> None:
    """The new code still uses the old name, so what is done twice has another cause."""
    new, old = releases.charging("more", "card", first="charge"), releases.charging("charge", "cash")
    [violation] = traced(new, old, "a3.c2").violations
    assert violation.rule == EQUIVALENCE
    [renamed] = traced(releases.charging("more", "card", first="checked"), old, "a3.c2").violations
    assert "the old code remembers 'charge' in hop 1, and the new one 'checked'" in renamed.problems[0].text


def test_a_rollback_meets_what_the_release_has_left() -> None:
    bill, invoice = billing("bill"), billing("invoice")
    price = releases.pricing(("invoice", "bill"), lambda step: invoice.message(Priced(total=5)))
    both = releases.release(price, invoice, bill)  # it takes what the old one has left
    [violation] = searched(both, OLD, most=1).violations
    assert violation.schedule == "c2-1"
    assert "the old code does not take a message of the new one" in violation.problems[0].text
    assert "add the stage with one release" in violation.fix


@pytest.mark.slow("explores a flow by two versions")
def test_a_release_that_fits_is_clean_and_the_verdict_says_what_it_stands_on() -> None:
    report = searched(orders(billing("bill", PricedByDefault), PricedByDefault(total=5, currency="EUR")), OLD)
    assert report.ok, str(report)
    assert f"two versions of the code with {report.switched} switches between them" in report.tried
    assert report.as_json()["switched"] == report.switched > 40


def test_each_part_of_an_end_may_be_as_either_version_leads_to() -> None:
    """The bill has the total of the version that priced, and the mark of the one that billed: no version does that."""
    new, old = (orders(billing("bill", by=by), Priced(total=total)) for by, total in (("new", 6), ("old", 5)))
    for schedule in ("c2", "c2-1"):
        assert traced(new, old, schedule).ok


def test_an_end_that_is_right_in_parts_runs_no_more_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RightEnds, "_is_expected", lambda right, digest, without: pytest.fail("orders are run"))
    new, old = (orders(billing("bill", by=by), Priced(total=total)) for by, total in (("new", 6), ("old", 5)))
    assert traced(new, old, "c2").ok


def test_the_cure_of_what_is_compared_whole_says_how_it_may_be_of_both_versions() -> None:
    new, old = releases.telling("newer"), releases.telling("old")
    violation = traced(new, old, "c2").violations[0]
    assert violation.option == (
        'either={"bills": [{"notes": …}]} with all forms that are right; '
        'or free={"bills": ["notes"]}: notes is not compared any more'
    )
    assert "keep in each stage what it did" in violation.fix

    def option(**free: list[str]) -> str:
        about: Any = {"before": old, "tables": releases.TABLES, "free": free}
        violations = replay(new, [Order(order_id="o1")], "c2", **about).violations
        return violations[0].option if violations else "none is wrong"

    assert option(bills=["notes"]).startswith('either={"bills": [{"pieces": …}]} with')
    body = option(bills=["notes", "pieces"])
    assert body.startswith('either={"mails": [{"total": …}]} with')
    assert body.endswith('free={"mails": ["total"]}: total is not compared any more')
    assert option(bills=["notes", "pieces"], mails=["total"]) == "none is wrong"


def test_what_an_invariant_says_stands_beside_the_cause() -> None:
    def a_bill_is_there(view: View) -> object:
        return view.item("bills", order_id="o1") is not None

    new = orders(billing("invoice"), Priced(total=5))
    given = [Order(order_id="o1")]
    trace = replay(new, given, "c2", before=OLD, tables=releases.TABLES, invariants=[a_bill_is_there])
    assert {violation.rule for violation in trace.violations} == {RELEASE, "a_bill_is_there"}


def test_two_names_of_one_version_are_no_cause() -> None:
    class Twice(Stage[Order], name="twice", then="end", inbox="orders"):
        def handle(self, order: Order, step: Step) -> Outcome:
            step.once("first", lambda: 1)
            step.once("second", lambda: 2)
            return End.message(order)

    class End(Stage[Order], name="end"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    flow = releases.release(Twice, End)
    with Sandbox([flow], [Order(order_id="o1")], {}, in_memory, 0, needs=Needs(before=flow)) as sandbox:
        assert cause_of(run(sandbox, Schedule.parse("c2"))) is None


def test_a_warm_worker_of_the_old_code_may_go_on_for_a_while() -> None:
    new, old = releases.asking("book"), releases.asking("book")
    trace = traced(new, old, "c2.c3-1.c4")
    heads = [line.rpartition(", by the ")[2] for line in trace.timeline if ", by the " in line]
    assert trace.ok
    assert heads[:4] == ["old code", "new code", "old code", "new code"]
    codes = [moment.code for moment in trace.lanes.moments if isinstance(moment, LaneDelivery)]
    assert [f"{code} code" for code in codes] == heads
    assert page_of_schedule(trace).count("by the old code") == codes.count("old")


def schedules_of(new: AnyFlow, old: AnyFlow | None, **more: Any) -> list[str]:
    """Return the schedules that a search runs."""
    tried: list[str] = []
    real = Runs.run

    def run(self: Runs, schedule: Schedule) -> History:
        tried.append(schedule.id)
        return real(self, schedule)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runs, "run", run)
        searched(new, old, **{"for_good": False, **more})
    return tried


@pytest.mark.slow("explores a flow by two versions")
def test_switches_come_first_then_back_then_for_good_and_after_each_fault() -> None:
    alone, tried = schedules_of(OLD, None, bound=0, walks=0), schedules_of(OLD, OLD, bound=0, walks=0)
    switched = [name for name in tried if "c" in name]
    assert [name for name in tried if name not in switched] == alone  # a search without the option is as it was
    assert [*dict.fromkeys(switched)][:3] == ["c1-1", "c2", "c2-1"]
    assert {"d1.c2", "a3.c2", "x1.c2", "d4.c3", "d4.c3-1", "x2.c3-1"} <= set(switched)
    assert not [name for name in switched if name.startswith("n")]
    assert "c2.c3-1" not in switched  # there are two deliveries


def test_a_switch_is_followed_by_one_back_and_that_by_one_for_good() -> None:
    new, old = releases.asking("enter"), releases.asking("book")
    tried = schedules_of(new, old, most=3, seconds=2)
    assert {"c2", "c2.c3-1", "c2.c3-1.c4", "c2-1.c3"} <= set(tried)
    assert "c2.c3-1.c4.c5-1" not in tried


@pytest.mark.slow("explores a flow by two versions")
def test_a_rollback_may_be_left_out() -> None:
    new, old = releases.passing(billing("invoice"), billing("bill")), releases.passing(billing("bill"))
    about: dict[str, Any] = {"for_good": False, "bound": 0, "walks": 0}
    [violation] = searched(orders(billing("invoice"), Priced(total=5)), OLD, rollback=False, most=1).violations
    assert violation.schedule == "c2"
    assert {violation.rule for violation in searched(new, old, **about).violations} == {RELEASE}
    report = searched(new, old, rollback=False, **about)
    assert report.ok, str(report)
    tried = schedules_of(new, old, rollback=False, **about)
    assert {"c2.c3-1", "c2.c3-1.c4"} <= set(tried)  # a warm worker of the old code goes on
    assert {name for name in tried if Schedule.parse(name).ends_old} == {"c1-1", "c2.c3-1", "c3.c4-1"} & set(tried)


def test_a_queue_that_was_killed_is_read_by_the_code_that_is_there() -> None:
    new, old = (orders(billing("bill", inbox=inbox), Priced(total=5)) for inbox in ("bills-2", "bills-1"))
    trace = traced(new, old, "d4-1.c3")
    assert any("by the new code from the dead-letter queue of SQS" in line for line in trace.timeline)


def test_what_is_parked_for_the_other_version_is_not_sent_back() -> None:
    tried = schedules_of(orders(billing("invoice"), Priced(total=5)), OLD, most=3, seconds=2)
    assert "c2" in tried
    assert not [name for name in tried if name.startswith("c") and "r1" in name]


def test_after_a_switch_a_fault_may_strike_each_call() -> None:
    history = history_of(OLD, [Order(order_id="o1")], "none", tables=releases.TABLES)
    after = {second.choice.at for second in seconds_in(history, Choice(2, FaultKind.CODE))}
    assert after == set(range(1, len(history.calls) + 1))


def test_a_queue_of_one_version_is_read_by_it_while_both_are_there() -> None:
    new, old = releases.asking("book", "bookings-2"), releases.asking("book")
    trace = traced(new, old, "c3.c4-1")
    assert trace.ok
    assert any("book, hop 2, by the old code" in line for line in trace.timeline)
    assert not any("no function reads" in line for line in trace.timeline)
    gone = traced(new, old, "c3")
    assert any("no function reads bookings any more" in line for line in gone.timeline)
    assert not any("book, hop 2, by the old code" in line for line in gone.timeline)


def test_each_record_of_a_batch_is_of_the_code_of_its_function() -> None:
    given = [Order(order_id="o1"), Order(order_id="o2")]
    trace = replay(OLD, given, "c3", before=OLD, tables=releases.TABLES, batch=2)
    came = [moment for moment in trace.lanes.moments if isinstance(moment, LaneDelivery)]
    assert [moment.code for moment in came] == ["old", "old", "new", "new"]


def test_a_plain_function_has_one_version() -> None:
    function = PlainFunction("mails", lambda event, context: None)
    given: list[Any] = [Order(order_id="o1"), sqs_event("mails", {"to": "someone"})]
    trace = replay([OLD, function], given, "c2", before=OLD, tables=releases.TABLES)
    codes = {moment.queue: moment.code for moment in trace.lanes.moments if isinstance(moment, LaneDelivery)}
    assert codes["mails"] == ""
    assert codes["orders"] in ("old", "new")


def test_the_line_that_fails_may_be_of_the_old_code() -> None:
    [violation] = traced(releases.total_of(6), releases.total_of(5, refuses=6), "c2-1").violations
    assert "the old code fails where the other one was before" in violation.problems[0].text
    assert violation.site is not None
    assert violation.site.text.startswith("raise Reject")


def test_what_the_end_has_too_much_of_is_looked_for_in_no_undisturbed_run() -> None:
    [violation] = traced(releases.counting(first=False), releases.counting(first=True), "c2").violations
    assert violation.parts_at is None
    assert (violation.problems[0].expected, violation.problems[0].found) == (5, 10)


def test_processes_of_the_versions_know_for_themselves_what_is_refused() -> None:
    with Sandbox([OLD], [Order(order_id="o1")], {}, in_memory, 0, needs=Needs(before=OLD)) as sandbox:
        new, old = sandbox.functions(lambda event: None, lambda row: False)
        assert new.any.handler._services.denials is not old.any.handler._services.denials  # type: ignore[attr-defined]


def test_a_topic_may_be_of_the_old_code_alone() -> None:
    old = orders(billing("bill", inbox=Topic("arn:aws:sns:us-east-1:123456789012:bills")), Priced(total=5))
    assert traced(OLD, old, "c1-1").ok


def test_rows_of_a_wait_may_name_the_stage_of_either_version() -> None:
    def problems(kind: RowKind, schedule: str) -> int:
        history = History(Schedule.parse(schedule), START)
        history.shortened.append(Shortened(kind, "wait#orders#x", 1, START, 9_030, 9_000, is_another=True))
        return len([*no_life_is_shortened(history, [OLD])])

    assert (problems(RowKind.AWAITED, "c2"), problems(RowKind.AWAITED, "none"), problems(RowKind.GROUP, "c2")) == (
        0,
        1,
        1,
    )


def test_a_policy_that_one_version_has_is_kept() -> None:
    """Three attempts are right by the old code, and one by the new one."""
    assert traced(releases.retrying(1), releases.retrying(3), "e2.c2").ok


def test_the_old_code_has_to_take_what_is_given_by_itself() -> None:
    new = releases.release(*OLD.stages, version=2, accepts=[1])
    first, _ = new.request(Order(order_id="o1"), request_id=lambda: RequestId("r1"), requested_at=START)
    given = sqs_event("orders", {"order_id": "o1"}, attributes=first.attributes())
    report = explore(new, [given], before=releases.release(*OLD.stages), tables=releases.TABLES, most=1)
    [violation] = report.violations
    assert (violation.schedule, violation.rule, report.switched) == ("c1-1", RELEASE, 0)
    assert "the old code does not take a message of the new one: orders does not read version 2, only [1]" in (
        violation.problems[0].text
    )
    trace = traced(new, releases.release(*OLD.stages), "c1-1", given)
    assert [violation.rule for violation in trace.violations] == [RELEASE]


def test_the_old_code_has_to_end_well_by_itself() -> None:
    report = searched(releases.total_of(5), releases.total_of(5, refuses=5), for_good=False, bound=0, walks=0)
    assert [(violation.schedule, violation.rule) for violation in report.violations] == [("c1-1", UNDISTURBED)]
    assert report.switched == 0  # what it leads to says nothing


def test_a_schedule_with_a_switch_needs_the_old_code() -> None:
    with pytest.raises(SettingsError, match="switches to another code; say where the old one is"):
        traced(OLD, None, "c2")


def test_a_switch_at_a_delivery_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnmetSchedule, match="the run has 2 deliveries"):
        traced(OLD, OLD, "c9")


def test_what_breaks_between_two_versions_is_named_for_code_hosts() -> None:
    new = releases.charging("charge-card", "card")
    trace = traced(new, releases.charging("charge", "cash"), "a3.c2")
    [result] = json.loads(sarif(trace, "0"))["runs"][0]["results"]
    assert (result["ruleId"], len(result["locations"])) == (RELEASE, 1)


@pytest.mark.parametrize(
    ("schedule", "codes"),
    [
        ("none", "nnnn"),
        ("c1-1", "oooo"),
        ("c3", "oonn"),
        ("c3-1", "nnoo"),
        ("c2.c3-1", "onoo"),
        ("c3-1.c2", "onoo"),
        ("c2.c3-1.c4", "onon"),
    ],
)
def test_a_schedule_says_which_code_handles_a_delivery(schedule: str, codes: str) -> None:
    parsed = Schedule.parse(schedule)
    assert "".join("o" if parsed.is_old_at(number) else "n" for number in range(1, 5)) == codes


def test_both_versions_are_there_until_the_last_switch() -> None:
    parsed = Schedule.parse("c2.c4-1")
    assert [parsed.switches_after(number) for number in range(1, 6)] == [True, True, True, False, False]
    assert [Schedule.parse(name).ends_old for name in ("none", "c2", "c2-1", "c2.c4-1", "c3.c2-1")] == [
        *(False, False, True, True, False)
    ]
    assert Schedule.parse("c1-1").choices == (ALL_OLD,) == (Choice(1, FaultKind.CODE, 1),)
