"""One message by several ways: two flows get it from its topic under one id, or one flow gets an event twice."""

from __future__ import annotations

from typing import Final

from flowguard import Done, Flow, Outcome, Stage, Step, Topic
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.world import START
from flowguard.testing import bus_event, sns_to_sqs_event, sqs_event
from tests.proofs.prove.flows import CAREFUL, Order, misbehave

_EVENT: Final = bus_event(Order(order_id="o1", fail="open:1:error").model_dump(), time=START)
FROM_A_BUS: Final = [
    sqs_event("to-open", _EVENT, message_id="by-queue", sent_at=START + 200),
    sns_to_sqs_event("to-open", _EVENT, message_id="by-topic", published_at=START + 400),
]
"""One event by two rules of its bus: each makes a message of its own of it."""

ORDERED: Final = f"arn:aws:sns:{REGION}:{ACCOUNT_ID}:ordered"


class Bill(Stage[Order], name="bill", then="charge", inbox=Topic(ORDERED), retry=CAREFUL):
    """Sends to the queue that the other flow sends to."""

    def handle(self, order: Order, step: Step) -> Outcome:
        misbehave(order, "bill", step)
        step.put("orders", {"order_id": order.order_id, "by": step.request_id})
        step.send("mails", {"billed": order.order_id})
        return Charge.message(order)


class Charge(Stage[Order], name="charge", inbox="to-charge", retry=CAREFUL):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        step.send("mails", {"charged": order.order_id})
        return Done()


class Bills(Flow, name="bills", object_id="order_id", complete_to="ended"):
    stages = (Bill, Charge)


class Pack(Stage[Order], name="pack", then="ship", inbox=Topic(ORDERED), retry=CAREFUL):
    def handle(self, order: Order, step: Step) -> Outcome:
        misbehave(order, "pack", step)
        step.put("notes", {"note": order.order_id, "by": step.request_id})
        step.send("mails", {"packed": order.order_id})
        return Ship.message(order)


class Ship(Stage[Order], name="ship", inbox="to-ship", retry=CAREFUL):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("mails", {"shipped": order.order_id})
        return Done()


class Packs(Flow, name="packs", object_id="order_id", complete_to="ended"):
    stages = (Pack, Ship)
