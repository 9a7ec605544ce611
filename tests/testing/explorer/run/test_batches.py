"""Several records an invocation: what a handler answers for each decides what is delivered again."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from flowguard.errors import SettingsError
from flowguard.testing.explorer import PlainFunction, explore, replay
from tests.proofs.recall import records

ORDERS = [{"order_id": "o1"}, {"order_id": "o2"}, {"order_id": "o3"}]
FEW: Any = {"tables": {"orders": "order_id"}, "bound": 0, "walks": 0}


def counts(event: Any, context: Any) -> None:
    """Write how many records there were, the last one first."""
    for record in reversed(event["Records"]):
        item = {"order_id": {"S": json.loads(record["body"])["order_id"]}, "of": {"N": str(len(event["Records"]))}}
        boto3.client("dynamodb").put_item(TableName="orders", Item=item)


@pytest.mark.parametrize(("batch", "sizes"), [(1, [1, 1, 1]), (2, [2, 2, 1]), (3, [3, 3, 3]), (10, [3, 3, 3])])
def test_no_more_come_at_once_than_it_says(batch: int, sizes: list[int]) -> None:
    seen: list[Any] = []
    invariants = [lambda view: seen.append(view.table("orders"))]
    function = PlainFunction("orders", counts, batch=batch)
    replay(function, ORDERS, "none", tables={"orders": "order_id"}, invariants=invariants)
    assert sorted((item["of"] for item in seen[0]), reverse=True) == sizes


@pytest.mark.parametrize(
    ("handler", "partial", "ok"),
    [
        (records.answers_what_failed, True, True),
        (records.answers_what_failed, False, False),  # nobody reads what it answers
        (records.stops_at_the_first, True, False),  # those after the first that fails are taken for processed
        (records.lists_all_from_the_first, True, True),
        (records.puts_each, True, True),
        (records.puts_each, False, True),
    ],
)
def test_what_is_not_listed_is_not_delivered_again(handler: Any, partial: bool, ok: bool) -> None:
    report = explore(PlainFunction("orders", handler, batch=2, partial=partial), ORDERS[:2], **FEW)
    assert report.ok is ok, str(report)


def test_records_that_are_forgotten_are_one_finding_with_its_cure() -> None:
    report = explore(PlainFunction("orders", records.stops_at_the_first, batch=2), ORDERS[:2], **FEW)
    (found,) = report.violations
    assert "list in batchItemFailures each from the one that failed on" in found.fix
    assert any(", 2 records" in line for line in found.timeline)


def test_only_what_failed_comes_again_and_a_copy_never_with_its_original() -> None:
    function = PlainFunction("orders", records.answers_what_failed, batch=10)
    lines = "\n".join(replay(function, ORDERS[:2], "e2", tables={"orders": "order_id"}).timeline)
    assert lines.count("PutItem") == 3
    twice = replay(function, ORDERS[:1], "x1", tables={"orders": "order_id"})
    assert not any("2 records" in line for line in twice.timeline)


@pytest.mark.parametrize(
    ("about", "problem"),
    [
        ({"batch": 0}, "a batch of 0; Lambda hands out 1 to 10000 records"),
        ({"batch": 10_001}, "a batch of 10001"),
        ({"batch": True}, "a batch of True"),
        ({"batch": "2"}, "a batch of '2'"),
        ({"batch": 2, "direct": True}, "what is invoked directly gets no batch"),
    ],
)
def test_a_batch_that_lambda_has_not_is_refused(about: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        PlainFunction("orders", counts, **about)
