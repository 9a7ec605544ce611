"""The flow that waits: ask, go on. A counter for each effect tells whether a wait ended twice, or not at all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import PER_REQUEST, Callback, Done, Flow, Outcome, Stage, Step
from tests.proofs.soak.places import ANSWERED, ASKED, DEAD, EFFECTS, INBOX, NEWS, POLICY, TOLD
from tests.proofs.soak.request import Trouble

WITHIN: Final = timedelta(seconds=10)
NAMES: Final = ("quote", "approval", "stock")


class Wanted(BaseModel):
    """``silent`` are the names that nobody answers; with ``fails`` the quote is an error."""

    item: str
    silent: tuple[str, ...] = ()
    fails: bool = False
    trouble: Trouble = Trouble()


class Answers(BaseModel):
    quote: int
    approval: str
    stock: str


class Look(Stage[Wanted], name="look"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return Done(f"stock of {wanted.item}")


class Stock(Flow, name="soak-stock", object_id=PER_REQUEST, inbox=INBOX, dead_letters=DEAD):
    """The flow that is asked."""

    stages = (Look,)


class Ask(Stage[Wanted], name="ask", then=("settle", "late", "sorry"), retry=POLICY):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        wanted.trouble.strike(step)
        step.send(NEWS, {"asked": wanted.item})
        token = step.token("approval")
        asked = {"ref": step.answer_id("quote"), "token": token.text, "of": step.request_id}
        stock: Any = step.event(step.request_id) if "stock" in wanted.silent else step.ask(Stock, wanted)
        return Settle.when_all(
            quote=step.ask(ASKED, {**asked, "silent": wanted.silent, "fails": wanted.fails}),
            approval=token,
            stock=stock,
            within=WITHIN,
            on_timeout=Late,
            on_error=Sorry,
        )


def _went_on(stage: str, step: Step) -> Outcome:
    """Write once where the run went on."""
    values: dict[str, Any] = {":one": 1, ":stage": stage}
    step.update(
        EFFECTS, {"id": f"{step.request_id}.{step.hop}"}, "ADD applied :one SET went_on = :stage", values=values
    )
    return Done(stage)


class Settle(Stage[Answers], name="settle", retry=POLICY):
    def handle(self, answers: Answers, step: Step) -> Outcome:
        return _went_on(self.name, step)


class Late(Stage[dict[str, Any]], name="late", retry=POLICY):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return _went_on(self.name, step)


class Sorry(Stage[dict[str, Any]], name="sorry", retry=POLICY):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return _went_on(self.name, step)


class Waits(
    Flow,
    name="soak-waits",
    object_id=PER_REQUEST,
    inbox=INBOX,
    dead_letters=DEAD,
    complete_to=TOLD,
    callbacks=(Callback(ANSWERED, id="ref", answer="price", failed="error"),),
):
    """Every request is run; deadlines and answers of flows come through its inbox."""

    stages = (Ask, Settle, Late, Sorry)
