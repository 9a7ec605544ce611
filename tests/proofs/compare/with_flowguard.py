"""flowguard: the same business as stages, the writes recorded with the step."""

from __future__ import annotations

from pydantic import BaseModel

from flowguard import Done, Failure, Flow, Outcome, Reject, Stage, Step

TABLES = {"totals": "day", "confirmed": "day", "addresses": "order_id"}


class Order(BaseModel):
    order_id: str
    day: str
    amount: int


class Change(BaseModel):
    order_id: str
    address: str


class Charge(Stage[Order], name="charge", then="confirm", inbox="charges"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("totals", {"day": order.day}, "ADD amount :amount", values={":amount": order.amount})
        return Confirm.message(order)


class Confirm(Stage[Order], name="confirm", inbox="confirmations"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("confirmed", {"day": order.day}, "ADD orders :one", values={":one": 1})
        return Done()


class ChargeOrder(Flow, name="charge-order", object_id="order_id"):
    stages = (Charge, Confirm)


class Save(Stage[Change], name="save", inbox="changes"):
    def handle(self, change: Change, step: Step) -> Outcome:
        step.put("addresses", {"order_id": change.order_id, "address": change.address})
        return Done()


class SaveAddress(Flow, name="save-address", object_id="order_id"):
    """The newest request wins."""

    stages = (Save,)


class Charged(BaseModel):
    day: str = ""
    amount: int = 0


class ChargeFirst(Stage[Order, Charged], name="charge-first", then="ask-customer", inbox="charges"):
    def handle(self, order: Order, step: Step[Charged]) -> Outcome:
        step.state = Charged(day=order.day, amount=order.amount)
        step.update("totals", {"day": order.day}, "ADD amount :amount", values={":amount": order.amount})
        return AskCustomer.message(order)


class AskCustomer(Stage[Order, Charged], name="ask-customer", inbox="confirmations"):
    def handle(self, order: Order, step: Step[Charged]) -> Outcome:
        raise Reject("the customer declines")


class TakeBack(Stage[Failure, Charged], name="take-back", inbox="take-back"):
    def handle(self, failure: Failure, step: Step[Charged]) -> Outcome:
        if step.state.amount:
            step.update("totals", {"day": step.state.day}, "ADD amount :less", values={":less": -step.state.amount})
        return Done()


class DeclineOrder(Flow, name="decline-order", object_id="order_id", on_failed=TakeBack, complete_to="ends"):
    stages = (ChargeFirst, AskCustomer, TakeBack)
