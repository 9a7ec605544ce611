"""Asks of two runs under one id; and a run that its cancelled request has begun."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from flowguard import Done, Failed, Flow, Outcome, Stage, Step
from flowguard.protocol.run import Status
from flowguard.testing.explorer.checks.invariants import broken
from flowguard.testing.explorer.checks.settling import _letters
from flowguard.testing.explorer.record.wait_messages import asks_in
from tests.protocol.run_items import run_item
from tests.testing.explorer.histories import history_of


class Payment(BaseModel):
    order_id: str


class Charge(Stage[Payment], name="charge"):
    def handle(self, payment: Payment, step: Step) -> Outcome:
        step.update("charges", {"id": payment.order_id}, "ADD n :one", values={":one": 1})
        return Done({"paid": "yes"})


class Pay(Flow, name="pay", object_id="order_id", request_id="order_id"):
    stages = (Charge,)


class Order(BaseModel):
    order_id: str
    address: str = "here"


class Answers(BaseModel):
    paid: dict[str, str] | Failed | None = None


class Place(Stage[Order], name="place", then="ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        asked = step.ask(Pay, Payment(order_id=order.order_id), cancel_too=True)
        return Ship.when_all(paid=asked, within=timedelta(hours=3), on_timeout="ship")


class Ship(Stage[Answers], name="ship"):
    def handle(self, answers: Answers, step: Step) -> Outcome:
        return Done("shipped" if isinstance(answers.paid, dict) else "given up")


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Place, Ship)


FLOWS = (Orders, Pay)


def test_a_run_and_the_newer_one_of_its_order_may_ask_for_one_payment() -> None:
    """Both asks have one id. Where the newer order sends its own, that is not what the older one had asked for."""
    requests = [Order(order_id="o1"), Order(order_id="o1", address="there")]
    found = history_of(FLOWS, requests, "none", tables={"charges": "id"})
    asks = [name for name, _ in asks_in(found)]
    assert (len({request_id for request_id, _ in asks}), len(set(asks))) == (1, 2)
    assert list(broken(found, FLOWS, ())) == []


@pytest.mark.parametrize(("error", "letters"), [("Cancelled: customer", 0), ("Reject: Cancelled: customer", 1)])
def test_a_run_that_its_cancelled_request_has_begun_leaves_no_dead_letter(error: str, letters: int) -> None:
    item = run_item(status=Status.FAILED, error=error)
    assert item.cancelled_because is None, "its item has no note of that"
    dead = {("sqs:dead", item.hop, 0)} if letters else set()
    assert list(_letters("run#pay#o1", item, dead)) == []
    assert len(list(_letters("run#pay#o1", item, dead ^ {("sqs:dead", item.hop, 0)}))) == 1


class Parent(BaseModel):
    parent_id: str


class AskBoth(Stage[Parent], name="ask", then="ship"):
    def handle(self, parent: Parent, step: Step) -> Outcome:
        asked = step.ask(Pay, Payment(order_id="o1"))
        return Ship.when_all(paid=asked, within=timedelta(hours=3), on_timeout="ship")


class Parents(Flow, name="parents", object_id="parent_id"):
    stages = (AskBoth, Ship)


def test_a_letter_of_an_earlier_run_of_the_same_request_is_none_of_the_later_run() -> None:
    """What is asked again after a failure is sent its letter again; then the item expires, and a run begins anew."""
    requests = [Parent(parent_id="p1"), Parent(parent_id="p2")]
    found = history_of((Parents, Pay), requests, "f10-1.r1", tables={"charges": "id"})
    letters = {message.place.redrive for message in found.posted if message.is_letter}
    assert (letters, list(broken(found, (Parents, Pay), ()))) == ({1, 2}, [])
