"""A fix is one that the code does not have yet."""

from __future__ import annotations

import inspect
import uuid
from dataclasses import replace
from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, explore
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import NOTHING
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.report.after_errors import fix_locked, fix_taken_back
from flowguard.testing.explorer.report.diagnosis import diagnose, effects
from tests.testing.explorer.histories import history_of

TOTALS: Any = {"TableName": "totals", "Key": {"day": {"S": "monday"}}}
ADD: Any = {"UpdateExpression": "ADD orders :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}


def adds(event: Any, context: Any) -> None:
    boto3.client("dynamodb").update_item(**TOTALS, **ADD)


def adds_to_what_is_there(event: Any, context: Any) -> None:
    boto3.client("dynamodb").update_item(**TOTALS, **ADD, ConditionExpression="attribute_exists(orders)")


def checks_then_adds(event: Any, context: Any) -> None:
    dynamodb = boto3.client("dynamodb")
    if dynamodb.get_item(**TOTALS, ConsistentRead=True)["Item"]["orders"]["N"] == "1":
        dynamodb.update_item(**TOTALS, **ADD, ConditionExpression="attribute_exists(orders)")


def fixes(handler: Any) -> list[str]:
    report = explore(
        PlainFunction("orders", handler),
        [sqs_event("orders", {"order_id": "o1"})],
        tables={"totals": "day"},
        items={"totals": [{"day": "monday", "orders": 1}]},
        bound=0,
        walks=0,
    )
    return [one.fix for one in report.violations]


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    ("handler", "fix"),
    [
        (adds, ": make it conditional"),
        (adds_to_what_is_there, ": make its condition one that fails the second time"),
        (checks_then_adds, "put the check into the write's ConditionExpression too, which does not see it"),
    ],
)
def test_a_cure_is_not_what_is_there_already(handler: Any, fix: str) -> None:
    assert any(fix in one for one in fixes(handler)), fixes(handler)


PUT: Any = {"TableName": "orders", "Item": {"order_id": {"S": "o1"}, "status": {"S": "PAID"}}}
QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"


def deletes_its_record_first(event: Any, context: Any) -> None:
    handle = event["Records"][0]["receiptHandle"]
    boto3.client("sqs").delete_message(QueueUrl=QUEUE, ReceiptHandle=handle)  # the line
    boto3.client("dynamodb").put_item(**PUT)


def deletes_its_record_last(event: Any, context: Any) -> None:
    boto3.client("dynamodb").put_item(**PUT)
    entry: Any = {"Id": "only", "ReceiptHandle": event["Records"][0]["receiptHandle"]}
    boto3.client("sqs").delete_message_batch(QueueUrl=QUEUE, Entries=[entry])


def takes_an_error_for_an_answer(event: Any, context: Any) -> None:
    dynamodb, status = boto3.client("dynamodb"), "NEW"
    try:
        dynamodb.get_item(**TOTALS, ConsistentRead=True)  # the line
    except Exception:
        status = "UNKNOWN"
    item = {**PUT["Item"], "status": {"S": status}}
    dynamodb.put_item(TableName="orders", Item=item)


def takes_its_mark_back(event: Any, context: Any) -> None:
    dynamodb = boto3.client("dynamodb")
    mark: Any = {"TableName": "orders", "Key": {"order_id": {"S": "o1"}}}
    found = dynamodb.get_item(**mark, ConsistentRead=True).get("Item")
    if found is None:
        found = {**mark["Key"], "key": {"S": str(uuid.uuid4())}}
        dynamodb.put_item(TableName="orders", Item=found)
    try:
        dynamodb.put_item(TableName="charges", Item=found | {"order_id": found["key"]})
    except Exception:
        dynamodb.delete_item(**mark)  # the line
        raise


def line_of(handler: Any) -> int:
    lines, first = inspect.getsourcelines(handler)
    return next(number for number, line in enumerate(lines, first) if line.endswith("# the line\n"))


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    ("handler", "fix"),
    [
        (deletes_its_record_first, "takes the record out of its queue, and what fails after it is not tried again"),
        (takes_an_error_for_an_answer, "got no answer, and the function went on with another end"),
        (takes_its_mark_back, "is made only after something failed"),
    ],
)
def test_what_makes_a_failure_worse_is_the_line_to_change(handler: Any, fix: str) -> None:
    report = explore(
        PlainFunction("orders", handler),
        [sqs_event("orders", {"order_id": "o1"})],
        tables={"orders": "order_id", "totals": "day", "charges": "order_id"},
        bound=0,
        walks=0,
    )
    first = report.violations[0]
    assert first.site is not None
    assert (first.site.line, fix in first.fix) == (line_of(handler), True), first.fix


@pytest.mark.parametrize("by_library", [False, True])
def test_a_deletion_after_an_error_is_for_its_author_to_leave_out(by_library: bool) -> None:
    deletion = Site("orders.py", 7, "charge", by_library=by_library), "DeleteItem", "marks"
    assert (fix_taken_back(deletion, {}) is None) is by_library


