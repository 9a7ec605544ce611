"""One race of calls under ``@once``, from empty tables to what it left behind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.proofs.races.lives import live
from tests.proofs.races.once.flow import CHARGED, NAME
from tests.proofs.races.once.witness import KEY, seen
from tests.proofs.races.once.worker import work
from tests.proofs.races.worker import Race
from tests.proofs.soak.journal import Line, read_journal
from tests.proofs.soak.sandbox import Sandbox


@dataclass(frozen=True)
class Outcome:
    """``entries`` by order, as they are stored; ``charged`` are the rows of the function's calls, by their owner."""

    asked: int
    entries: Mapping[str, Mapping[str, Any]]
    charged: Mapping[str, Mapping[str, Any]]
    journal: Sequence[Line]
    killed: int
    seconds: float

    def lines(self, *what: str) -> list[Line]:
        return [line for line in self.journal if line["what"] in what]


def run(race: Race) -> Outcome:
    """Start the processes, each again when it was killed. ``race.claims`` are the calls of each."""
    sandbox = Sandbox(race.dynamodb_url, "no queues here", race.access_key)
    sandbox.create_tables(CHARGED)
    race.journal.touch()
    began = time.monotonic()
    killed = live(race, work)
    seconds = time.monotonic() - began
    return Outcome(
        asked=race.claims * race.processes,
        entries={item["pk"]["S"].removeprefix(key_of("")): seen(item) or {} for item in sandbox.scan("flowguard")},
        charged=sandbox.rows(CHARGED),
        journal=list(read_journal(race.journal)),
        killed=killed,
        seconds=seconds,
    )


def key_of(order: str) -> str:
    return f"{KEY}{NAME}#{order}"
