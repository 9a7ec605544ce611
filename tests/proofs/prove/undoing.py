"""A flow whose runs are undone when they have failed for good, in two stages of which the first waits for nothing."""

from __future__ import annotations

from flowguard import Done, Failure, Flow, Outcome, Stage, Step
from flowguard.testing.explorer import View
from tests.proofs.prove.flows import CAREFUL, Order, Progress, misbehave


class Hold(Stage[Order, Progress], name="hold", then="settle", inbox="to-hold", retry=CAREFUL):
    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        misbehave(order, "hold", step)
        before = step.superseded.amount if step.superseded is not None else 0
        step.state.amount = order.amount
        step.put("orders", {"order_id": order.order_id, "amount": order.amount})
        step.update("totals", {"day": "held"}, "ADD amount :more", values={":more": order.amount - before})
        return Settle.message(order)


class Settle(Stage[Order, Progress], name="settle", inbox="to-settle", retry=CAREFUL):
    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        misbehave(order, "settle", step)
        return Done(step.state)


class Undo(Stage[Failure, Progress], name="undo", then="undone", inbox="to-undo", retry=CAREFUL):
    def handle(self, failure: Failure, step: Step[Progress]) -> Outcome:
        order = Order.model_validate_json(failure.payload or "{}")
        misbehave(order, "undo", step)
        held = (step.superseded or step.state).amount
        step.state.amount = 0
        step.delete("orders", {"order_id": step.object_id})
        step.update("totals", {"day": "held"}, "ADD amount :less", values={":less": -held})
        step.send("sides", {"undone": step.object_id})
        return Undone.message(order)


class Undone(Stage[Order, Progress], name="undone", inbox="to-undone", retry=CAREFUL):
    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        misbehave(order, "undone", step)
        step.update("totals", {"day": "undone"}, "ADD amount :one", values={":one": 1})
        return Done()


class Undoes(Flow, name="undoes", object_id="order_id", complete_to="ended", on_failed=Undo):
    stages = (Hold, Settle, Undo, Undone)


def what_is_held_is_what_the_order_says(view: View) -> str | None:
    row, order = view.item("totals", day="held"), view.item("orders", order_id="o1")
    held, wanted = (row["amount"] if row else 0), (order["amount"] if order else 0)
    return None if held == wanted else f"{held} are held, and the order says {wanted}"
