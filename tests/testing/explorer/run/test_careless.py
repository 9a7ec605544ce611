"""What a module keeps, orders that no queue keeps, old reads, batches taken in part: each is named for what it is."""

from __future__ import annotations

import sys
from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Reject, Stage, Step
from flowguard.sim.memory.dynamodb import DynamoDB
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, Report, UnmetSchedule, Violation, explore, on_moto, replay
from flowguard.testing.explorer.report.findings import show
from tests.testing.explorer import careless

ONE = {"order_id": "o1", "amount": 5}
OTHER = {"order_id": "o2", "amount": 7}
CHANGED = {"order_id": "o1", "amount": 7}


def explored(handler: Any, *messages: Any, queue: str = "orders", **about: Any) -> Report:
    few = {"bound": 0, "walks": 0, **about}
    return explore(PlainFunction(queue, handler), messages or (ONE,), **few)


def finding(handler: Any, *messages: Any, rule: str = "equivalence", **about: Any) -> Violation:
    found = [one for one in explored(handler, *messages, **about).violations if one.rule == rule]
    assert len(found) == 1, found
    site = found[0].site
    assert site is not None
    assert site.function == handler.__name__
    return found[0]


# -- what modules keep -------------------------------------------------------------------------------------------------


def test_what_a_record_leaves_for_the_next_is_named_with_its_module() -> None:
    violation = finding(careless.gathers, ONE, OTHER, rule="module state")
    assert violation.problems[0].where == "tests.testing.explorer.careless.gathered"
    assert violation.fix.startswith("keep nothing of a record in tests.testing.explorer.careless.gathered")


def test_one_record_is_enough_where_it_comes_twice() -> None:
    violation = finding(careless.gathers, rule="module state")
    assert violation.schedule != "none"


def test_a_cache_that_changes_nothing_is_no_finding() -> None:
    report = explored(careless.remembers, ONE, OTHER)
    assert report.ok, str(report)


class Gathered(BaseModel):
    order_id: str


GATHERED: dict[str, list[str]] = {"orders": []}


class Gather(Stage[Gathered], name="gather", inbox="gathered"):
    def handle(self, order: Gathered, step: Step) -> Outcome:
        GATHERED["orders"].append(order.order_id)
        table = boto3.resource("dynamodb", region_name="us-east-1").Table("orders")
        table.put_item(Item={"order_id": order.order_id, "with": ",".join(GATHERED["orders"])})
        return Done()


class GatherOrders(Flow, name="gather-orders", object_id="order_id"):
    stages = (Gather,)


@pytest.mark.proof("explores flows")
def test_a_flows_module_begins_as_it_was_loaded_and_what_leaks_is_named() -> None:
    report = explore(
        GatherOrders, [Gathered(order_id="o1"), Gathered(order_id="o2")], tables=careless.TABLES, walks=0, bound=0
    )
    names = {one.problems[0].where for one in report.violations if one.rule == "module state"}
    assert names == {f"{__name__}.GATHERED"}
    assert all(len(item["with"].split(",")) <= 3 for item in seen_of(GatherOrders))


def seen_of(flow: Any) -> list[Any]:
    seen: list[Any] = []
    replay(
        flow,
        [Gathered(order_id="o1")],
        "none",
        tables=careless.TABLES,
        invariants=[lambda view: seen.extend(view.table("orders"))],
    )
    return seen


# -- orders ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow("explores flows and handlers")
def test_an_end_that_depends_on_an_order_which_no_queue_keeps_is_found() -> None:
    violation = finding(careless.keeps_the_last, ONE, CHANGED, rule="not one after the other")
    assert violation.schedule == "o1-1"
    assert (violation.problems[0].where, violation.problems[0].expected, violation.problems[0].found) == (
        "orders",
        7,
        5,
    )
    assert "any_order" not in violation.fix, "what hides a finding is no fix"
    assert violation.option.startswith("any_order=True: ")
    last = show(violation)[-2:]
    assert [line.strip().partition("   ")[0] for line in last] == ["likely fix", "if it is meant"]
    assert explored(careless.keeps_the_last, ONE, CHANGED, any_order=True).ok


def test_a_fifo_queue_keeps_the_order_of_a_group() -> None:
    events = [
        sqs_event("orders.fifo", order, group="o1", sent_at=1_767_225_600_000 + place, message_id=f"m{place}")
        for place, order in enumerate((ONE, CHANGED))
    ]
    report = explored(careless.keeps_the_last, *events, queue="orders.fifo")
    assert report.orders == 1
    assert [one.schedule[0] for one in report.violations] == ["x"], "a late copy of the first one is written last"


# -- old reads ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow("explores flows and handlers")
def test_a_read_that_may_be_old_is_found_and_a_consistent_one_is_not() -> None:
    violation = finding(careless.reads_what_it_wrote)
    assert violation.schedule == "s2"
    assert violation.fix.endswith("read with ConsistentRead=True, or do not depend on it")
    assert explored(careless.reads_it_at_once).ok


STALE = [
    (careless.bills_both, ["log, entry o1: orders_amount", "log, entry o1: totals_amount"]),
    (careless.looks_late_at_orders, ["log, entry o1: orders_amount"]),
]


