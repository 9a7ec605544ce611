"""A fix is one that the code does not have yet."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, explore
from flowguard.testing.explorer.checks.problem import Problem
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
