"""Flows with codecs: one that asks another, which seals under a key of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.codecs import Compressed, Encrypted

THEIRS = "arn:aws:kms:eu-west-1:123456789012:key/1f0c"


class Part(BaseModel):
    part_id: str


class Pick(Stage[Part], name="pick", inbox="pick"):
    def handle(self, part: Part, step: Step) -> Outcome:
        return Done()


class Picks(Flow, name="picks", object_id="part_id", codec=Encrypted(THEIRS)):
    stages = (Pick,)


class Take(Stage[Part], name="take", inbox="take", then="close"):
    def handle(self, part: Part, step: Step) -> Outcome:
        return Close.when_all(picked=step.ask(Picks, part), within=timedelta(hours=1))


class Plain(Flow, name="plain", object_id="part_id"):
    stages = (Pick,)


class Ask(Stage[Part], name="ask", inbox="ask", then="told"):
    def handle(self, part: Part, step: Step) -> Outcome:
        return Told.when_all(picked=step.ask(Plain, part), within=timedelta(hours=1))


class Told(Stage[dict[str, Any]], name="told", inbox="told"):
    def handle(self, picked: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Close(Stage[dict[str, Any]], name="close", inbox="close"):
    def handle(self, picked: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Shop(
    Flow,
    name="shop",
    object_id="part_id",
    answers="shop-answers",
    codec=Encrypted("alias/shop", opens=("alias/shop-2025", THEIRS)),
):
    stages = (Take, Close)


class Lean(Stage[Part], name="lean", inbox="lean"):
    def handle(self, part: Part, step: Step) -> Outcome:
        return Done()


class Leans(Flow, name="leans", object_id="part_id", codec=Compressed()):
    stages = (Lean,)


class Asks(Flow, name="asks", object_id="part_id", answers="asks-answers", codec=Encrypted("alias/asks")):
    stages = (Ask, Told)


pick = lambda_handler(Picks)
ask = lambda_handler(Asks)
shop = lambda_handler(Shop)
lean = lambda_handler(Leans)
