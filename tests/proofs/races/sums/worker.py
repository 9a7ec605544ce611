"""One of the processes: delivers its own requests until each is settled, and copies of other processes' requests."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any, Final

from flowguard.aws.tables import DynamoDBTables
from flowguard.handler import lambda_handler
from flowguard.names.ids import SeededIds
from flowguard.sim.calls import intercept
from flowguard.worker.ports import Services
from tests.aws.transport.beneath import of_every_other
from tests.proofs.races.mishaps import Died, Mishaps
from tests.proofs.races.mutants import break_expressions
from tests.proofs.races.shared import ProcessClock, Shared
from tests.proofs.races.sums.asked import Asked
from tests.proofs.races.sums.flow import FLOWS, LEASE
from tests.proofs.races.sums.mail import Mail
from tests.proofs.races.worker import Race, Told, store_of
from tests.proofs.soak.journal import Journal
from tests.proofs.soak.sandbox import Sandbox

COPY, LATE = 0.1, 0.05
"""The share of deliveries that are copies of a request near by, and of requests that come again at the end."""

NEAR: Final = 8
"""A process takes one of so many of its own that are open, the first."""

TOO_LONG: Final = 500
"""Ticks for each request. A race that takes longer will not come to its end."""


def work(race: Race, number: int, life: int, shared: Shared) -> None:
    """The life of process ``number``, or one of those after it was killed. ``race.claims`` are each one's requests."""
    if race.mutant is not None:
        break_expressions(race.mutant)
    name = f"p{number}.{life}"
    journal = Journal(race.journal, name)
    random.seed(f"{race.seed} handlers {name}")
    with intercept(Mishaps(race.odds, random.Random(f"{race.seed} mishaps {name}"), journal)), of_every_other(number):
        _Worker(race, number, life, shared, journal).run()


class _Worker:
    def __init__(self, race: Race, number: int, life: int, shared: Shared, journal: Journal) -> None:
        name = f"{race.seed} {number}.{life}"
        self._race, self._shared = race, shared
        self._all = race.claims * race.processes
        self._clock = ProcessClock(shared)
        self._draw = random.Random(f"choices {name}")
        self._mail = Mail(race.folder / f"mail-{number}", range(number, self._all, race.processes), life)
        sandbox = Sandbox(race.dynamodb_url, "no queues here", race.access_key)
        services = Services(
            store=store_of(race),
            watched=lambda calls: Told(calls, journal),
            sender=self._mail,
            clock=self._clock,
            ids=SeededIds(random.Random(f"ids {name}").randrange(10**9)),
            observer=lambda _: None,
            draw=self._draw,
            tables=DynamoDBTables(sandbox.clients, self._draw, pause=lambda _: None),
        )
        self._handler = lambda_handler(*FLOWS).using(services)

    def run(self) -> None:
        while self._mail.open and self._shared.elapsed() < TOO_LONG * self._all:
            near = list(islice(self._mail.open, NEAR))
            self._deliver(self._mail.record(self._draw.choice(near)))
            if self._draw.random() < COPY:
                place = int(near[0].removeprefix("m")) if near[0].startswith("m") else 0
                self._copy(place + self._draw.randrange(-NEAR, NEAR))
        for _ in range(int(LATE * self._race.claims)):
            self._copy(self._draw.randrange(self._all))

    def _copy(self, number: int) -> None:
        self._deliver(Asked(min(max(number, 0), self._all - 1)).record())

    def _deliver(self, record: dict[str, Any]) -> None:
        """One invocation. Of a worker that died nothing is acknowledged."""
        self._clock.ahead = LEASE if self._draw.random() < self._race.odds.ahead else 0
        try:
            answer = self._handler({"Records": [record]})
        except Died:
            return
        if not answer["batchItemFailures"]:
            self._mail.settle(record["messageId"])
