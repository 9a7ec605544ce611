"""One of the processes: takes some record of some object, and calls the flow's function with it, again and again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from botocore.config import Config

from flowguard.aws.packing import Packing
from flowguard.aws.store import DynamoDBStore
from flowguard.handler import lambda_handler
from flowguard.names.ids import Owner, RequestId, SeededIds
from flowguard.protocol.run import Claim, ClaimRequest, Committed, Fenced, Refused
from flowguard.settings import Settings
from flowguard.sim.calls import intercept
from flowguard.verdicts import Verdict
from flowguard.wire.message import Message
from flowguard.worker import together
from flowguard.worker.asks import Answer, Ask, Calls, Committing
from flowguard.worker.ports import Services
from tests.aws.transport.beneath import of_every_other
from tests.proofs.races.flow import FLOWS, LEASE
from tests.proofs.races.mishaps import Died, Mishaps, Odds
from tests.proofs.races.mutants import break_expressions
from tests.proofs.races.post import Mail, Post, object_name
from tests.proofs.races.shared import ProcessClock, Shared
from tests.proofs.races.shared_file import Record
from tests.proofs.races.witness import Witness
from tests.proofs.soak.journal import Journal
from tests.proofs.soak.sandbox import Sandbox

REQUESTS = 5
"""Of each object; several processes may ask at once, so that there may be a few more."""

NEW, AGAIN, SECOND = 0.15, 0.05, 0.2
"""How often a worker sends a new request, delivers a settled record again, takes a second record along."""

TEN = 10
"""Records of an event whose records share their calls: those of each fourth process."""

ONE_REQUEST = Config(retries={"total_max_attempts": 1}, read_timeout=60, parameter_validation=False)
"""A call is one request over HTTP, or its journal could not say what was applied: repeats are the mishaps' business."""

TOO_MANY = 3
"""A race that asks for so many times the claims it wants, and some more, will not come to its end."""


@dataclass(frozen=True)
class Race:
    """What all processes are told. ``claims`` is how many are asked for before no further request is made."""

    dynamodb_url: str
    access_key: str
    folder: Path
    claims: int
    processes: int
    seed: int
    odds: Odds = field(default_factory=Odds)
    mutant: str | None = None

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def post(self) -> Path:
        return self.folder / "post"

    @property
    def window(self) -> int:
        """How many objects are raced for at a time."""
        return max(2, self.processes)


def work(race: Race, number: int, shared: Shared) -> None:
    """The life of process ``number``."""
    if race.mutant is not None:
        break_expressions(race.mutant)
    together.LONGEST_WAIT_MS = TEN * LEASE  # type: ignore[misc]  # in ticks of a clock that all processes move on
    journal = Journal(race.journal, f"p{number}")
    random.seed(f"{race.seed} handlers {number}")
    with (
        intercept(Mishaps(race.odds, random.Random(f"{race.seed} mishaps {number}"), journal)),
        intercept(Witness(journal, shared), innermost=True),
        of_every_other(number),
    ):
        _Worker(race, number, shared, journal).run()


