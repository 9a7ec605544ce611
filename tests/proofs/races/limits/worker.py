"""One of the processes: delivers its own orders until each is settled, and copies of other processes' orders."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from flowguard.aws.tables import DynamoDBTables
from flowguard.events import Event, EventType
from flowguard.handler import lambda_handler
from flowguard.names.ids import SeededIds
from flowguard.protocol import places
from flowguard.protocol.run import Claim
from flowguard.sim.calls import intercept
from flowguard.worker.asks import Answer, Ask, Calls, Committing
from flowguard.worker.ports import Services
from tests.aws.transport.beneath import of_every_other
from tests.proofs.races.limits.flow import CHARGES, FLOWS, LEASE, WITNESSES
from tests.proofs.races.limits.mail import OrdersMail, request_record
from tests.proofs.races.mishaps import Died, Mishaps
from tests.proofs.races.shared import ProcessClock, Shared
from tests.proofs.races.worker import Race, store_of
from tests.proofs.soak.journal import Journal
from tests.proofs.soak.sandbox import Sandbox

COPY: Final = 0.1
"""The share of deliveries after which a copy of any order comes."""

NEAR: Final = 8
"""A process takes one of so many of its own that are open, the first or the last ones."""

READS: Final = 8
"""What a handler does for its order: enough that others meet it at work."""

TOO_LONG: Final = 40_000
"""Ticks for each order. A race that takes longer will not come to its end."""

NO_LIMIT: Final = "a place where there is none"
"""The guard that a race may go without."""


def work(race: Race, number: int, life: int, shared: Shared) -> None:
    """The life of process ``number``, or one of those after it was killed. ``race.claims`` are each one's orders."""
    name = f"p{number}.{life}"
    journal = Journal(race.journal, name)
    random.seed(f"{race.seed} handlers {name}")
    places.SKEW, places.GRACE = LEASE // 40, LEASE  # type: ignore[misc]  # in ticks of a clock that all move on
    if race.mutant == NO_LIMIT:
        places.free = lambda places, terms: 1
    mishaps = Mishaps(race.odds, random.Random(f"{race.seed} mishaps {name}"), journal, everywhere=True)
    with intercept(mishaps), of_every_other(number):
        _Worker(race, number, life, shared, journal).run()


class _Worker:
    def __init__(self, race: Race, number: int, life: int, shared: Shared, journal: Journal) -> None:
        name = f"{race.seed} {number}.{life}"
        self._race, self._shared, self._journal = race, shared, journal
        self._all = race.claims * race.processes
        self._draw = random.Random(f"choices {name}")
        self._mail = OrdersMail(race.folder / f"mail-{number}", range(number, self._all, race.processes), life)
        self._until = 0
        WITNESSES[:] = [self._begins]
        sandbox = Sandbox(race.dynamodb_url, "no queues here", race.access_key)
        services = Services(
            store=store_of(race),
            watched=lambda calls: lambda asks: self._watched(calls, asks),
            sender=self._mail,
            clock=ProcessClock(shared),
            ids=SeededIds(random.Random(f"ids {name}").randrange(10**9)),
            observer=self._happened,
            draw=self._draw,
            tables=DynamoDBTables(sandbox.clients, self._draw, pause=lambda _: None),
        )
        self._client = sandbox.clients.dynamodb
        self._handler = lambda_handler(*FLOWS).using(services)

    def run(self) -> None:
        self._ends()
        while self._mail.open and self._shared.elapsed() < TOO_LONG * self._all:
            ids = list(self._mail.open)
            self._deliver(self._mail.record(self._draw.choice([*ids[:NEAR], *ids[-NEAR:]])))
            if self._draw.random() < COPY:
                self._deliver(request_record(self._draw.randrange(self._all)))

    def _deliver(self, record: dict[str, Any]) -> None:
        """One invocation. Of a worker that died nothing is acknowledged."""
        try:
            answer = self._handler({"Records": [record]})
        except Died:
            self._ends()
            return
        self._ends()
        if not answer["batchItemFailures"]:
            self._mail.settle(record["messageId"])

    # -- what is told of handlers at work

    @contextmanager
    def _begins(self, customer: str, order: str) -> Iterator[None]:
        """Called by the handler, whose work are some reads. The moment is looked up after the place was taken."""
        self._journal.write("begins", tick=self._shared.tick(), customer=customer, order=order, until=self._until)
        try:
            for _ in range(READS):
                self._client.get_item(TableName=CHARGES, Key={"id": {"S": order}})
            yield
        except BaseException:  # the place is given back before the invocation ends
            self._ends()
            raise

    def _ends(self) -> None:
        self._journal.write("ends", tick=self._shared.tick())

    def _watched(self, calls: Calls, asks: Sequence[Ask]) -> Sequence[Answer]:
        """Note the lease that a claim has, and the end of the work where its commit is answered."""
        try:
            answers = calls(asks)
        finally:
            if any(isinstance(ask, Committing) for ask in asks):
                self._ends()
        for answer in answers:
            if isinstance(answer, Claim):
                self._until = answer.item.lease_until
        return answers

    def _happened(self, event: Event) -> None:
        if event.type in (EventType.IN_LINE, EventType.CALLED):
            self._journal.write(event.type.value)
