"""One of the processes: takes some record that is due, and calls the function that reads its queue; again and again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.callback_function import callback_handler
from flowguard.client import FlowClient
from flowguard.errors import FlowguardError
from flowguard.events import Event, EventType
from flowguard.handler import lambda_handler
from flowguard.names.ids import RequestId, SeededIds
from flowguard.sim.calls import intercept
from flowguard.wire.attributes import Attribute
from flowguard.worker.ports import Services
from tests.aws.transport.beneath import of_every_other
from tests.proofs.races.mishaps import Died, Mishaps
from tests.proofs.races.mutants import break_expressions
from tests.proofs.races.shared import ProcessClock, Shared
from tests.proofs.races.shared_file import Record
from tests.proofs.races.waits.flow import (
    ANSWERED,
    ANSWERS,
    CHILDREN,
    DIRECT,
    EVENTS,
    INBOX,
    LEASE,
    WAYS,
    Asked,
    Child,
    Waits,
)
from tests.proofs.races.waits.parties import Given, Parties
from tests.proofs.races.waits.post import ASKS, Post, queue_of
from tests.proofs.races.witness import Witness
from tests.proofs.races.worker import Race, Told, store_of
from tests.proofs.soak.journal import Journal

OPEN: Final = 160
"""Messages that lie ready or are to come, at least."""

NEAR: Final = 64
"""Each process takes one of so many, the oldest: so that they meet."""

AGAIN, SECOND, NEWER = 0.05, 0.2, 0.35
"""How often a worker delivers a settled record again, takes a second one along, asks for an object that has a run."""

TOO_LONG: Final = 3_000
"""Ticks for each wait. A race that takes longer will not come to its end."""

EARLIER: Final = (0, 0, LEASE, 3 * LEASE)
"""How many ticks ago a request may have been made."""


def work(race: Race, number: int, life: int, shared: Shared) -> None:
    """The life of process ``number``, or one of those after it was killed."""
    if race.mutant is not None:
        break_expressions(race.mutant)
    name = f"p{number}.{life}"
    journal = Journal(race.journal, name)
    random.seed(f"{race.seed} handlers {name}")
    mishaps = Mishaps(race.odds, random.Random(f"{race.seed} mishaps {name}"), journal, everywhere=True)
    with intercept(mishaps), intercept(Witness(journal, shared, waits=True), innermost=True), of_every_other(number):
        _Worker(race, name, shared, journal).run()


class _Worker:
    def __init__(self, race: Race, name: str, shared: Shared, journal: Journal) -> None:
        self._race, self._shared, self._journal = race, shared, journal
        self._clock = ProcessClock(shared)
        self._draw = random.Random(f"{race.seed} choices {name}")
        self._post = Post(race.post, name, shared, self._draw)
        self._parties = Parties(name, self._draw)
        self._ids = SeededIds(hash_of(race.seed, name))
        self._newest = 0
        services = Services(
            store=store_of(race),
            watched=lambda calls: Told(calls, journal),
            sender=self._post,
            clock=self._clock,
            ids=self._ids,
            observer=self._happened,
            draw=self._draw,
        )
        flows = lambda_handler(Waits, Child).using(services)
        answers = callback_handler(Waits).using(services)
        self._functions: dict[str, Callable[[Any], Any]] = {
            **dict.fromkeys((INBOX, CHILDREN, ANSWERS), flows),
            **dict.fromkeys((ANSWERED, EVENTS), answers),
        }
        self._client = FlowClient.of(services)

    def _happened(self, event: Event) -> None:
        if event.type is EventType.ANSWERED:
            self._journal.happened(event)

    def run(self) -> None:
        """Until nothing is left to do, as far as this process knows: what others add, they see through themselves."""
        while True:
            self._post.read()
            closing = self._shared.asked() >= self._race.claims
            mail = len(self._post.waiting) + len(self._post.later)
            if (closing and not mail) or self._shared.elapsed() > TOO_LONG * self._race.claims:
                return
            if not closing and mail < OPEN:
                self._ask()
            elif self._post.waiting:
                self._deliver(self._picked())
            else:
                self._clock.now()  # time goes on

    def _ask(self) -> None:
        """A new request: for a new object, or for one that may have a run."""
        self._newest += 1
        place = self._draw.randrange(self._newest) if self._draw.random() < NEWER else self._newest
        kind, object_id = self._draw.randrange(len(WAYS)), f"w{place}"
        asked_at = self._clock.now() - self._draw.choice(EARLIER)
        name = RequestId(f"{object_id}-{self._ids.new()[:8]}")
        asked = Asked(id=object_id, kind=kind)
        message, _ = Waits.request(asked, request_id=name, requested_at=asked_at - asked_at % 50)
        self._post.request(message)
        for given in self._parties.begun(name, kind):
            self._send(given)

    def _send(self, given: Given) -> None:
        attributes = {"uniquerequestid": Attribute.string("a party")}
        self._post.put("answer", "a party", given.queue, json.dumps(given.body), attributes, given.ticks)

    def _picked(self) -> list[Record]:
        """Records of one queue."""
        if self._post.settled and self._draw.random() < AGAIN:
            return [self._draw.choice(self._post.settled)]
        near = list(self._post.waiting.values())[:NEAR]
        one = self._draw.choice(near)
        others = [record for record in near if record is not one and queue_of(record) == queue_of(one)]
        return [one, self._draw.choice(others)] if others and self._draw.random() < SECOND else [one]

    def _deliver(self, records: list[Record]) -> None:
        """One invocation. Of a worker that died nothing is acknowledged."""
        self._clock.ahead = LEASE if self._draw.random() < self._race.odds.ahead else 0
        queue = queue_of(records[0])
        if queue in ASKS or queue == DIRECT:
            done = [record for record in records if self._outside(queue, record)]
        else:
            done = self._invoked(self._functions[queue], records)
        for record in done:
            self._post.settle(record)

    def _invoked(self, function: Callable[[Any], Any], records: list[Record]) -> list[Record]:
        try:
            answer = function({"Records": records})
        except Died:
            return []
        left = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        return [record for record in records if record["messageId"] not in left]

    def _outside(self, queue: str, record: Record) -> bool:
        """What a party does with a record. One that answers by itself answers once, whatever becomes of that."""
        if queue in ASKS:
            for given in self._parties.answers_to(record, self._clock.now()):
                self._send(given)
            return True
        body = json.loads(record["body"])
        try:
            verdict = self._client.answer(Waits, body["id"], body["value"]).value
        except Died:
            verdict = "died"
        except (FlowguardError, ClientError, BotoCoreError) as error:
            verdict = type(error).__name__
        self._journal.write("sender", id=body["id"], verdict=verdict)
        return True


def hash_of(seed: int, name: str) -> int:
    """The same number for the same life in each race of a seed."""
    return random.Random(f"{seed} ids {name}").randrange(10**9)
