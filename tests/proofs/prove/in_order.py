"""Flows on FIFO queues, where an order is kept and an attempt that fails holds up its group."""

from __future__ import annotations

from flowguard import IGNORE, PER_REQUEST, SUPERSEDE, Done, Flow, Outcome, Stage, Step
from tests.proofs.prove.flows import CAREFUL, Order, Progress, misbehave


class Queued(Stage[Order, Progress], name="queued", then="settled", inbox="orders.fifo", retry=CAREFUL):
    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        misbehave(order, "queued", step)
        step.state.amount = order.amount
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Settled.message(order)


class Settled(Stage[Order, Progress], name="settled", inbox="settle.fifo", retry=CAREFUL):
    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        misbehave(order, "settled", step)
        step.send("told.fifo", {"settled": order.order_id}, group=order.order_id)
        step.put("orders", {"order_id": step.request_id, "amount": step.state.amount})
        return Done()


class InOrder(Flow, name="in-order", object_id=PER_REQUEST):
    """From FIFO queue to FIFO queue."""

    stages = (Queued, Settled)


class Single(Stage[Order], name="single", inbox="single.fifo", retry=CAREFUL):
    def handle(self, order: Order, step: Step) -> Outcome:
        misbehave(order, "single", step)
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class InOrderAlone(Flow, name="in-order-alone", object_id="order_id", on_conflict=SUPERSEDE):
    """One hop, for an object that several requests want."""

    stages = (Single,)


class InOrderFirst(Flow, name="in-order-first", object_id="order_id", on_conflict=IGNORE, dead_letters="dead.fifo"):
    stages = (Queued, Settled)
