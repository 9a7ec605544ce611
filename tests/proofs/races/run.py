"""One race, from empty tables to what it left behind."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowguard.aws.items import read_item
from flowguard.protocol.run import RunItem
from tests.proofs.races.flow import EFFECTS, TABLES, TOTALS
from tests.proofs.races.post import read_post
from tests.proofs.races.shared import Shared
from tests.proofs.races.worker import Race, work
from tests.proofs.soak.journal import Line, read_journal
from tests.proofs.soak.sandbox import Sandbox


class WorkerFailed(Exception):
    """A process ended by itself before the race was over."""


@dataclass(frozen=True)
class Outcome:
    """``journal`` and ``post`` in the order of their writing; ``items`` by key, the rows by their ids."""

    journal: Sequence[Line]
    post: Sequence[Mapping[str, Any]]
    items: Mapping[str, RunItem]
    effects: Mapping[str, Mapping[str, Any]]
    totals: Mapping[str, Mapping[str, Any]]
    seconds: float


def run(race: Race) -> Outcome:
    """Starts the processes and waits for them. Raises :class:`WorkerFailed` where one of them broke."""
    sandbox = Sandbox(race.dynamodb_url, "no queues here", race.access_key)
    sandbox.create_tables(*TABLES)
    began = time.monotonic()
    _race(race)
    seconds = time.monotonic() - began
    items = {item["pk"]["S"]: read_item(item) for item in sandbox.scan("flowguard")}
    return Outcome(
        list(read_journal(race.journal)),
        read_post(race.post),
        items,
        sandbox.rows(EFFECTS),
        sandbox.rows(TOTALS),
        seconds,
    )


def _race(race: Race) -> None:
    """Forked from a server that has loaded everything once, and has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.proofs.races.warm"])
    shared = Shared(context)
    processes = [context.Process(target=work, args=(race, number, shared)) for number in range(race.processes)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if broken := [process.name for process in processes if process.exitcode]:
        raise WorkerFailed(f"{', '.join(broken)}: see above")
