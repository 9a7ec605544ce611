"""Flows that wait, for the explorer: for another flow, a party outside, a person with a token, and an event."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import Callback, Done, Flow, Outcome, Stage, Step
from flowguard.failed import Failed

TABLES: Final = {"orders": "order_id", "totals": "day"}


class Order(BaseModel):
    order_id: str
    asks: tuple[str, ...] = ("stock",)
    """What the first stage waits for."""
    quorum: int | None = None
    minutes: int = 10


class Part(BaseModel):
    part_id: str


class Find(Stage[Part], name="find", inbox="to-find"):
    def handle(self, part: Part, step: Step) -> Outcome:
        return Done({"shelf": 7})


class Finds(Flow, name="finds", object_id="part_id"):
    stages = (Find,)


class Begin(Stage[Order], name="begin", then=("go-on", "late"), inbox="to-begin"):
    """A write and a message to the side, and then the wait."""

    def handle(self, order: Order, step: Step) -> Outcome:
        link = step.token("approval")
        awaited: dict[str, Any] = {
            "stock": step.ask(Finds, Part(part_id=f"{order.order_id}-part")),
            "parcel": step.ask("carriers", {"ref": step.answer_id("parcel")}),
            "paid": step.event(f"payment/{order.order_id}", keep_early=True),
            "approval": link,
        }
        step.update("totals", {"day": "monday"}, "ADD begun :n", values={":n": 1})
        step.send("mails", {"begun": order.order_id, "link": f"https://example.com/{link.text}"})
        chosen = {name: awaited[name] for name in order.asks}
        return GoOn.when(
            quorum=order.quorum or len(chosen), **chosen, within=timedelta(minutes=order.minutes), on_timeout="late"
        )


class Answers(BaseModel):
    stock: dict[str, int] | None = None
    parcel: dict[str, Any] | Failed | None = None
    paid: dict[str, Any] | None = None
    approval: dict[str, Any] | Failed | None = None


class GoOn(Stage[Answers], name="go-on", inbox="to-go-on"):
    """What must happen once for all answers."""

    def handle(self, answers: Answers, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD ended :n", values={":n": 1})
        return Done({name: one is not None for name, one in answers})


class Late(Stage[dict[str, Any]], name="late", inbox="to-go-on"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done({"late": sorted(answers)})


class Waits(
    Flow,
    name="waits",
    object_id="order_id",
    answers="to-answers",
    complete_to="ended",
    callbacks=(
        Callback("carriers-answers", id="ref", failed="error", names=("parcel",)),
        Callback("payments", id="order", prefix="payment/", keep_early=timedelta(days=1)),
    ),
):
    stages = (Begin, GoOn, Late)


FLOWS: Final = (Waits, Finds)
