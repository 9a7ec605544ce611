"""The flow of the ledger: one stage behind a FIFO queue, whose groups are accounts."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from flowguard import PER_REQUEST, Done, Flow, Outcome, Stage, Step
from tests.proofs.soak.places import POLICY
from tests.proofs.soak.request import Trouble

LEDGER: Final = "soak-ledger"


class Entry(BaseModel):
    account: str
    trouble: Trouble = Trouble()


class Book(Stage[Entry], name="book", retry=POLICY):
    def handle(self, entry: Entry, step: Step) -> Outcome:
        step.update(
            LEDGER,
            {"id": entry.account},
            "SET entries = list_append(if_not_exists(entries, :none), :entry)",
            values={":none": [], ":entry": [step.request_id]},
        )
        entry.trouble.strike(step)
        return Done()


class Ledger(Flow, name="soak-ledger", object_id=PER_REQUEST, inbox="soak-ledger.fifo", dead_letters="soak-unbooked"):
    stages = (Book,)
