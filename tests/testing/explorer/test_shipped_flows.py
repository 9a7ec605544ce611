"""The shipped flows survive every single fault at every call."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flowguard.destinations import Queue
from flowguard.names.ids import RequestId
from flowguard.sim.world import START
from flowguard.testing.explorer import explore
from flowguard.testing.lambda_events import sqs_event
from flows.appointments.flow import BookAppointment
from flows.appointments.invariants import each_slot_is_of_the_appointment_that_names_it, no_booking_has_two_slots
from flows.appointments.models import AppointmentWanted
from flows.orders.flow import AddToOrder, PlaceOrder, ReceiveGoods
from flows.orders.invariants import what_was_received_is_there_or_sold, what_was_sold_is_what_the_orders_have
from flows.orders.models import GoodsReceived, ItemAdded, OrderPlaced
from flows.take_payment.flow import TakePayment
from flows.take_payment.invariants import (
    a_completed_run_has_booked_its_payment,
    what_a_merchant_is_due_is_what_was_booked,
)
from flows.take_payment.models import PaymentRequested
from flows.triggered_cache.flow import TriggeredCache
from flows.validate_cart.flow import ValidateCart

SAMPLES = Path(__file__).parents[3] / "samples"
PAYMENT = PaymentRequested(payment_id="p1", merchant_id="m1", card="c1", amount=Decimal(5))
FLAKY = PaymentRequested(payment_id="p2", merchant_id="m1", card="c1", amount=Decimal(7), gateway_script=("down", "ok"))
ORDER = OrderPlaced(order_id="o-1", customer="c", lines={"tea": 3, "cup": 1})
IN_STOCK = {"stock": [{"sku": "tea", "pieces": 4, "received": 4}, {"sku": "cup", "pieces": 1, "received": 1}]}
SOLD = [what_was_received_is_there_or_sold, what_was_sold_is_what_the_orders_have]
BOOKED = [what_a_merchant_is_due_is_what_was_booked, a_completed_run_has_booked_its_payment]
APPOINTED = [no_booking_has_two_slots, each_slot_is_of_the_appointment_that_names_it]

TWO_ORDERS = (
    [PlaceOrder],
    [ORDER, ORDER.model_copy(update={"order_id": "o-2"})],
    {"items": IN_STOCK, "invariants": SOLD},
)
TWO_PAYMENTS = ([TakePayment], [FLAKY, PAYMENT], {"free": {"payments": ["attempt"]}, "invariants": BOOKED})


def sample(name: str) -> Any:
    return json.loads((SAMPLES / name).read_text())


@pytest.mark.long("explores every single fault, as `make prove` does without it")
@pytest.mark.parametrize(
    ("flow", "messages", "free", "invariants"),
    [
        (ValidateCart, [sample("validate_cart/01-request.json")], {}, []),
        (TriggeredCache, [sample("triggered_cache/01-reset.json")], {}, []),
        (TakePayment, [PAYMENT], {}, BOOKED),
        (TakePayment, [FLAKY], {"payments": ["attempt"]}, BOOKED),
    ],
    ids=["ValidateCart", "TriggeredCache", "TakePayment", "TakePayment-retried"],
)
def test_every_single_fault_leaves_the_undisturbed_end(
    flow: Any, messages: list[Any], free: Any, invariants: Any
) -> None:
    report = explore(flow, messages, free=free, invariants=invariants, bound=0, walks=5)
    assert report.ok, str(report)
    assert report.ends == 1
    assert report.coverage[f"{flow.stages[-1].name}: UpdateItem of claim"].replace("f", "") == "adeltuvz"


@pytest.mark.proof("explores a flow")
def test_what_was_turned_away_is_not_carried_out_by_a_copy_that_comes_when_its_run_is_long_over() -> None:
    """``x2-2``: the second request is IGNORED, and delivered once more as late as its queues keep it."""
    requests = [PAYMENT.model_copy(update={"amount": Decimal(amount)}) for amount in (9, 5)]
    messages = [asked_for(one, number * 10) for number, one in enumerate(requests)]
    report = explore(TakePayment, messages, invariants=BOOKED, bound=0, walks=0)
    assert report.ok, str(report)
    assert report.ends == 2, "whichever came first"


@pytest.mark.proof("explores a flow")
@pytest.mark.parametrize(
    ("ids", "not_before", "ends"),
    [
        pytest.param(("b-1", "b-2"), "00:00", 2, marks=pytest.mark.long("two bookings where no slot is short")),
        (("b-1", "b-2"), "15:40", 2),
        pytest.param(("b-1", "b-1"), "00:00", 1, marks=pytest.mark.long("a twin of its message is explored, too")),
    ],
    ids=["two bookings", "one slot for two", "one booking twice"],
)
def test_each_booking_has_one_slot_and_each_slot_one_booking(ids: Any, not_before: str, ends: int) -> None:
    report = explore(
        BookAppointment, [wanted(one, not_before) for one in ids], invariants=APPOINTED, bound=20, walks=10
    )
    assert report.ok, str(report)
    assert report.ends == ends


@pytest.mark.proof("explores flows")
@pytest.mark.parametrize(
    ("together", "flows", "messages", "about"),
    [
        (True, *TWO_ORDERS),
        pytest.param(False, *TWO_ORDERS, marks=pytest.mark.long("the payments come one after the other")),
        pytest.param(True, *TWO_PAYMENTS, marks=pytest.mark.long("the orders come together")),
        pytest.param(False, *TWO_PAYMENTS, marks=pytest.mark.long("other flows, one after the other")),
    ],
    ids=[f"{way}, {what}" for what in ("orders", "payments") for way in ("together", "one after the other")],
)
def test_a_batch_ends_as_its_records_do(flows: Any, messages: Any, about: Any, *, together: bool) -> None:
    report = explore(flows, messages, batch=10, together=together, bound=20, walks=10, **about)
    assert report.ok, str(report)


@pytest.mark.proof("explores flows")
@pytest.mark.parametrize(
    ("messages", "ends"),
    [
        pytest.param(
            [ORDER, ORDER.model_copy(update={"order_id": "o-2"})],
            2,
            marks=pytest.mark.long("the orders are explored in a batch, and each with what changes its stock"),
        ),
        ([GoodsReceived(delivery_id="d-1", sku="tea", pieces=2), ORDER], 1),
        ([ORDER, ItemAdded(addition_id="a-1", order_id="o-1", sku="tea", pieces=1)], 1),
    ],
    ids=["orders for the last pieces", "a delivery and an order", "an order and an addition"],
)
def test_order_and_stock_change_together_and_each_message_counts_once(messages: Any, ends: int) -> None:
    report = explore(
        [ReceiveGoods, PlaceOrder, AddToOrder], messages, items=IN_STOCK, invariants=SOLD, bound=10, walks=5
    )
    assert report.ok, str(report)
    assert report.ends == ends


def wanted(booking_id: str, not_before: str = "00:00") -> AppointmentWanted:
    days = (date(2026, 1, 5),)
    return AppointmentWanted(booking_id=booking_id, patient="p", doctor="dr-lee", days=days, not_before=not_before)


def asked_for(payment: PaymentRequested, ms: int) -> Any:
    name, at = f"request-{ms}", START + ms
    message, inbox = TakePayment.request(payment, request_id=RequestId(name), requested_at=at)
    assert isinstance(inbox, Queue)
    return sqs_event(inbox.short_name, message.body, attributes=message.attributes(), sent_at=at)
