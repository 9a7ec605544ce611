"""A debugger in a schedule that is played again: where it stops, and what it sees there."""

from __future__ import annotations

import io
import json
from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.errors import RunFailed
from flowguard.testing.explorer import Debugger, PlainFunction, replay


def debugged(explored: Any, message: Any, schedule: str, commands: str, **about: Any) -> str:
    """What a debugger prints that gets these commands."""
    debugger = Debugger(io.StringIO(commands), out := io.StringIO())
    replay(explored, [message], schedule, tables={"totals": "day"}, debugger=debugger, **about)
    return out.getvalue()


def adds(event: Any, context: Any) -> None:
    order = json.loads(event["Records"][0]["body"])["order_id"]
    receive = event["Records"][0]["attributes"]["ApproximateReceiveCount"]
    table = boto3.resource("dynamodb").Table("totals")
    table.update_item(Key={"day": "monday"}, UpdateExpression="ADD orders :one", ExpressionAttributeValues={":one": 1})
    after = order
    assert after
    print(f"received {receive}")  # noqa: T201 - the test reads it
    table.put_item(Item={"day": "tuesday"})


ADDS = PlainFunction("orders", adds)


def test_it_stops_before_the_call_at_which_the_ends_part() -> None:
    shown = debugged(ADDS, {"order_id": "o1"}, "a1", "p order, receive\nc\n")
    assert "stopped before call 2" in shown
    assert "('o1', '2')" in shown
    assert shown.count("stopped ") == 1, "once"


def test_it_goes_on_by_steps_through_the_handler_alone() -> None:
    shown = debugged(ADDS, {"order_id": "o1"}, "a1", "n\nn\np after\nc\n")
    assert "after = order" in shown
    assert "'o1'" in shown


def test_a_breakpoint_is_kept() -> None:
    line = adds.__code__.co_firstlineno + 6
    shown = debugged(ADDS, {"order_id": "o1"}, "a1", f"b {__file__}:{line}\nc\np 'here' + after\ncl 1\nc\n")
    assert "'hereo1'" in shown


def test_who_quits_is_asked_nothing_more_and_the_schedule_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert debugged(ADDS, {"order_id": "o1"}, "a1", "q\n").count("(Pdb)") == 1
    assert capsys.readouterr().out.splitlines() == ["received 1", "received 2", "received 2"]


def test_an_exception_that_is_a_fault_is_not_where_it_stops() -> None:
    """The end is wrong for the first call is made again."""
    shown = debugged(ADDS, {"order_id": "o1"}, "e2", "c\n")
    assert shown.startswith("stopped before call 3\n")
    assert shown.count("stopped ") == 1


def test_a_schedule_in_which_nothing_is_wrong_stops_nowhere() -> None:
    assert debugged(ADDS, {"order_id": "o1"}, "none", "") == ""


class Order(BaseModel):
    order_id: str
    amount: int = 1


class Check(Stage[Order], name="check"):
    def handle(self, order: Order, step: Step) -> Outcome:
        refused = order.amount
        if refused == 0:
            _refuse(refused)
        step.update("totals", {"day": "monday"}, "ADD orders :n", values={":n": refused})
        return Done()


def _refuse(amount: int) -> None:
    if amount == 0:
        why = "no amount"
        raise RunFailed(why)


class CheckOrders(Flow, name="check-orders", object_id="order_id"):
    stages = (Check,)


def test_it_stops_at_the_exception_of_a_stage() -> None:
    shown = debugged(CheckOrders, Order(order_id="o1", amount=0), "none", "p why\nup\np refused\nc\n")
    assert "stopped RunFailed: no amount" in shown
    assert "'no amount'" in shown
    assert "\n(Pdb) 0\n" in shown


def fails(event: Any, context: Any) -> None:
    amount = 0
    json.loads(f"{amount}]")


def test_it_stops_at_that_of_a_plain_handler_in_its_own_frame() -> None:
    shown = debugged(PlainFunction("orders", fails), {"order_id": "o1"}, "none", "p amount\nc\n")
    assert shown.count("stopped JSONDecodeError: ") == 1, "at the first receive alone"
    assert "\n(Pdb) 0\n" in shown


def is_never_so(view: Any) -> bool:
    return len(view.table("totals")) == 0


def test_it_stops_in_the_handler_where_no_line_of_it_makes_the_call() -> None:
    """After a death the next worker claims: that call is flowguard's, and an invariant says nothing of a step."""
    message = Order(order_id="o1")
    shown = debugged(CheckOrders, message, "a1", "n\nn\np refused\nc\n", invariants=[is_never_so])
    assert "stopped in the handler of w2" in shown
    assert "\n(Pdb) 1\n" in shown


@pytest.mark.slow("explores flows and handlers")
def test_a_debugger_may_take_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    """An invocation is not given up while somebody looks."""

    class Slow(io.StringIO):
        def readline(self, *given: Any) -> Any:
            for _ in range(110_000_000):  # no clock, whose time moves with each question
                pass
            return super().readline(*given)

    debugger = Debugger(Slow("c\n"), io.StringIO())
    replay(ADDS, [{"order_id": "o1"}], "a1", tables={"totals": "day"}, debugger=debugger, patience=0.5)
    assert capsys.readouterr().out.splitlines() == ["received 1", "received 2", "received 2"]


@pytest.mark.parametrize("call", [None, 7])
def test_one_that_is_not_armed_stops_nowhere(call: int | None) -> None:
    debugger = Debugger(io.StringIO(), out := io.StringIO(), call=call)
    debugger.before(7)
    debugger.raised(ValueError())
    assert debugger.called(1, str, 5) == "5"
    assert out.getvalue() == ""
