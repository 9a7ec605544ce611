"""Whole orders, and each crash of one."""

from datetime import timedelta

import pytest
from shop.functions import killed_orders, order_desk, warehouse
from shop.orders import CheckOrder, Order, OrderState, PlaceOrder, Refusal, RefuseOrder

from flowguard.testing import FlowClock, FlowRunner, View, sqs_event, step_for

TEA = Order(order_id="o-1", sku="green-tea", quantity=3)


def test_a_stage_alone() -> None:
    step = step_for(CheckOrder, object_id="o-1")
    huge = Order(order_id="o-1", sku="cup", quantity=101)
    refusal = Refusal(order_id="o-1", why="too many for one parcel")
    assert CheckOrder().handle(huge, step) == RefuseOrder.message(refusal)
    assert step.state == OrderState(sku="cup", quantity=101)


def test_an_order_is_shipped(flow_runner: FlowRunner) -> None:
    flow_runner.table("stock", "sku", {"sku": "green-tea", "in_stock": 10})
    flow_runner.send(PlaceOrder, TEA, attributes={"tenant": "acme"})
    result = flow_runner.run()
    assert result.run("o-1").result == {"shipped": 3}
    assert result.item("stock", sku="green-tea") == {"sku": "green-tea", "in_stock": 7}
    assert result.item("reservations", order_id="o-1", sku="green-tea") is not None
    (parcel,) = result.sent("parcels")
    assert parcel.body == {"order_id": "o-1", "pieces": 3}
    assert parcel.attributes["tenant"].value == "acme"


def test_an_order_waits_for_new_stock(flow_runner: FlowRunner, flow_clock: FlowClock) -> None:
    flow_runner.table("stock", "sku", {"sku": "green-tea", "in_stock": 2})
    flow_runner.send(PlaceOrder, TEA)
    before = flow_clock.now()
    assert flow_runner.run(within=timedelta(seconds=5)).run("o-1").status == "RUNNING"
    flow_runner.table("stock", "sku", {"sku": "green-tea", "in_stock": 20})
    result = flow_runner.run()
    assert result.run("o-1").status == "COMPLETED"
    assert result.item("stock", sku="green-tea") == {"sku": "green-tea", "in_stock": 17}
    assert flow_clock.now() - before >= 40_000


def test_what_is_not_in_stock_fails_and_takes_nothing(flow_runner: FlowRunner) -> None:
    flow_runner.table("stock", "sku", {"sku": "green-tea", "in_stock": 2})
    flow_runner.send(PlaceOrder, TEA)
    result = flow_runner.run()
    assert result.run("o-1").status == "FAILED"
    assert result.item("stock", sku="green-tea") == {"sku": "green-tea", "in_stock": 2}
    assert len(result.dead_letters) == 1


def test_too_many_are_refused(flow_runner: FlowRunner) -> None:
    flow_runner.send(PlaceOrder, TEA.model_copy(update={"quantity": 101}))
    result = flow_runner.run()
    assert result.run("o-1").result == {"refused": "too many for one parcel"}
    assert [mail.body for mail in result.sent("mails")] == [{"order_id": "o-1", "text": "too many for one parcel"}]


def test_a_duplicate_takes_nothing(flow_runner: FlowRunner) -> None:
    flow_runner.table("stock", "sku", {"sku": "green-tea", "in_stock": 10})
    event = sqs_event("place-order", TEA)
    result = flow_runner.serve(PlaceOrder).deliver(event, event).run()
    assert result.item("stock", sku="green-tea") == {"sku": "green-tea", "in_stock": 7}
    assert len(result.sent("parcels")) == 1


def test_the_two_functions_serve_the_stages_between_them(flow_runner: FlowRunner) -> None:
    flow_runner.serve(PlaceOrder).table("stock", "sku", {"sku": "green-tea", "in_stock": 10})
    assert order_desk(sqs_event("place-order", TEA)) == {"batchItemFailures": []}
    assert flow_runner.run().run("o-1").result == {"shipped": 3}
    (record,) = warehouse(sqs_event("place-order", TEA))["batchItemFailures"]
    assert record["itemIdentifier"], "a first stage is not served there: the record stays in its queue"


def test_an_order_that_sqs_gave_up_before_it_was_begun_goes_back_and_is_placed(flow_runner: FlowRunner) -> None:
    flow_runner.serve(PlaceOrder)
    assert killed_orders(sqs_event("place-order-killed", TEA)) == {"batchItemFailures": []}
    assert flow_runner.run().run("o-1").status == "COMPLETED"


@pytest.mark.flow_explore(PlaceOrder, messages=[TEA], bound=10, walks=10, most=150)
def test_no_crash_takes_or_ships_twice(flow_view: View) -> None:
    assert flow_view.item("stock", sku="green-tea") in (
        {"sku": "green-tea", "in_stock": 10},
        {"sku": "green-tea", "in_stock": 7},
    )
    assert len(flow_view.sent("parcels")) <= 1
