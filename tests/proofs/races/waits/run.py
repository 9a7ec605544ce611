"""One race of waits, from empty tables to what it left behind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowguard.aws.items import Item, read_item
from flowguard.protocol.run import RunItem
from tests.proofs.races.lives import live
from tests.proofs.races.post import read_post
from tests.proofs.races.waits.flow import EFFECTS
from tests.proofs.races.waits.worker import work
from tests.proofs.races.worker import Race
from tests.proofs.soak.journal import Line, read_journal
from tests.proofs.soak.sandbox import Sandbox


@dataclass(frozen=True)
class Outcome:
    """``journal`` and ``post`` in the order of their writing; ``items`` by key, ``rows`` of what is awaited."""

    journal: Sequence[Line]
    post: Sequence[Mapping[str, Any]]
    items: Mapping[str, RunItem]
    rows: Sequence[Item]
    effects: Mapping[str, Mapping[str, Any]]
    killed: int
    seconds: float


def run(race: Race) -> Outcome:
    """Starts the processes, each again when it was killed. Raises :class:`WorkerFailed` where one of them broke.

    ``race.claims`` are the waits that are to begin before no further request is made.
    """
    sandbox = Sandbox(race.dynamodb_url, "no queues here", race.access_key)
    sandbox.create_tables(EFFECTS)
    began = time.monotonic()
    killed = live(race, work)
    seconds = time.monotonic() - began
    stored = list(sandbox.scan("flowguard"))
    return Outcome(
        journal=list(read_journal(race.journal)),
        post=read_post(race.post),
        items={item["pk"]["S"]: read_item(item) for item in stored if item["sk"]["S"] == "run"},
        rows=[item for item in stored if item["sk"]["S"] != "run"],
        effects=sandbox.rows(EFFECTS),
        killed=killed,
        seconds=seconds,
    )
