"""One of the processes: asks for pages until each of its messages is settled, and resets a page now and then."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.client import FlowClient
from flowguard.handler import lambda_handler
from flowguard.names.ids import SeededIds
from flowguard.sim.calls import intercept
from flowguard.worker.ports import Services
from tests.aws.transport.beneath import of_every_other
from tests.proofs.races.callers.flow import LEASE, PAGES, SIGNER, Pages, asked, page
from tests.proofs.races.callers.mail import Mail
from tests.proofs.races.mishaps import Died, Mishaps
from tests.proofs.races.mutants import break_expressions
from tests.proofs.races.shared import ProcessClock, Shared
from tests.proofs.races.worker import Race, Told, store_of
from tests.proofs.soak.journal import Journal

RESET, COPY = 0.02, 0.05
"""The shares of deliveries after which a page is reset, and that are copies of a request near by."""

NEAR: Final = 60
"""A process takes one of so many of its own that are open, the first: about three for each page."""

TOO_LONG: Final = 500
"""Ticks for each request. A race that takes longer will not come to its end."""


def work(race: Race, number: int, life: int, shared: Shared) -> None:
    """The life of process ``number``, or one of those after it was killed. ``race.claims`` are each one's callers."""
    if race.mutant is not None:
        break_expressions(race.mutant)
    name = f"p{number}.{life}"
    journal = Journal(race.journal, name)
    mishaps = Mishaps(race.odds, random.Random(f"{race.seed} mishaps {name}"), journal, everywhere=True)
    with intercept(mishaps), of_every_other(number):
        _Worker(race, number, life, shared, journal).run()


class _Worker:
    def __init__(self, race: Race, number: int, life: int, shared: Shared, journal: Journal) -> None:
        name = f"{race.seed} {number}.{life}"
        self._race, self._shared, self._journal = race, shared, journal
        self._all = race.claims * race.processes
        self._clock = ProcessClock(shared)
        self._draw = random.Random(f"choices {name}")
        self._mail = Mail(race.folder / f"mail-{number}", range(number, self._all, race.processes), life)
        services = Services(
            store=store_of(race),
            watched=lambda calls: Told(calls, journal),
            sender=self._mail,
            clock=self._clock,
            ids=SeededIds(random.Random(f"ids {name}").randrange(10**9)),
            observer=lambda _: None,
            draw=self._draw,
            signer=SIGNER,
        )
        self._handler = lambda_handler(Pages).using(services)
        self._client = FlowClient.of(services)

    def run(self) -> None:
        while self._mail.open and self._shared.elapsed() < TOO_LONG * self._all:
            near = list(islice(self._mail.open, NEAR))
            self._deliver(self._mail.record(self._draw.choice(near)))
            if self._draw.random() < COPY:
                self._deliver(asked(self._draw.randrange(self._all)))
            if self._draw.random() < RESET:
                self._reset(page(self._draw.randrange(PAGES)))

    def _deliver(self, record: dict[str, Any]) -> None:
        """One invocation. Of a worker that died nothing is acknowledged."""
        self._clock.ahead = LEASE if self._draw.random() < self._race.odds.ahead else 0
        try:
            answer = self._handler({"Records": [record]})
        except Died:
            return
        if not answer["batchItemFailures"]:
            self._mail.settle(record["messageId"])

    def _reset(self, name: str) -> None:
        """One call. Whoever does not get its verdict may have reset the page, or not."""
        self._journal.write("resets", page=name)
        try:
            verdict = self._client.reset(Pages, name).value
        except (Died, ClientError, BotoCoreError):
            return
        self._journal.write("reset", page=name, verdict=verdict)
