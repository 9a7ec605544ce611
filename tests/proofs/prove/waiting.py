"""Flows that wait: for another flow, a party outside, a person and an event; for all of them, some, or one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import IGNORE, Callback, Done, Flow, Outcome, Reject, Stage, Step
from flowguard.failed import Failed
from flowguard.sim.world import START
from flowguard.testing import Question, sqs_event

ALL: Final = ("found", "parcel", "paid", "approved")


class Wanted(BaseModel):
    """``names`` is what the first stage waits for, ``quorum`` how many of them it needs: all, where None."""

    order_id: str = "o1"
    names: tuple[str, ...] = ALL
    quorum: int | None = None
    amount: int = 5
    part: str = "part"


class Part(BaseModel):
    part_id: str


class Find(Stage[Part], name="find", inbox="to-find"):
    """Another flow, whose result is an answer."""

    def handle(self, part: Part, step: Step) -> Outcome:
        if part.part_id.endswith("nowhere"):
            raise Reject("there is none")
        return Done({"shelf": 7})


class Finds(Flow, name="finds", object_id="part_id"):
    stages = (Find,)


class Progress(BaseModel):
    amount: int = 0


class Want(Stage[Wanted, Progress], name="want", then=("deliver", "too-late", "sorry"), inbox="to-want"):
    """State, a write and a message to the side, and then the wait."""

    def handle(self, wanted: Wanted, step: Step[Progress]) -> Outcome:
        awaited: dict[str, Any] = {
            "found": step.ask(Finds, Part(part_id=f"{wanted.order_id}-{wanted.part}")),
            "parcel": step.ask("carriers", {"ref": step.answer_id("parcel")}),
            "paid": step.event(f"payment/{wanted.order_id}", keep_early=True),
        }
        if "approved" in wanted.names:
            awaited["approved"] = link = step.token("approved")
            step.send("mails", {"link": link.text})
        step.state.amount += wanted.amount
        step.put("orders", {"order_id": wanted.order_id, "amount": wanted.amount})
        step.send("mails", {"wanted": wanted.order_id})
        chosen = {name: awaited[name] for name in wanted.names}
        return Deliver.when(
            quorum=wanted.quorum or len(chosen),
            **chosen,
            within=timedelta(minutes=5),
            on_timeout="too-late",
            on_error="sorry",
        )


class Answers(BaseModel):
    found: dict[str, int] | None = None
    parcel: dict[str, Any] | None = None
    paid: dict[str, Any] | None = None
    approved: dict[str, Any] | None = None


class Deliver(Stage[Answers, Progress], name="deliver", inbox="to-deliver"):
    """An amount that must be added once for all answers."""

    def handle(self, answers: Answers, step: Step[Progress]) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": step.state.amount})
        return Done({name: one is not None for name, one in answers})


class TooLate(Stage[dict[str, Any], Progress], name="too-late", inbox="to-deliver"):
    def handle(self, answers: dict[str, Any], step: Step[Progress]) -> Outcome:
        step.send("mails", {"late": step.state.amount})
        return Done({"late": sorted(answers)})


class Sorry(Stage[dict[str, Any], Progress], name="sorry", inbox="to-deliver"):
    def handle(self, answers: dict[str, Any], step: Step[Progress]) -> Outcome:
        return Done({"sorry": sorted(answers)})


_CALLBACKS: Final = (
    Callback("carrier-answers", id="ref", failed="error", names=("parcel",)),
    Callback("payments", id="order", prefix="payment/", keep_early=timedelta(days=1)),
)


class Waits(Flow, name="waits", object_id="order_id", answers="to-answers", complete_to="ended", callbacks=_CALLBACKS):
    stages = (Want, Deliver, TooLate, Sorry)


class WaitsFirst(
    Flow, name="waits-first", object_id="order_id", answers="to-answers", on_conflict=IGNORE, callbacks=_CALLBACKS
):
    """The first request keeps the object, while it waits, too."""

    stages = (Want, Deliver, TooLate, Sorry)


def carrier(question: Question) -> dict[str, Any]:
    return {"number": 17, "for": question.payload["ref"].partition("#")[0]}


CARRIER: Final = {"parcel": carrier}
PAID: Final = {"paid": {"amount": 20}}
EVERYBODY_ELSE: Final = {**PAID, "approved": {"yes": True}}
EVERYBODY: Final = {**CARRIER, **EVERYBODY_ELSE}
LOST: Final = {"parcel": Failed(type="Lost", text="on its way")}


def payment(amount: int) -> Any:
    """An answer in the queue that brings it, at any time."""
    return sqs_event("payments", {"order": "o1", "amount": amount}, message_id=f"payment-{amount}", sent_at=START)