@pytest.mark.parametrize(("handler", "missing"), STALE, ids=["both tables", "one of them"])
def test_a_batch_of_reads_does_not_see_the_last_write_of_each_table_without_consistency(
    handler: Any, missing: list[str]
) -> None:
    trace = replay(PlainFunction("orders", handler), [ONE], "s3", tables=careless.TABLES)
    (violation,) = trace.violations
    assert violation.fix.endswith("read with ConsistentRead=True, or do not depend on it")
    assert [f"{one.where}, {one.text}" for one in violation.problems] == missing


@pytest.mark.parametrize(
    ("handler", "schedule"),
    [
        (careless.bills_at_once, "s3"),
        (careless.bills_in_one_transaction, "s2"),
        (careless.bills_after_a_while, "s3"),
    ],
    ids=["consistent", "in a transaction", "two seconds after the last write"],
)
def test_these_reads_see_every_write(handler: Any, schedule: str) -> None:
    with pytest.raises(UnmetSchedule, match="cannot meet that"):
        replay(PlainFunction("orders", handler), [ONE], schedule, tables=careless.TABLES)


@pytest.mark.proof("explores a handler, on moto")
def test_on_an_engine_that_cannot_go_back_no_read_is_old() -> None:
    assert explored(careless.reads_what_it_wrote, engine=on_moto).ok


# -- batches in part ---------------------------------------------------------------------------------------------------


@pytest.mark.slow("explores flows and handlers")
def test_what_a_batch_leaves_is_found_where_nobody_looks() -> None:
    violation = finding(careless.leaves_a_part)
    assert violation.schedule == "p1-1"
    assert "UnprocessedItems" in violation.fix
    assert explored(careless.writes_the_rest).ok
    lost = finding(careless.reads_a_part, items={"orders": [{"order_id": "a"}, {"order_id": "b"}]})
    assert lost.schedule == "p1-1"
    assert "UnprocessedKeys" in lost.fix


@pytest.mark.parametrize("more", ["p1-1", "p1-12"])
def test_a_batch_in_part_is_applied_in_part(more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = DynamoDB._batch_write

    def counted(self: DynamoDB, params: Any) -> Any:
        sizes.append(sum(map(len, params["RequestItems"].values())))
        return real(self, params)

    monkeypatch.setattr(DynamoDB, "_batch_write", counted)
    assert replay(PlainFunction("orders", careless.writes_the_rest), [ONE], more).ok
    rest = sum(sizes[-2:])
    assert rest == 3


# -- fixes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", [careless.adds, careless.swallows])
def test_a_plain_function_is_not_told_of_steps(handler: Any) -> None:
    report = explored(handler)
    assert not report.ok
    for violation in report.violations:
        assert "step" not in violation.fix
        assert "stage" not in violation.fix


def test_that_a_number_may_differ_is_never_offered() -> None:
    report = explored(careless.gathers, ONE, OTHER)
    assert all("free=" not in one.fix for one in report.violations)


# -- lines of stages ---------------------------------------------------------------------------------------------------


class Timed(Stage[Gathered], name="timed", inbox="gathered"):
    def handle(self, order: Gathered, step: Step) -> Outcome:
        step.put(table="orders", item={"order_id": order.order_id, "at": step.now().isoformat()})
        return Done()


class TimeOrders(Flow, name="time-orders", object_id="order_id"):
    stages = (Timed,)


class Refused(Stage[Gathered], name="refused", inbox="gathered"):
    def handle(self, order: Gathered, step: Step) -> Outcome:
        raise Reject("there is no such shop")


class RefuseOrders(Flow, name="refuse-orders", object_id="order_id"):
    stages = (Refused,)


class Changed(Stage[Gathered], name="changed", inbox="gathered"):
    def handle(self, order: Gathered, step: Step) -> Outcome:
        step.modify("orders", {"order_id": order.order_id}, lambda item: {**(item or {}), "at": step.now().isoformat()})
        return Done()


class ChangeOrders(Flow, name="change-orders", object_id="order_id"):
    stages = (Changed,)


class Exits(Stage[Gathered], name="exits", inbox="gathered"):
    def handle(self, order: Gathered, step: Step) -> Outcome:
        sys.exit("there is no such shop")


class ExitOrders(Flow, name="exit-orders", object_id="order_id"):
    stages = (Exits,)


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    ("flow", "line"),
    [
        (TimeOrders, "step.put("),
        (ChangeOrders, "step.modify("),
        (RefuseOrders, 'raise Reject("there is no such shop")'),
        (ExitOrders, 'sys.exit("there is no such shop")'),
    ],
)
def test_what_a_stage_records_or_raises_is_named_with_its_line(flow: Any, line: str) -> None:
    handle = flow.stages[0].handle
    report = explore(flow, [Gathered(order_id="o1")], tables=careless.TABLES, bound=0, walks=0)
    (violation,) = report.violations
    assert violation.site is not None
    assert violation.site.text.startswith(line)
    assert flow.stages[0].handle is handle, "the stage is as it was"


def test_a_search_stops_after_its_seconds() -> None:
    report = explored(careless.adds, seconds=0.000_001)
    assert report.stopped_after == 0.000_001
    assert "stopped after 1e-06 s" in str(report)
    assert not report.as_json()["complete"]
    assert explored(careless.adds, seconds=600).as_json()["complete"]