@pytest.mark.slow("explores flows and handlers")
def test_who_deletes_its_record_last_loses_nothing() -> None:
    report = explore(
        PlainFunction("orders", deletes_its_record_last),
        [sqs_event("orders", {"order_id": "o1"})],
        tables={"orders": "order_id"},
        bound=0,
        walks=0,
    )
    assert report.ok, str(report)
    assert report.uncounted == ()


def drains_another_queue(event: Any, context: Any) -> None:
    sqs, work = boto3.client("sqs"), QUEUE.replace("orders", "work")
    boto3.client("dynamodb").put_item(**PUT)
    sqs.send_message(QueueUrl=work, MessageBody="left by somebody")
    for left in sqs.receive_message(QueueUrl=work).get("Messages", []):
        sqs.delete_message(QueueUrl=work, ReceiptHandle=left["ReceiptHandle"])


@pytest.mark.slow("explores flows and handlers")
def test_what_is_deleted_from_another_queue_is_not_compared() -> None:
    report = explore(
        PlainFunction("orders", drains_another_queue),
        [sqs_event("orders", {"order_id": "o1"})],
        tables={"orders": "order_id"},
        bound=0,
        walks=0,
    )
    assert report.uncounted == ("sqs DeleteMessage",)


class Order(BaseModel):
    order_id: str


class Charge(Stage[Order], name="charge"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.once("charge", lambda: "charge-1")
        return Done()


class Charges(Flow, name="charges", object_id="order_id"):
    stages = (Charge,)


def test_a_method_of_the_step_is_no_boto3_of_the_users_that_could_be_blamed() -> None:
    history = history_of(Charges, [Order(order_id="o1")], "t2")
    [refused, _] = [made for made in history.calls if made.site.by_flowguard]
    assert (refused.site.is_users, refused.error is not None, effects(history)) == (True, True, {})
    fix = diagnose(history, [], Problem("equivalence", "flowguard", "differs"), ["flowguard"])
    assert "boto3 UpdateItem" not in fix.text


class Refused(Stage[Order], name="refused", retry=RetryPolicy(attempts=2, backoff=Fixed(1))):
    def handle(self, order: Order, step: Step) -> Outcome:
        boto3.client("dynamodb").get_item(**TOTALS)
        raise RuntimeError("refused")


class RefusedTwice(Flow, name="refused-twice", object_id="order_id"):
    stages = (Refused,)


@pytest.mark.parametrize("error", ["LockNotAvailable", "StatementTimeoutException"])
@pytest.mark.parametrize("rule", ["I14", "equivalence"])
def test_a_run_whose_last_attempt_met_a_lock_wants_a_longer_retry(error: str, rule: str) -> None:
    def fix(history: History) -> str:
        return diagnose(history, [], Problem(rule, "run#refused-twice#o1", "the run failed")).text

    history = history_of(RefusedTwice, [Order(order_id="o1")], NOTHING, tables={"totals": "day"})
    first, last = (made for made in history.calls if made.operation == "GetItem" and not made.site.by_flowguard)
    assert "retry= outlast" not in fix(history)
    first.error = error
    assert "retry= outlast" not in fix(history), "the last attempt failed otherwise"
    last.error = error
    assert fix(history).startswith("the last attempt met the lock of a worker that was stuck or dead")
    assert diagnose(history, [], Problem(rule, "", "")).site == last.site
    gone = [replace(version, item=None) for version in history.versions]
    assert fix_locked(replace(history, versions=gone)) is None


class Points(BaseModel):
    order_id: str


class AddPoint(Stage[Points], name="add-point"):
    def handle(self, points: Points, step: Step) -> Outcome:
        found = boto3.client("dynamodb").get_item(**TOTALS, ConsistentRead=True).get("Item")
        step.put("totals", {"day": "monday", "orders": 1 if found is None else int(found["orders"]["N"]) + 1})
        return Done()


class AddsPoints(Flow, name="adds-points", object_id="order_id"):
    stages = (AddPoint,)


@pytest.mark.parametrize(("schedule", "is_lost"), [("z1-2", True), ("z3-2", True), ("o2-1", False), (NOTHING, False)])
def test_what_two_runs_read_before_either_wrote_is_a_lost_update(schedule: str, is_lost: bool) -> None:
    history = history_of(AddsPoints, [Points(order_id=f"o{n}") for n in (1, 2)], schedule, tables={"totals": "day"})
    fix = diagnose(history, [], Problem("equivalence", "totals", "day monday: orders"), ["totals"])
    assert ("another worker wrote to totals" in fix.text, "let step.modify" in fix.text) == (is_lost, is_lost)
    assert fix.site is not None
    assert fix.site.line == inspect.getsourcelines(AddPoint.handle)[1] + 2, "the line to change is the write"
