"""A flow whose texts are too long for an item: they lie in S3."""

from __future__ import annotations

import hashlib
from typing import Final

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from tests.proofs.prove.flows import CAREFUL, Order, misbehave

OFFLOAD_ABOVE: Final = 1_024
"""Bytes. The least that a setting may say."""


def long_text(seed: object, size: int = 4_000) -> str:
    """Text that cannot be compressed to much less."""
    return "".join(hashlib.sha256(f"{seed} {number}".encode()).hexdigest() for number in range(size // 64))


class Remembered(BaseModel):
    text: str = ""


class Remember(Stage[Order, Remembered], name="remember", then="recall", inbox="to-remember", retry=CAREFUL):
    """A long state and a long outbox."""

    def handle(self, order: Order, step: Step[Remembered]) -> Outcome:
        misbehave(order, "remember", step)
        step.state.text = long_text(order.amount)
        step.send("mails", {"remembered": long_text(f"mail {order.amount}")})
        return Recall.message(order)


class Recall(Stage[Order, Remembered], name="recall", inbox="to-recall", retry=CAREFUL):
    """What it says is made of the state of the hop before."""

    def handle(self, order: Order, step: Step[Remembered]) -> Outcome:
        misbehave(order, "recall", step)
        step.put("notes", {"note": order.order_id, "length": len(step.state.text)})
        step.send("mails", {"recalled": len(step.state.text)})
        return Done({"text": step.state.text})


class Recalls(Flow, name="recalls", object_id="order_id", complete_to="ended"):
    stages = (Remember, Recall)
