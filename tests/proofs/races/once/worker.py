"""One of the processes: calls the function for its orders until each call has its answer."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.aws.ledger import DynamoDBLedger
from flowguard.aws.packing import Packing
from flowguard.errors import InProgress, KeyReused, ResultUnsaved
from flowguard.events import Event, EventType
from flowguard.key_table import KeyTable
from flowguard.names.ids import SeededIds
from flowguard.once_function import OnceServices
from flowguard.settings import Settings
from flowguard.sim.calls import intercept
from tests.aws.transport.beneath import of_every_other
from tests.proofs.races.mishaps import Died, Mishaps
from tests.proofs.races.mutants import break_expressions
from tests.proofs.races.once.flow import CHARGED, LEASE, Declined, Order, asked, guarded
from tests.proofs.races.once.witness import Witness
from tests.proofs.races.shared import ProcessClock, Shared
from tests.proofs.races.worker import ONE_REQUEST, Race
from tests.proofs.soak.journal import Journal, read_journal
from tests.proofs.soak.sandbox import Sandbox

AGAIN, DECLINED = 0.1, 0.1
"""The shares of calls after which another one is repeated, of any order so far, and of those that raise."""

SLOW, OTHERS, WRITES = 0.25, 20, 50
"""The share of executions that take longer than their lease, until others have looked at the clock so often. Meanwhile
these write their row, so often at most."""

NEAR = 2
"""A process makes one of so many of its own calls that have no answer, the first."""

TOO_LONG = 500
"""Ticks for each call. A race that takes longer will not come to its end."""

_ENDS = (EventType.COMPLETED, EventType.FENCED, EventType.RAISED, EventType.UNSAVED)


def work(race: Race, number: int, life: int, shared: Shared) -> None:
    """The life of process ``number``, or one of those after it was killed. ``race.claims`` are each one's calls."""
    if race.mutant is not None:
        break_expressions(race.mutant)
    name = f"p{number}.{life}"
    journal = Journal(race.journal, name)
    mishaps = Mishaps(race.odds, random.Random(f"{race.seed} mishaps {name}"), journal, everywhere=True)
    with intercept(mishaps), intercept(Witness(journal), innermost=True), of_every_other(number):
        _Worker(race, number, life, shared, journal).run()


class _Ids(SeededIds):
    """Ids of which the last is known: a call draws its owner, and nothing else."""

    last = ""

    def new(self) -> str:
        self.last = super().new()
        return self.last


class _Worker:
    def __init__(self, race: Race, number: int, life: int, shared: Shared, journal: Journal) -> None:
        name = f"{race.seed} {number}.{life}"
        self._race, self._shared, self._journal = race, shared, journal
        self._all = race.claims * race.processes
        self._clock = ProcessClock(shared)
        self._draw = random.Random(f"choices {name}")
        self._ids = _Ids(random.Random(f"ids {name}").randrange(10**9))
        mine = range(number, self._all, race.processes)
        told = {line["number"] for line in read_journal(race.journal) if line["what"] == "told"}
        self._open = {call: None for call in mine if call not in told}
        sandbox = Sandbox(race.dynamodb_url, "no queues here", race.access_key)
        self._client = sandbox.session().client("dynamodb", endpoint_url=race.dynamodb_url, config=ONE_REQUEST)
        packing = Packing(lambda: sandbox.clients.s3, None, Settings().offload_above)
        table = KeyTable(Settings().table, "pk", "sk", "ttl")
        ledger = DynamoDBLedger(self._client, table, packing, pause=lambda _: None)
        self._function = guarded(OnceServices(ledger, self._clock, self._ids, self._told), self._charge)

    def run(self) -> None:
        while self._open and self._shared.elapsed() < TOO_LONG * self._all:
            number = self._draw.choice(list(islice(self._open, NEAR)))
            self._call(number)
            if self._draw.random() < AGAIN:
                self._call(self._draw.randrange(number + 1))

    def _call(self, number: int) -> None:
        """Make one call. One that gets no answer is made again."""
        self._clock.ahead = LEASE if self._draw.random() < self._race.odds.ahead else 0
        try:
            result = self._function(asked(number))
        except KeyReused:
            self._answered(number, "reused", None)
        except Died:
            self._journal.write("end", owner=self._ids.last, how="died")
        except (InProgress, ResultUnsaved, Declined, ClientError, BotoCoreError) as error:
            self._journal.write("unanswered", number=number, why=type(error).__name__)
        else:
            self._answered(number, "returned", result)

    def _answered(self, number: int, how: str, result: Any) -> None:
        self._journal.write("told", number=number, how=how, result=result)
        self._open.pop(number, None)

    def _charge(self, order: Order) -> Order:
        """The function's own body. Its row has the name of its call, so that a repeated write is one row."""
        owner = self._ids.last
        self._journal.write("begun", owner=owner, **order)
        row = {"id": {"S": owner}, "order": {"S": str(order["order"])}, "amount": {"N": str(order["amount"])}}
        self._client.put_item(TableName=CHARGED, Item=row)
        if self._draw.random() < SLOW:
            self._be_outrun(row)
        if self._draw.random() < DECLINED:
            raise Declined
        return {**order, "by": owner}

    def _be_outrun(self, row: Any) -> None:
        for _ in range(LEASE):
            self._shared.tick()
        over, writes = self._shared.now() + OTHERS, 0
        while self._shared.now() < over and writes < WRITES:
            self._client.put_item(TableName=CHARGED, Item=row)
            writes += 1

    def _told(self, event: Event) -> None:
        if event.type in _ENDS:
            self._journal.write("end", owner=self._ids.last, how=event.type.value)
