"""Flows of two releases: what the older one has left on its way meets the newer one, and the other way round."""

from __future__ import annotations

import types
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import boto3
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Reject, RetryPolicy, Stage, Step
from flowguard.destinations import Topic
from flowguard.flow import AnyFlow

TABLES = {"bills": "order_id", "charges": "charge", "totals": "day"}


class Order(BaseModel):
    order_id: str
    amount: int = 5


class Priced(BaseModel):
    total: int


class PricedIn(BaseModel):
    """A field more, which must be there."""

    total: int
    currency: str


class PricedByDefault(BaseModel):
    total: int
    currency: str = "EUR"


def release(*stages: Any, **options: Any) -> AnyFlow:
    """Return a release: a flow of these stages under the name that all have."""
    body = {"stages": stages, "__module__": __name__}
    flow: AnyFlow = types.new_class(
        "Orders", (Flow,), {"name": "orders", "object_id": "order_id"} | options, lambda names: names.update(body)
    )
    return flow


def pricing(then: str | tuple[str, ...], make: Callable[[Step], Outcome]) -> Any:
    """Return a first stage that hands the order on."""

    class Price(Stage[Order], name="price", then=then, inbox="orders"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return make(step)

    return Price


def billing(name: str, model: type[BaseModel] = Priced, inbox: str | Topic | None = None, **more: str) -> Any:
    """Return a last stage that writes a bill, with ``more`` in it."""
    place: dict[str, Any] = {} if inbox is None else {"inbox": inbox}

    class Bill(Stage[model], name=name, **place):  # type: ignore[valid-type]  # of each release
        def handle(self, priced: Any, step: Step) -> Outcome:
            step.put("bills", {"order_id": step.object_id, **priced.model_dump(), **more})
            return Done()

    return Bill


def orders(bill: Any, payload: BaseModel) -> AnyFlow:
    """Return a release of a stage that prices, and one that bills."""
    return release(pricing(bill.name, lambda step: bill.message(payload)), bill)


def passing(*bills: Any) -> AnyFlow:
    """Return a release of three stages, of which the second goes on at the first of these."""

    class Check(Stage[Priced], name="check", then=tuple(bill.name for bill in bills)):
        def handle(self, priced: Priced, step: Step) -> Outcome:
            outcome: Outcome = bills[0].message(priced)
            return outcome

    return release(pricing("check", lambda step: Check.message(Priced(total=5))), Check, *bills)


def charging(name: str, charge: str, *, first: str | None = None) -> AnyFlow:
    """Return a release whose only stage charges once, under this name, and with this key at the other side.

    ``first`` is the name of something else that it does once before.
    """

    def put() -> None:
        boto3.client("dynamodb").put_item(TableName="charges", Item={"charge": {"S": charge}})

    class Charge(Stage[Order], name="charge", inbox="orders"):
        def handle(self, order: Order, step: Step) -> Outcome:
            if first is not None:
                step.once(first, lambda: 1)
            step.once(name, put)
            return Done()

    return release(Charge)


def counting(*, first: bool) -> AnyFlow:
    """Return a release that adds the amount to the total in its first stage or its second one."""

    def add(step: Step) -> None:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": 5})

    class Close(Stage[Priced], name="close"):
        def handle(self, priced: Priced, step: Step) -> Outcome:
            if not first:
                add(step)
            return Done()

    class Open(Stage[Order], name="open", then="close", inbox="orders"):
        def handle(self, order: Order, step: Step) -> Outcome:
            if first:
                add(step)
            return Close.message(Priced(total=5))

    return release(Open, Close)


def telling(by: str) -> AnyFlow:
    """Return a release whose two stages both have a part in a map, a list and a message, as this version does it."""

    class Tell(Stage[Priced], name="tell"):
        def handle(self, priced: Any, step: Step) -> Outcome:
            key, values = {"order_id": step.object_id}, {":by": by, ":more": [by]}
            step.update("bills", key, "SET pieces.told = :by, notes = list_append(notes, :more)", values=values)
            step.send("mails", {"order_id": step.object_id, "total": priced.total, "by": by})
            return Done()

    def begin(step: Step) -> Outcome:
        step.put("bills", {"order_id": step.object_id, "pieces": {"priced": by}, "notes": [by]})
        return Tell.message(Priced(total=len(by)))

    return release(pricing("tell", begin), Tell)


def shop(*last: str) -> AnyFlow:
    """Return a release whose bill is written by its last stage, which reads the flow's own queue, or by the first."""
    bills = [billing(name) for name in last]

    def begin(step: Step) -> Outcome:
        if bills:
            outcome: Outcome = bills[0].message(Priced(total=5))
            return outcome
        step.put("bills", {"order_id": step.object_id, "total": 5})
        return Done()

    return release(pricing(last, begin), *bills, name="shop")


class Paid(BaseModel):
    paid: dict[str, int]


def asking(goes_on: str, inbox: str = "bookings") -> AnyFlow:
    """Return a release that asks a bank, and goes on with the answer at this stage."""

    class Book(Stage[Paid], name=goes_on, inbox=inbox):
        def handle(self, paid: Paid, step: Step) -> Outcome:
            step.put("bills", {"order_id": step.object_id, "total": paid.paid["amount"]})
            return Done()

    class GiveUp(Stage[dict], name="give-up", inbox=inbox):  # type: ignore[type-arg]  # whatever came
        def handle(self, answers: Any, step: Step) -> Outcome:
            return Done()

    class Ask(Stage[Order], name="ask", then=(goes_on, "give-up"), inbox="orders"):
        def handle(self, order: Order, step: Step) -> Outcome:
            ask = step.ask("bank-requests", {"ref": step.answer_id("paid"), "amount": order.amount})
            return Book.when_all(paid=ask, within=timedelta(hours=1), on_timeout=GiveUp)

    return release(Ask, Book, GiveUp)


ANSWERS = {"paid": lambda question: {"amount": question.payload["amount"]}}


def total_of(total: int, refuses: int = 0) -> AnyFlow:
    """Return a release whose last stage raises for one total."""

    class Close(Stage[Priced], name="close"):
        def handle(self, priced: Priced, step: Step) -> Outcome:
            if priced.total == refuses:
                raise Reject("this total is not known any more")
            return Done()

    class Open(Stage[Order], name="open", then="close", inbox="orders"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Close.message(Priced(total=total))

    return release(Open, Close)


def retrying(attempts: int) -> AnyFlow:
    """Return a release whose stage is tried so often, and calls DynamoDB each time."""

    class Look(Stage[Order], name="look", inbox="orders", retry=RetryPolicy(attempts=attempts)):
        def handle(self, order: Order, step: Step) -> Outcome:
            boto3.client("dynamodb").get_item(TableName="bills", Key={"order_id": {"S": "o1"}})
            return Done()

    return release(Look)
