"""One race of limits, from empty tables to what it left behind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowguard.aws.items import read_item
from flowguard.protocol.run import RunItem
from tests.proofs.races.limits.flow import CHARGES
from tests.proofs.races.limits.worker import work
from tests.proofs.races.lives import live
from tests.proofs.races.worker import Race
from tests.proofs.soak.journal import Line, read_journal
from tests.proofs.soak.sandbox import Sandbox


@dataclass(frozen=True)
class Outcome:
    """``items`` are the runs by key, ``rows`` those of the orders by their ids; ``asked`` is how many there were."""

    asked: int
    journal: Sequence[Line]
    items: Mapping[str, RunItem]
    rows: Mapping[str, Mapping[str, Any]]
    killed: int
    seconds: float


def run(race: Race) -> Outcome:
    """Start the processes, each again when it was killed. ``race.claims`` are the orders of each."""
    sandbox = Sandbox(race.dynamodb_url, "no queues here", race.access_key)
    sandbox.create_tables(CHARGES)
    began = time.monotonic()
    killed = live(race, work)
    seconds = time.monotonic() - began
    runs = [item for item in sandbox.scan("flowguard") if item["sk"]["S"] == "run"]
    return Outcome(
        asked=race.claims * race.processes,
        journal=list(read_journal(race.journal)),
        items={item["pk"]["S"]: read_item(item) for item in runs},
        rows=sandbox.rows(CHARGES),
        killed=killed,
        seconds=seconds,
    )
