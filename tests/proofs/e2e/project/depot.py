"""A flow for what the shipped ones do without: a topic as inbox, events of a bus, a function for what was killed."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import BaseModel

from flowguard import (
    Bus,
    Callback,
    Done,
    Flow,
    Outcome,
    Stage,
    Step,
    Topic,
    callback_handler,
    dlq_handler,
    lambda_handler,
)

ARRIVED: Final = Topic("arn:aws:sns:us-east-1:123456789012:pallets-arrived")
CLEARED: Final = Bus("default", source="customs", detail_type="Pallet cleared")
PALLETS: Final = "pallets"
STORED: Final = "pallets-stored"

TABLES: Final = {PALLETS: "pallet_id"}
QUEUES: Final = (STORED,)


class Pallet(BaseModel):
    pallet_id: str
    pieces: int


class Clearance(BaseModel):
    pallet_id: str
    officer: str


class Cleared(BaseModel):
    cleared: Clearance


class Unload(Stage[Pallet], name="unload", inbox=ARRIVED, then="store"):
    """Count a pallet, and wait until customs have cleared it."""

    def handle(self, pallet: Pallet, step: Step) -> Outcome:
        values = {":pieces": pallet.pieces, ":one": 1}
        step.update(PALLETS, {"pallet_id": pallet.pallet_id}, "ADD pieces :pieces, unloaded :one", values=values)
        return Store.when_all(cleared=step.event(pallet.pallet_id, keep_early=True), within=timedelta(minutes=10))


class Store(Stage[Cleared], name="store"):
    """Note who has cleared it."""

    def handle(self, answers: Cleared, step: Step) -> Outcome:
        values = {":officer": answers.cleared.officer}
        step.update(PALLETS, {"pallet_id": step.object_id}, "SET officer = :officer", values=values)
        return Done({"pallet_id": step.object_id})


class Depot(
    Flow,
    name="depot",
    object_id="pallet_id",
    request_id="pallet_id",
    complete_to=STORED,
    callbacks=(Callback(CLEARED, id="pallet_id", keep_early=timedelta(days=1)),),
):
    """Unload, wait, store."""

    stages = (Unload, Store)


unload = lambda_handler(Depot, Unload)
store = lambda_handler(Depot, Store)
answers = callback_handler(Depot)
killed = dlq_handler(Depot)
