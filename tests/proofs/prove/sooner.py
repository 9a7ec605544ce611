"""Stages that do something before their commit, write on conditions, and take back what the run before has done."""

from __future__ import annotations

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing.explorer import View
from tests.proofs.prove.flows import CAREFUL, Order, Progress, misbehave


class Sooner(Stage[Order, Progress], name="sooner", then="later", inbox="to-sooner", retry=CAREFUL):
    """A block that is applied at once, a call that is made once, and a write that the stage can do without."""

    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        with step.apply("count"):
            step.update("totals", {"day": "begun"}, "ADD amount :one", values={":one": 1})
            step.put("notes", {"note": order.order_id, "by": step.request_id})
        bill = step.once("bill", lambda: {"key": step.key("bill")})
        misbehave(order, "sooner", step)
        step.put("orders", {"order_id": "none"}, condition="attribute_exists(order_id)", else_go_on="none")
        step.put("orders", {"order_id": order.order_id, "bill": bill["key"], "left_out": sorted(step.refused)})
        return Later.message(order)


class Later(Stage[Order, Progress], name="later", inbox="to-later", retry=CAREFUL):
    """The same names again: they are of another hop."""

    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        with step.apply("count"):
            step.update("totals", {"day": "ended"}, "ADD amount :one", values={":one": 1})
        bill = step.once("bill", lambda: {"key": step.key("bill")})
        misbehave(order, "later", step)
        return Done(bill)


class Soon(Flow, name="soon", object_id="order_id", complete_to="ended"):
    stages = (Sooner, Later)


class TakeBack(Stage[Order, Progress], name="take-back", then="close", inbox="to-take-back", retry=CAREFUL):
    """The newer request takes back what the older one has reserved, and both change one note."""

    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        misbehave(order, "take-back", step)
        before = step.superseded.amount if step.superseded is not None else 0
        step.state.amount = order.amount
        step.update("totals", {"day": "reserved"}, "ADD amount :more", values={":more": order.amount - before})
        step.modify("notes", {"note": "last"}, lambda item: {"amount": order.amount, "was": item is not None})
        step.newest_wins("orders", {"order_id": order.order_id, "amount": order.amount}, "order_id")
        return Close.message(order)


class Close(Stage[Order, Progress], name="close", inbox="to-close", retry=CAREFUL):
    def handle(self, order: Order, step: Step[Progress]) -> Outcome:
        return Done(step.state)


class Reserves(Flow, name="reserves", object_id="order_id", complete_to="ended"):
    stages = (TakeBack, Close)


def what_is_applied_at_once_is_applied_once(view: View) -> str | None:
    """I17, also where the stage failed afterwards."""
    for day in ("begun", "ended"):
        row = view.item("totals", day=day)
        if row is not None and row["amount"] != 1:
            return f"the block was applied {row['amount']} times"
    return None


def what_is_reserved_is_what_the_last_commit_says(view: View) -> str | None:
    row, order = view.item("totals", day="reserved"), view.item("orders", order_id="o1")
    reserved, wanted = (row["amount"] if row else 0), (order["amount"] if order else 0)
    return None if reserved == wanted else f"{reserved} are reserved, and the order wants {wanted}"
