"""A function that commits hops of a flow with a full history may write its rows. What such a hop costs."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from flowguard import Callback, Done, Flow, Outcome, Queue, Stage, Step, callback_handler, dlq_handler, lambda_handler
from flowguard.cli import main
from flowguard.deploy.meter import Meter
from flowguard.deploy.prices import Unit
from flowguard.names.ids import ObjectId, RequestId
from flowguard.sim.calls import intercept
from flowguard.wire.message import Message
from tests.deploy.exercised import granted, needs
from tests.deploy.waiting import Order
from tests.scene import START, OrderState, record, scene, told_orders


class Check(Stage[Order], name="check", inbox="check"):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return Done()


class Told(
    Flow,
    name="told",
    object_id="order_id",
    full_history=True,
    answers="told-answers",
    callbacks=(Callback(Queue("paid"), id="order_id"),),
):
    stages = (Check,)


class Untold(Flow, name="untold", object_id="order_id"):
    class First(Stage[Order], name="first", inbox="first"):
        def handle(self, payload: Order, step: Step) -> Outcome:
            return Done()

    stages = (First,)


stages = lambda_handler(Told)
answers = callback_handler(Told)
killed = dlq_handler(Told)
others = lambda_handler(Untold)


def test_functions_that_commit_hops_of_such_a_flow_may_write_rows_and_no_others() -> None:
    allowed = granted(needs(__name__))
    writers = {function for function, action, table in allowed if (action, table) == ("dynamodb:PutItem", "flowguard")}
    assert writers == {"told-stages", "told-killed", "told-answers"}, "the last marks an early answer as used up"


def test_a_hop_costs_five_write_units_and_two_more_where_it_records_writes() -> None:
    with scene(told_orders) as at, intercept(Meter()) as meter:
        at.deliver(at.message())
        assert meter.take()[Unit.WRITES] == 1 + 2 + 2 + 2, "claim, and a transaction of item, its write, and row"
        at.deliver(at.second())
        assert meter.take()[Unit.WRITES] == 1 + 2 + 2, "claim, and a transaction of item and row"
    with scene() as at, intercept(Meter()) as meter:
        at.deliver(at.message())
        assert meter.take()[Unit.WRITES] == 1 + 2 + 2
        at.deliver(at.second())
        assert meter.take()[Unit.WRITES] == 1 + 1


def test_a_price_says_that_rows_are_among_the_writes(tmp_path: Path) -> None:
    message = Message(
        flow="told",
        stage="check",
        version=1,
        object_id=ObjectId("o1"),
        request_id=RequestId("r1"),
        requested_at=START,
        body='{"order_id":"o1"}',
    )
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"Records": [record(message)]}), encoding="utf-8")
    found = CliRunner().invoke(main, ["cost", str(event), "--flow", f"{__name__}:Told"])
    assert found.exit_code == 0, found.output
    assert "full history: told: a row and a transaction at each commit, 2 or 3 of the writes" in found.output
    assert "5.00" in found.output
    other = message._replace(flow="untold", stage="first")
    event.write_text(json.dumps({"Records": [record(other)]}), encoding="utf-8")
    found = CliRunner().invoke(main, ["cost", str(event), "--flow", f"{__name__}:Untold"])
    assert found.exit_code == 0, found.output
    assert "full history" not in found.output


def test_a_failed_attempt_costs_five_write_units() -> None:
    def fails(step: Step[OrderState]) -> None:
        raise RuntimeError("no tariff")

    with scene(told_orders) as at, intercept(Meter()) as meter:
        at.script.pricing = fails
        at.deliver(at.message())
        assert meter.take()[Unit.WRITES] == 1 + 2 + 2