class _Worker:
    def __init__(self, race: Race, number: int, shared: Shared, journal: Journal) -> None:
        self._race, self._shared = race, shared
        self._clock = ProcessClock(shared)
        self._post = Post(race.post, f"p{number}")
        self._draw = random.Random(f"{race.seed} choices {number}")
        self._ids = SeededIds(race.seed * 1_000 + number)
        self._next = 0
        self._together = number % 4 == 1
        services = Services(
            store=store_of(race),
            watched=lambda calls: Told(calls, journal),
            sender=self._post,
            clock=self._clock,
            ids=self._ids,
            observer=lambda _: None,
            draw=self._draw,
            threads=self._together,
        )
        self._handler = lambda_handler(*dict.fromkeys(FLOWS), together=self._together).using(services)

    def run(self) -> None:
        """Until nothing is left to do, as far as this process knows: what others add, they see through themselves."""
        while True:
            self._post.read()
            asked = self._shared.asked()
            closing = asked >= self._race.claims
            objects = self._open(closing)
            if not objects or asked > TOO_MANY * self._race.claims + 1_000:
                return
            self._turn(objects, closing)

    def _open(self, closing: bool) -> list[int]:
        """The objects that are raced for now: those with mail, the longest known first, and new ones beside them."""
        found = sorted(self._post.busy)[: self._race.window]
        while not closing and self._requests(self._next) >= REQUESTS:
            self._next += 1
        further = self._next
        while not closing and len(found) < self._race.window:
            if further not in found and self._requests(further) < REQUESTS:
                found.append(further)
            further += 1
        return found

    def _requests(self, number: int) -> int:
        mail = self._post.mail.get(number)
        return mail.requests if mail is not None else 0

    def _turn(self, objects: list[int], closing: bool) -> None:
        number = self._draw.choice(objects)
        mail = self._post.mail.get(number)
        wants_more = not closing and self._requests(number) < REQUESTS
        if mail is None or not mail.waiting or (wants_more and self._draw.random() < NEW):
            self._ask(number)
            if not self._together or closing:
                return
            for other in set(self._draw.sample(objects, min(len(objects), TEN))) - {number}:
                if self._requests(other) < REQUESTS:
                    self._ask(other)
            self._post.read()
        self._clock.ahead = LEASE if self._draw.random() < self._race.odds.ahead else 0
        self._deliver(self._ten(objects) if self._together or mail is None else self._picked(mail))

    def _ask(self, number: int) -> None:
        """A new request. Some were asked for before others that are known already, some at the same moment."""
        flow, object_id = FLOWS[number % len(FLOWS)], object_name(number)
        asked_at = self._clock.now() - self._draw.choice((0, 0, LEASE, 3 * LEASE))
        name = RequestId(f"{object_id}.{self._ids.new()[:8]}")
        message, _ = flow.request({"id": object_id}, request_id=name, requested_at=asked_at - asked_at % 50)
        self._post.request(message)

    def _picked(self, mail: Mail) -> list[Record]:
        waiting = list(mail.waiting.values())
        if mail.settled and self._draw.random() < AGAIN:
            return [self._draw.choice(mail.settled)]
        return self._draw.sample(waiting, min(len(waiting), 1 + (self._draw.random() < SECOND)))

    def _ten(self, objects: list[int]) -> list[Record]:
        """An event of ten records: the last ones of several objects, and others, also some that were acknowledged."""
        mails = [mail for number in objects if (mail := self._post.mail.get(number)) is not None]
        last = [next(reversed(mail.waiting.values())) for mail in mails if mail.waiting]
        found = self._draw.sample(last, min(len(last), TEN - 2))
        known = [record for mail in mails for record in (*mail.waiting.values(), *mail.settled) if record not in found]
        return [*found, *self._draw.sample(known, min(len(known), TEN - len(found)))]

    def _deliver(self, records: list[Record]) -> None:
        """One invocation. Of a worker that died nothing is acknowledged."""
        try:
            answer = self._handler({"Records": records})
        except Died:
            return
        left = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for record in records:
            if record["messageId"] not in left:
                self._post.settle(record)


class Told:
    """The calls of a worker, and a line for each answer that it got."""

    def __init__(self, calls: Calls, journal: Journal) -> None:
        self._calls = calls
        self._journal = journal

    def __call__(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        answers = self._calls(asks)
        for ask, answer in zip(asks, answers, strict=True):
            if isinstance(ask, Committing) and isinstance(answer, Committed | Fenced | Refused):
                self._told_commit(ask.claim, answer)
            elif not isinstance(ask, Committing) and isinstance(answer, Claim | Refused):
                self._told_claim(ask.request, answer)
        return answers

    def _told_claim(self, request: ClaimRequest, answer: Claim | Refused) -> None:
        verdict = Verdict.CLAIMED if isinstance(answer, Claim) else answer.verdict
        holder = answer.item.request_id if answer.item is not None else None
        self._tell("told-claim", request.message, request.owner, verdict=verdict.value, holder=holder)

    def _told_commit(self, claim: Claim, answer: Committed | Fenced | Refused) -> None:
        said = "committed"
        if isinstance(answer, Refused) and claim.unwritten is not None:
            said = answer.verdict.value
            self._told_claim(claim.unwritten, answer)
        elif isinstance(answer, Fenced):
            said = answer.by.value
        self._tell("told-commit", claim.message, claim.item.owner, answer=said, epoch=claim.item.epoch)

    def _tell(self, what: str, message: Message, owner: Owner, **facts: object) -> None:
        names = {"flow": message.flow, "object": message.object_id, "request_id": message.request_id}
        self._journal.write(what, **names, hop=message.hop, redrive=message.redrive, owner=owner, **facts)


def store_of(race: Race) -> DynamoDBStore:
    """The store. It makes no pause before another try."""
    sandbox, settings = Sandbox(race.dynamodb_url, "no queues here", race.access_key), Settings()
    client = sandbox.session().client("dynamodb", endpoint_url=race.dynamodb_url, config=ONE_REQUEST)
    packing = Packing(lambda: sandbox.clients.s3, None, settings.offload_above)
    return DynamoDBStore(client, settings.table, packing, pause=lambda _: None)
