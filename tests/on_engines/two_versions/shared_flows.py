"""The flows of the two versions. They import flowguard alone: each worker has one of its versions.

::

    orders   take ── asks prices, waits for its payment ──▶ ship ──▶ pack, which fails once
    prices   one run at a time for each product answers all who ask
    nightly  asks prices as a group
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import UNTIL_RESET, Callback, Done, Flow, GroupEnd, Outcome, Retry, Stage, Step, once
from flowguard.retry import Fixed, RetryPolicy

VERSION: Final = os.environ.get("VERSION_AT_WORK", "")
WITHIN: Final = timedelta(minutes=5)
SOON: Final = RetryPolicy(attempts=4, backoff=Fixed(0), jitter=0)


class Order(BaseModel):
    order: str
    product: str


class Wanted(BaseModel):
    product: str


class Night(BaseModel):
    night: str


class Answered(BaseModel):
    price: dict[str, Any]
    paid: dict[str, Any]


class Priced(BaseModel):
    price: int


class Shipped(BaseModel):
    total: int


class Progress(BaseModel):
    by: list[str] = []


def note(step: Step[Any], what: str) -> None:
    """Count the stage, and say which version has carried it out, in its commit."""
    update = "SET #by = :version ADD times :one"
    names, values = {"#by": what}, {":version": VERSION, ":one": 1}
    step.update("effects", {"id": step.object_id}, update, names=names, values=values)


class Take(Stage[Order, Progress], name="take", then="ship", inbox="work", retry=SOON):
    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        step.state.by.append(VERSION)
        note(step, "take")
        step.send("told", {"taken": order.order})
        price = step.ask(Prices, Wanted(product=order.product))
        paid = step.event(f"payment/{order.order}", keep_early=True)
        return Ship.when_all(price=price, paid=paid, within=WITHIN)


class Ship(Stage[Answered, Progress], name="ship", then="pack", inbox="work", retry=SOON):
    def handle(self, answered: Answered, step: Step[Progress]) -> Outcome:
        step.state.by.append(VERSION)
        note(step, "ship")
        return Pack.message(Shipped(total=answered.price["price"] * answered.paid["pieces"]))


class Pack(Stage[Shipped, Progress], name="pack", inbox="work", retry=SOON):
    def handle(self, shipped: Shipped, step: Step[Progress]) -> Outcome:
        if step.attempt == 1:
            raise Retry("the first attempt fails")
        step.state.by.append(VERSION)
        note(step, "pack")
        return Done({"total": shipped.total, "by": step.state.by})


class Price(Stage[Wanted], name="price", inbox="work", retry=SOON):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        note(step, "price")
        return Done({"price": 7})


class Recount(Stage[Night], name="recount", then="sum-up", inbox="work", retry=SOON):
    def handle(self, night: Night, step: Step) -> Outcome:
        asked = ((f"p{number}", Wanted(product=f"{night.night}-p{number}")) for number in range(5))
        return SumUp.when_group(step.group(Prices, asked), within=WITHIN)


class SumUp(Stage[GroupEnd], name="sum-up", inbox="work", retry=SOON):
    def handle(self, end: GroupEnd, step: Step) -> Outcome:
        note(step, "sum-up")
        prices = [one.answer.price for one in step.answers(Priced) if isinstance(one.answer, Priced)]
        return Done({"total": sum(prices)})


class Orders(
    Flow,
    name="orders",
    object_id="order",
    answers="answers",
    dead_letters="dead",
    complete_to="ended",
    callbacks=(Callback("payments", id="order", prefix="payment/", keep_early=WITHIN),),
):
    stages = (Take, Ship, Pack)


class Prices(Flow, name="prices", object_id="product", answers="answers", dead_letters="dead", keep_result=UNTIL_RESET):
    stages = (Price,)


class Nightly(Flow, name="nightly", object_id="night", answers="answers", dead_letters="dead", complete_to="ended"):
    stages = (Recount, SumUp)


FLOWS: Final = (Orders, Prices, Nightly)


@once("charge", key="order")
def charge(order: dict[str, str]) -> str:
    return f"{order['order']} by {VERSION}, {os.getpid()}"
