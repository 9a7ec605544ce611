"""The function of a stage with limits may write the items of their keys, and nothing more than it does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, PauseAfter, PerKey, Stage, Step, lambda_handler
from flowguard.deploy.alarms import alarms_of
from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.sim.calls import Recorder, intercept
from tests.deploy.exercised import granted, needs
from tests.deploy.test_operating import PAGE
from tests.worker.crowd import START, Crowd
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


class GatewayAway(Exception):
    """The gateway does not answer, whoever asks."""


AWAY = PauseAfter(1, errors=(GatewayAway,), within=timedelta(minutes=1), rest=timedelta(seconds=5))


class Pay(Stage[Order], name="pay", inbox="to-pay", limit=PerKey("customer", at_once=1, pause_after=AWAY)):
    def handle(self, order: Order, step: Step) -> Outcome:
        CROWDS[-1].pass_time(200)
        if CROWDS[-1].now_ms < START + 2000:
            raise GatewayAway
        return Done()


class Payments(Flow, name="payments", object_id="order_id", dead_letters="dead"):
    stages = (Pay,)


charges = lambda_handler(Orders)
pays = lambda_handler(Payments)
closes = lambda_handler(Ends)

PLACES = {"dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem"}


def test_only_the_function_of_a_stage_with_limits_may_write_their_places() -> None:
    allowed = granted(needs(__name__))
    of_table = {(function, action) for function, action, table in allowed if table == "flowguard"}
    assert {action for function, action in of_table if function == "orders-charges"} == {"dynamodb:UpdateItem", *PLACES}
    assert {action for function, action in of_table if function == "payments-pays"} == {"dynamodb:UpdateItem", *PLACES}
    assert {action for function, action in of_table if function == "ends-closes"} == {"dynamodb:UpdateItem"}


@pytest.mark.parametrize("flow", [Orders, Payments])
def test_those_who_meet_at_a_key_do_all_that_is_granted_and_nothing_more(flow: AnyFlow) -> None:
    with Crowd(flow, slots=3) as crowd, intercept(calls := Recorder()):
        CROWDS.append(crowd)
        for number in range(3):
            crowd.start(Order(order_id=f"o{number}"))
        crowd.run()
        CROWDS.pop()
        assert crowd.told(EventType.COMPLETED) == 3
    made: Any = {f"dynamodb:{call.operation}" for call in calls.calls if call.service == "dynamodb"}
    assert made == {"dynamodb:UpdateItem", *PLACES}


def test_an_alarm_rings_for_keys_that_pause_themselves_where_there_are_any() -> None:
    alarms = {alarm.name: alarm for alarm in alarms_of(needs(__name__), 900)}
    assert {name for name in alarms if name.endswith("key_paused")} == {"payments-key_paused"}
    alarm = alarms["payments-key_paused"]
    assert (alarm.threshold, alarm.periods, alarm.dimension) == (0, 1, ("event", "key_paused"))
    assert f"`…-{EventType.KEY_PAUSED}`" in PAGE.read_text(encoding="utf-8")
