"""A flow that begins with the changes of a table, which the template makes with its stream."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, dlq_handler, lambda_handler
from flowguard.streams import TableStream

SHELVES: Final = "shelves"
RESTOCKS: Final = "restocks"
ASKED: Final = "shelves-to-fill"

TABLES: Final = {SHELVES: "sku", RESTOCKS: "sku"}
QUEUES: Final = (ASKED,)


class Shelf(BaseModel):
    sku: str
    left: int = 0


class Change(BaseModel):
    change: str
    keys: Shelf
    new: Shelf | None = None


class Fill(Stage[Change], name="fill"):
    """Ask for pieces where few are left."""

    def handle(self, change: Change, step: Step) -> Outcome:
        if change.new is None or change.new.left >= 10:
            return Done()
        step.update(RESTOCKS, {"sku": change.keys.sku}, "ADD asked :one", values={":one": 1})
        step.send(ASKED, {"sku": change.keys.sku, "left": change.new.left})
        return Done()


class Shelves(Flow, name="shelves", object_id="keys.sku", streams=(TableStream(SHELVES),)):
    """Fill shelves."""

    stages = (Fill,)


fill = lambda_handler(Shelves)
killed = dlq_handler(Shelves)
