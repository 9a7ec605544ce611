"""The only message is also run with its twin: what two messages do to one another needs no second one of the tester."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing import Later, View, sqs_event
from flowguard.testing.explorer import NoSuchSchedule, PlainFunction, Report, Schedule, UnmetSchedule, explore, replay
from flowguard.testing.explorer.run.twins import other, twin_of

dynamodb: Any = boto3.client("dynamodb", region_name="us-east-1")
tables: Any = boto3.resource("dynamodb", region_name="us-east-1")
ORDER = {"order_id": "o1", "sku": "tea", "n": 3}
TABLES: Any = {"stock": "sku", "orders": "order_id"}
QUICK: Any = {"tables": TABLES, "items": {"stock": [{"sku": "tea", "n": 5}]}, "bound": 1, "walks": 0}


def sells(event: Any, context: Any) -> None:
    """Sells each order once, and looks at the stock before."""
    for record in event["Records"]:
        order = json.loads(record["body"])
        if tables.Table("stock").get_item(Key={"sku": order["sku"]}, ConsistentRead=True)["Item"]["n"] < order["n"]:
            continue
        note = {"order_id": {"S": order["order_id"]}}
        take = {"UpdateExpression": "SET n = n - :n", "ExpressionAttributeValues": {":n": {"N": str(order["n"])}}}
        once = "attribute_not_exists(order_id)"
        try:
            dynamodb.transact_write_items(
                TransactItems=[
                    {"Put": {"TableName": "orders", "Item": note, "ConditionExpression": once}},
                    {"Update": {"TableName": "stock", "Key": {"sku": {"S": order["sku"]}}, **take}},
                ]
            )
        except dynamodb.exceptions.TransactionCanceledException:
            continue


def keeps(event: Any, context: Any) -> None:
    """Sound: puts what it gets under its id."""
    for record in event["Records"]:
        order = json.loads(record["body"])
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "n": order["n"]})


def knows_one(event: Any, context: Any) -> None:
    """Fails for all orders but the one whose price is there."""
    for record in event["Records"]:
        order = json.loads(record["body"])
        tables.Table("stock").get_item(Key={"sku": order["order_id"]}, ConsistentRead=True)["Item"]


def sold(handler: Any = sells, **about: Any) -> Report:
    return explore(PlainFunction("orders", handler), [ORDER], **{**QUICK, **about})


@pytest.mark.slow("explores flows and handlers")
def test_a_check_that_another_order_makes_wrong_is_found_with_one_message() -> None:
    report = sold()
    assert report.has_twin
    first = report.violations[0]
    assert (first.rule, first.schedule) == ("equivalence", "1+1/z1-1")


def test_its_schedule_is_run_again_by_its_id() -> None:
    about = {name: value for name, value in QUICK.items() if name not in ("bound", "walks")}
    trace = replay(PlainFunction("orders", sells), [ORDER], "1+1/z1-1", **about)
    assert {one.rule for one in trace.violations} == {"equivalence"}
    assert replay(PlainFunction("orders", sells), [ORDER], "1+1/none", **about).ok, "which goes first may decide"


@pytest.mark.slow("explores flows and handlers")
def test_the_quick_search_and_invariants_alone_leave_it_out() -> None:
    report = sold(bound=0)
    assert report.ok, str(report)
    assert not report.has_twin
    assert not sold(keeps, invariants_only=True, for_good=False).has_twin


@pytest.mark.slow("explores flows and handlers")
def test_without_a_word_the_twin_is_tried_and_pairs_are_offered() -> None:
    about = {name: value for name, value in QUICK.items() if name not in ("bound", "walks")}
    report = explore(PlainFunction("orders", keeps), [ORDER], **about)
    assert (report.has_twin, report.verdict) == (True, "clean")
    assert f", {report.pairs_left} pairs beyond the bound (to try some: bound=300, walks=200)" in report.tried
    assert report.pairs_left > 0


@pytest.mark.slow("explores flows and handlers")
def test_invariants_are_not_asked_of_two_messages_where_one_was_given() -> None:
    def there_is_one(view: View) -> object:
        return "two orders" if len(view.table("orders")) > 1 else None

    report = sold(keeps, invariants=[there_is_one])
    assert report.ok, str(report)
    assert report.has_twin
    assert ", the message with its twin; compared: orders, stock" in report.tried


@pytest.mark.slow("explores flows and handlers")
def test_a_twin_that_fails_by_right_is_left_out() -> None:
    report = sold(knows_one, items={"stock": [{"sku": "o1"}]})
    assert report.ok, str(report)
    assert not report.has_twin


def test_what_is_found_with_the_message_alone_is_enough() -> None:
    def adds(event: Any, context: Any) -> None:
        add = {"UpdateExpression": "ADD n :n", "ExpressionAttributeValues": {":n": 1}}
        tables.Table("stock").update_item(Key={"sku": "tea"}, **add)

    report = sold(adds)
    assert not report.has_twin
    assert [one.schedule for one in report.violations] == ["a1"]


class Paid(BaseModel):
    order_id: str


class Count(Stage[Paid], name="count", then="write", inbox="paid"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        item = tables.Table("stock").get_item(Key={"sku": "tea"}, ConsistentRead=True)["Item"]
        return Write.message(Counted(order_id=paid.order_id, n=int(item["n"]) + 1))


class Counted(BaseModel):
    order_id: str
    n: int


class Write(Stage[Counted], name="write"):
    def handle(self, counted: Counted, step: Step) -> Outcome:
        step.put("stock", {"sku": "tea", "n": counted.n})
        return Done()


class Counts(Flow, name="counts", object_id="order_id"):
    stages = (Count, Write)


@pytest.mark.slow("explores a flow of two stages with its twin")
def test_runs_of_a_flow_that_meet_have_to_end_as_whole_runs() -> None:
    report = explore(Counts, [Paid(order_id="o1")], **{**QUICK, "for_good": False})
    assert report.has_twin
    assert report.violations[0].rule == "not one after the other"
    assert report.violations[0].schedule.startswith("1+1/")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"order_id": "o1", "customer_id": "c1"}, {"order_id": "o1-2", "customer_id": "c1"}),
        ({"n": 3, "id": 7}, {"n": 3, "id": 1_000_010}),
        ({"n": 3}, {"n": 3}),
        ({"ids": ["o1"]}, {"ids": ["o1"]}),
        (Later({"id": 1}, timedelta(hours=1)), None),
        (sqs_event("orders", "no JSON"), None),
        (sqs_event("orders", "[1]"), None),
    ],
)
def test_a_twin_has_another_id_and_nothing_else(message: Any, expected: Any) -> None:
    assert twin_of(message, []) == expected


def test_a_recorded_message_has_a_twin_under_a_message_id_of_its_own() -> None:
    twin: Any = twin_of(sqs_event("orders", ORDER, message_id="m1"), [])
    (record,) = twin["Records"]
    assert (record["messageId"], json.loads(record["body"])) == ("m1-2", {**ORDER, "order_id": "o1-2"})


def test_a_flows_payload_gets_another_object_and_its_records_none() -> None:
    assert twin_of(Paid(order_id="o1"), [Counts]) == Paid(order_id="o1-2")
    assert twin_of(Counted(order_id="o1", n=1), [Counts]) is None
    assert twin_of({"order_id": "o1"}, [Counts]) is None
    assert twin_of(Paid(order_id="o1"), []) == {"order_id": "o1-2"}, "a plain function gets its JSON"


def test_ids_stay_of_their_kind() -> None:
    assert (other("o1"), other(1)) == ("o1-2", 1_000_004)


@pytest.mark.parametrize("text", ["2+2/none", "1+1+2/none", "1+1+1/none"])
def test_only_the_first_message_has_a_twin(text: str) -> None:
    with pytest.raises(NoSuchSchedule):
        Schedule.parse(text)
    assert Schedule.parse("1+1/z2").has_twin
    assert Schedule.parse("1+1/z2").id == "1+1/z2"


def test_a_message_without_a_twin_cannot_be_run_with_it() -> None:
    with pytest.raises(UnmetSchedule, match="has no twin"):
        replay(PlainFunction("orders", keeps), [ORDER, ORDER], "1+1/none", tables=TABLES)
