"""The function of a stage with limits may write the items of their keys, and nothing more than it does."""

from __future__ import annotations

from typing import Any

from flowguard import Done, Flow, Outcome, PerKey, Stage, Step, lambda_handler
from flowguard.sim.calls import Recorder, intercept
from tests.deploy.exercised import granted, needs
from tests.worker.crowd import Crowd
from tests.worker.limited import CROWDS, Order


class Charge(Stage[Order], name="charge", inbox="orders", limit=PerKey("customer", at_once=1)):
    def handle(self, order: Order, step: Step) -> Outcome:
        CROWDS[-1].pass_time(200)
        return Done()


class Close(Stage[Order], name="close", inbox="to-close"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead"):
    stages = (Charge,)


class Ends(Flow, name="ends", object_id="order_id"):
    stages = (Close,)


charges = lambda_handler(Orders)
closes = lambda_handler(Ends)

PLACES = {"dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem"}


def test_only_the_function_of_a_stage_with_limits_may_write_their_places() -> None:
    allowed = granted(needs(__name__))
    of_table = {(function, action) for function, action, table in allowed if table == "flowguard"}
    assert {action for function, action in of_table if function == "orders-charges"} == {"dynamodb:UpdateItem", *PLACES}
    assert {action for function, action in of_table if function == "ends-closes"} == {"dynamodb:UpdateItem"}


def test_those_who_meet_at_a_key_do_all_that_is_granted_and_nothing_more() -> None:
    with Crowd(Orders, slots=3) as crowd, intercept(calls := Recorder()):
        CROWDS.append(crowd)
        for number in range(3):
            crowd.start(Order(order_id=f"o{number}"))
        crowd.run()
        CROWDS.pop()
    made: Any = {f"dynamodb:{call.operation}" for call in calls.calls if call.service == "dynamodb"}
    assert made == {"dynamodb:UpdateItem", *PLACES}
