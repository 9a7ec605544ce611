"""Of the pairs that a bound allows those go first that strike what is called only after a fault."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from flowguard.testing import View, sqs_event
from flowguard.testing.explorer import PlainFunction, Report, explore
from flowguard.testing.explorer.record.schedule import Choice, FaultKind, Schedule
from flowguard.testing.explorer.search.pairs import Pairs, Second, call_names, seconds_in
from tests.testing.explorer import handlers
from tests.testing.explorer.histories import history_of

PUT, ADD = "orders: PutItem", "orders: UpdateItem"
MESSAGES = [sqs_event("orders", {"order_id": "o1", "amount": 5})]


def second(at: int, call: str, kind: FaultKind = FaultKind.DIES_AFTER) -> Second:
    return Second(Choice(at, kind), call)


def pairs_of(*seconds: Second) -> Pairs:
    pairs = Pairs()
    pairs.add(Schedule.parse("e1"), seconds)
    return pairs


def chosen(pairs: Pairs, bound: int, *struck: tuple[str, FaultKind]) -> list[str]:
    return [schedule.id for schedule in pairs.chosen(bound, lambda call, kind: (call, kind) in struck)]


def test_what_no_fault_has_struck_goes_first_and_each_such_call_once() -> None:
    pairs = pairs_of(*(second(at, PUT) for at in (2, 3, 4)), *(second(at, ADD) for at in (5, 6)))
    assert chosen(pairs, 1, (PUT, FaultKind.DIES_AFTER)) == ["e1.a5"]
    assert chosen(pairs, 2, (PUT, FaultKind.DIES_AFTER)) == ["e1.a5", "e1.a2"]
    assert chosen(pairs, 1) == ["e1.a2"]
    assert chosen(pairs, 2) == ["e1.a2", "e1.a3"]
    assert chosen(pairs, 3) == ["e1.a2", "e1.a5", "e1.a3"]


@pytest.mark.parametrize(
    ("bound", "new", "others"), [(0, 0, 0), (1, 1, 0), (2, 1, 1), (10, 5, 5), (11, 6, 5), (40, 20, 20), (97, 76, 21)]
)
def test_half_of_a_bound_is_kept_for_pairs_of_calls_that_were_struck_before(bound: int, new: int, others: int) -> None:
    """They take more where there are too few of these."""
    struck = [second(at, PUT) for at in range(2, 23)]
    never_struck = [second(at, f"orders: call {at}") for at in range(23, 100)]
    tried = chosen(pairs_of(*struck, *never_struck), bound, (PUT, FaultKind.DIES_AFTER))
    later = {f"e1.a{at}" for at in range(23, 100)}
    assert len(set(tried)) == new + others == bound
    assert later.issuperset(tried[:new])
    assert bound < 2 or not later.issuperset(tried[new:])


def test_a_call_that_met_another_kind_of_fault_is_new_to_this_one() -> None:
    pairs = pairs_of(second(2, PUT), second(3, PUT, FaultKind.ERROR))
    assert chosen(pairs, 1, (PUT, FaultKind.DIES_AFTER)) == ["e1.e3"]


def test_the_others_are_tried_at_even_distances() -> None:
    pairs = pairs_of(*(second(at, PUT) for at in range(2, 10)))
    assert chosen(pairs, 4, (PUT, FaultKind.DIES_AFTER)) == ["e1.a2", "e1.a4", "e1.a6", "e1.a8"]


def test_all_are_tried_in_their_order_where_the_bound_allows_them() -> None:
    pairs = pairs_of(second(3, PUT), second(2, ADD))
    assert (chosen(pairs, 2), chosen(pairs, 3), len(pairs)) == (["e1.a3", "e1.a2"], ["e1.a3", "e1.a2"], 2)
    assert chosen(pairs, 0) == []


def test_a_call_is_named_by_its_stage_and_line() -> None:
    history = history_of(PlainFunction("orders", handlers.put), MESSAGES, "e1")
    [first, again] = call_names(history)
    assert first == again
    assert first.startswith("orders: PutItem orders at tests/testing/explorer/handlers.py:")
    seconds = seconds_in(history, Choice(1, FaultKind.ERROR))
    assert {second.call for second in seconds} == {first}
    assert {second.choice.at for second in seconds} == {2}


def tells_of_failures(event: Any, context: Any) -> None:
    """Tells once of what fails, it thinks: that is told again where the function dies before it is noted."""
    dynamodb = boto3.client("dynamodb", region_name="us-east-1")
    order = json.loads(event["Records"][0]["body"])
    for line in range(order["lines"]):
        try:
            dynamodb.put_item(TableName="lines", Item={"line": {"S": str(line)}})
        except Exception:
            note: Any = {"TableName": "told", "Key": {"order_id": {"S": order["order_id"]}}}
            if "Item" not in dynamodb.get_item(**note, ConsistentRead=True):
                dynamodb.update_item(
                    TableName="totals",
                    Key={"day": {"S": "monday"}},
                    UpdateExpression="ADD told :one",
                    ExpressionAttributeValues={":one": {"N": "1"}},
                )
                dynamodb.put_item(TableName="told", Item=note["Key"])
            raise


def it_is_told_once(view: View) -> str | None:
    total = view.item("totals", day="monday")
    return None if total is None or total["told"] <= 1 else "it is told twice"


def explored(bound: int) -> Report:
    return explore(
        PlainFunction("orders", tells_of_failures),
        [sqs_event("orders", {"order_id": "o1", "lines": 5})],
        tables={"lines": "line", "told": "order_id", "totals": "day"},
        invariants=[it_is_told_once],
        invariants_only=True,
        for_good=False,
        bound=bound,
        walks=0,
        most=1,
    )


@pytest.mark.proof("explores a handler twice")
def test_a_bug_in_what_is_called_only_after_a_fault_is_found_among_the_first_pairs() -> None:
    assert explored(0).violations == ()
    report = explored(25)
    assert [len(Schedule.parse(one.schedule).choices) for one in report.violations] == [2]


def test_pairs_that_nobody_asked_for_are_counted_and_not_kept() -> None:
    pairs = Pairs(are_tried=False)
    pairs.add(Schedule((Choice(1, FaultKind.ERROR),)), [Second(Choice(2, FaultKind.ERROR), "call 2")])
    assert (len(pairs), pairs.chosen(9, lambda *_: False)) == (1, [])
