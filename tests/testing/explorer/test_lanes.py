"""Runs in lanes under faults: each ends as it would in one queue, and what is sent stays in the run's lane."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard import ATTACH, Done, Flow, Outcome, Stage, Step
from flowguard.lanes import Lane
from flowguard.testing import sqs_event
from flowguard.testing.explorer import explore, replay
from flowguard.testing.explorer.checks.standing import _inboxes
from tests.testing.explorer.histories import history_of

TABLES: Final = {"shipped": "order_id"}
HOUR: Final = timedelta(hours=1)


class Order(BaseModel):
    order_id: str


class Priced(BaseModel):
    order_id: str = "o1"
    price: Any = None


class Take(Stage[Order], name="take", then="ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Ship.when_all(within=HOUR, price=step.ask(Prices, order))


class Ship(Stage[Priced], name="ship", inbox=(Lane("by-night", "shipping"), Lane("urgent", "shipping-urgent"))):
    def handle(self, order: Priced, step: Step) -> Outcome:
        step.put("shipped", {"order_id": order.order_id})
        return Done()


class Orders(
    Flow,
    name="orders",
    object_id="order_id",
    inbox=(Lane("normal", "orders"), Lane("urgent", "orders-urgent", weight=3)),
    on_conflict=ATTACH,
    trust_senders=True,
):
    stages = (Take, Ship)


class Price(Stage[Order], name="price"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done(7)


class Prices(
    Flow, name="prices", object_id="order_id", inbox=(Lane("normal", "prices"), Lane("urgent", "prices-urgent"))
):
    stages = (Price,)


FLOWS: Final = [Orders, Prices]
URGENT: Final = sqs_event("orders-urgent", {"order_id": "o1"}, message_id="m1")


@pytest.mark.parametrize("schedule", ["none", "d1", "a2", "z1", "l2", "f3", "x2", "d2.d5-1.r1"])
def test_an_urgent_run_keeps_its_lane_whatever_happens(schedule: str) -> None:
    trace = replay(FLOWS, [URGENT], schedule, tables=TABLES)
    assert trace.ok, str(trace)
    history = history_of(FLOWS, [URGENT], schedule, tables=TABLES)
    assert {delivery.queue for delivery in history.deliveries} <= {
        "orders-urgent",
        "orders-answers",
        "prices-urgent",
        "shipping-urgent",
    }


def test_a_next_hop_is_told_from_other_messages_in_each_lane() -> None:
    """One that is refused for good ends no run as the undisturbed one ends."""
    assert {"sqs:orders", "sqs:orders-urgent", "sqs:shipping-urgent"} <= set(_inboxes(FLOWS))


@pytest.mark.slow("explores the crashes of a run that asks another flow")
def test_no_crash_takes_a_run_out_of_its_lane() -> None:
    result = explore(FLOWS, [URGENT], tables=TABLES)
    assert result.ok, str(result)
