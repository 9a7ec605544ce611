"""A flow that puts its runs off for newer requests, and two requests of one burst."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.debounce import Debounce
from flowguard.sim.world import START
from flowguard.testing import sqs_event
from tests.proofs.prove.flows import CAREFUL, Order

BURST: Final = [
    sqs_event("to-render", {"order_id": "o1", "amount": amount}, message_id=f"request-{amount}", sent_at=START + amount)
    for amount in (1, 2)
]


class Render(Stage[Order], name="render", then="publish", inbox="to-render", retry=CAREFUL):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("orders", {"order_id": order.order_id, "amount": order.amount})
        step.send("mails", {"rendered": order.amount})
        return Publish.message(order)


class Publish(Stage[Order], name="publish", inbox="to-publish", retry=CAREFUL):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class Renders(
    Flow,
    name="renders",
    object_id="order_id",
    complete_to="ended",
    debounce=Debounce(timedelta(seconds=30), longest=timedelta(seconds=45)),
):
    stages = (Render, Publish)
