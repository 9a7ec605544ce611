"""One race of callers, from empty tables to what it left behind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowguard.aws.items import read_item
from flowguard.protocol.run import RunItem
from tests.proofs.races.callers.flow import MADE
from tests.proofs.races.callers.mail import lines
from tests.proofs.races.callers.worker import work
from tests.proofs.races.lives import live
from tests.proofs.races.worker import Race
from tests.proofs.soak.journal import Line, read_journal
from tests.proofs.soak.sandbox import Sandbox


@dataclass(frozen=True)
class Outcome:
    """``answers`` as they were sent, copies too; ``made`` by page; ``rows`` are those of callers that are left."""

    asked: int
    answers: Sequence[Mapping[str, Any]]
    items: Mapping[str, RunItem]
    made: Mapping[str, Mapping[str, Any]]
    rows: Sequence[str]
    journal: Sequence[Line]
    killed: int
    seconds: float


def run(race: Race) -> Outcome:
    """Start the processes, each again when it was killed. ``race.claims`` are the callers of each."""
    sandbox = Sandbox(race.dynamodb_url, "no queues here", race.access_key)
    sandbox.create_tables(MADE)
    began = time.monotonic()
    killed = live(race, work)
    seconds = time.monotonic() - began
    found = list(sandbox.scan("flowguard"))
    mail = [line for number in range(race.processes) for line in lines(race.folder / f"mail-{number}")]
    return Outcome(
        asked=race.claims * race.processes,
        answers=[line for line in mail if "answer" in line],
        items={item["pk"]["S"]: read_item(item) for item in found if item["sk"]["S"] == "run"},
        made=sandbox.rows(MADE),
        rows=[item["sk"]["S"] for item in found if item["sk"]["S"] != "run"],
        journal=list(read_journal(race.journal)),
        killed=killed,
        seconds=seconds,
    )
