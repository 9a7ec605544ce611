"""A soak under weather: the same flows and sums on the AWS in memory, in virtual time, where an hour costs nothing.

Neither DynamoDB Local nor ElasticMQ has a clock that could be moved, so an hour would take an hour. What is sent, read
and summed is as in the other soak, and workers die as often. There are no processes, signatures or insiders. In this
soak alone are a ledger behind a FIFO queue, whose groups wait for their first records whatever happens to those, and
runs that go round in one function.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from itertools import groupby
from typing import Any, Final, NamedTuple

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.deploy.queue_plan import times_of
from flowguard.events import Event, Observer, log
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_SECRETS
from flowguard.sim.crash import Died
from flowguard.sim.delivered import Delivered
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.points import Point
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.away import Away
from flowguard.sim.weather.loops import Loops
from flowguard.sim.weather.throttled import Throttled
from flowguard.sim.world import START, World
from flowguard.wire.message import Message
from flowguard.worker.patience import MANY_RECEIVES
from flowguard.worker.ports import Sender, Services
from tests.proofs.soak import rounds
from tests.proofs.soak.chronicle import GIVEN_UP_WORKER, Chronicle
from tests.proofs.soak.feed import Feed
from tests.proofs.soak.journal import Line
from tests.proofs.soak.ledger import requests as ledger
from tests.proofs.soak.ledger.flow import LEDGER, Entry, Ledger
from tests.proofs.soak.mail import Postman
from tests.proofs.soak.odds import Odds
from tests.proofs.soak.orders.flow import Orders
from tests.proofs.soak.outcome import Outcome
from tests.proofs.soak.pages.flow import Pages
from tests.proofs.soak.places import ACCOUNTS, ANSWERED, EFFECTS, PAGES
from tests.proofs.soak.request import Asked
from tests.proofs.soak.rounds import ROUNDS, Rounds
from tests.proofs.soak.run import requests
from tests.proofs.soak.sandbox import Sandbox
from tests.proofs.soak.waits import flow as waits_flow
from tests.proofs.soak.waits.flow import Stock, Waits
from tests.proofs.soak.waits.party import Party

EVERY: Final = 1_000
"""A request comes so often, ms."""

ENTRIES: Final = 2
"""For so many requests there is an entry of the ledger."""

A_ROUND: Final = 30
"""For so many there is a run that goes round."""

NOT_TOLD: Final = {Ledger.name, Rounds.name}
"""The flows that the chronicle does not tell of: they have sums of their own."""

FLOWS: Final = (Orders, Pages, Waits, Stock)

WITHIN: Final = timedelta(hours=12)
"""What a run waits for lasts so long here, so that an outage of hours changes no end."""


class MemorySandbox(Sandbox):
    """The engine of the process that is open, with the keys of its world."""

    @cached_property
    def clients(self) -> Clients:
        return Clients()

    def services(self, observer: Observer = log) -> Services:
        return aws_services(Settings.model_validate(SIMULATED_SECRETS), self.clients, observer=observer)


class Outage(NamedTuple):
    """An outage: of what, and from when until when."""

    begins: float
    ends: float
    of: str


@dataclass(frozen=True)
class Day:
    """A soak and its weather. Times are in seconds since the day began.

    ``calls`` are those of functions to DynamoDB, by second. ``came_again`` has the seconds in which records came again
    that the weather had sent back, by the second in which they were sent back and the receives that they had then.
    ``sent`` is when the last request was sent, ``drained`` when the last order ended. ``outages`` are those of services
    and functions. ``entries`` were sent to the ledger, and ``booked`` are those of each account. ``round_hops`` counts
    the hops of the ``round_runs``. ``longest_chain`` is how often a function was invoked in one chain, at most.
    """

    outcome: Outcome
    calls: Counter[int]
    came_again: Mapping[tuple[int, int], Sequence[int]]
    refused: int
    sent: int
    drained: int
    outages: Sequence[Outage]
    entries: Mapping[str, Entry]
    booked: Mapping[str, Sequence[str]]
    round_runs: Collection[str]
    round_hops: Mapping[str, int]
    longest_chain: int

    @property
    def begins(self) -> float:
        return min((outage.begins for outage in self.outages), default=0)

    @property
    def ends(self) -> float:
        return max((outage.ends for outage in self.outages), default=0)

    def before(self) -> int:
        """The most calls of a second before the outages."""
        return max((n for at, n in self.calls.items() if at < self.begins), default=0)

    def after(self) -> Counter[int]:
        """The calls of each second after the outages."""
        return Counter({at: n for at, n in self.calls.items() if at >= self.ends})


def weathered_soak(weather: str, messages: int, odds: Odds) -> Day:
    """Send a request a second, work until nothing is left, and read what there is."""
    asked, entries = requests(messages, odds), ledger.entries(messages // ENTRIES, odds)
    sandbox = MemorySandbox("memory", "memory")
    told = _Told(odds)
    with VirtualTime(START) as clock, MemoryAWS(clock, seed=odds.seed) as aws, _longer_waits():
        world = World(
            [*FLOWS, Ledger, Rounds],
            tables=dict.fromkeys((ACCOUNTS, PAGES, EFFECTS, LEDGER, ROUNDS), "id"),
            aws=aws,
            clock=clock,
            seed=odds.seed,
            most_receives=MANY_RECEIVES,
            times=times_of(FLOWS)._replace(of_outside=frozenset({ANSWERED})),
            weather=weather,
            passed=told.passed,
            observer=told.happened,
        )
        told.clock = clock
        with world:
            outside = _Outside(Party(sandbox, odds.seed), Postman(sandbox))
            feed = _Feeds(sandbox.services().sender, asked.sends, entries)
            for row in _played(world, feed, outside):
                told.delivered(row, world.weather.refused)
            outcome = Outcome.read(
                sandbox,
                asked,
                outside.postman.mail(),
                Chronicle.of(told.lines),
                (clock.now() - START) / 1000,
                outside.party.resumed,
                (),
            )
            booked = {name: row["entries"] for name, row in sandbox.rows(LEDGER).items()}
            hops = {name: int(row["hops"]) for name, row in sandbox.rows(ROUNDS).items()}
    sent = len(asked.sends) * EVERY // 1000
    refused, chain = world.weather.refused, _longest_chain(world)
    outages = _outages(world)
    return Day(
        *(outcome, told.calls, told.came_again, refused, sent, told.drained),
        *(outages, entries, booked, feed.rounds, hops, chain),
    )


def _outages(world: World) -> list[Outage]:
    return [
        Outage((layer.begins - START) / 1000, (layer.ends - START) / 1000, getattr(layer, "service", "functions"))
        for layer in world.weather.layers
        if isinstance(layer, Away | Throttled)
    ]


def _longest_chain(world: World) -> int:
    return max((layer.longest for layer in world.weather.layers if isinstance(layer, Loops)), default=0)


@contextmanager
def _longer_waits() -> Iterator[None]:
    known = waits_flow.WITHIN
    waits_flow.WITHIN = WITHIN  # type: ignore[misc]  # seconds elsewhere, where they are real
    try:
        yield
    finally:
        waits_flow.WITHIN = known  # type: ignore[misc]  # put back


@dataclass(frozen=True)
class _Outside:
    """Who answers what is asked, and takes what is sent to nobody. No weather meets either."""

    party: Party
    postman: Postman

    def come(self) -> None:
        self.party.answer()
        self.postman.collect()


class _Feeds:
    """What is sent in each second: a request, and now and then an entry of the ledger."""

    def __init__(self, sender: Sender, sends: Sequence[Asked], entries: Mapping[str, Entry]) -> None:
        self._sender = sender
        self._feed = Feed(sender, ())
        self._sends = sends
        self._entries = list(entries.items())
        self.rounds: list[str] = []

    def seconds(self) -> Iterator[tuple[int, list[Asked]]]:
        for second, chunk in groupby(enumerate(self._sends), lambda one: one[0] * EVERY // 1000):
            yield second, [asked for _, asked in chunk]

    def send(self, chunk: Sequence[Asked], second: int) -> None:
        self._feed.send(chunk)
        if second % ENTRIES == 0 and self._entries:
            request_id, entry = self._entries.pop(0)
            assert not self._sender.send([ledger.send(request_id, entry, START + second * 1000)])
        if second % A_ROUND == 0:
            self.rounds.append(f"round-{second}")
            assert not self._sender.send([rounds.send(self.rounds[-1], START + second * 1000)])


def _played(world: World, feed: _Feeds, outside: _Outside) -> Iterator[Delivered]:
    """Deliver until nothing is left. Whoever is outside comes once a second while something is delivered."""
    for second, chunk in feed.seconds():
        while (row := world.step(START + second * 1000)) is not None:
            yield row
        world.clock.move_to(START + second * 1000)
        outside.come()
        feed.send(chunk, second)
    left = True
    while left:
        left, second = False, world.clock.now() // 1000
        while (row := world.step()) is not None and world.clock.now() // 1000 == second:
            left = True
            yield row
        if row is not None:
            left = True
            yield row
        outside.come()


@dataclass
class _Told:
    """The journal of the one worker, and its deaths: the same for the same seed."""

    odds: Odds
    lines: list[Line] = field(default_factory=list)
    calls: Counter[int] = field(default_factory=Counter)
    came_again: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    drained: int = 0
    clock: VirtualTime = field(init=False)
    _acked: set[str] = field(default_factory=set)
    _sent_back: dict[str, tuple[int, int]] = field(default_factory=dict)
    _refused: int = 0
    _batch: int = 0
    _worker: str = "worker"

    def passed(self, point: Point, delivery: Delivery, message: Message | None) -> None:
        self._worker = GIVEN_UP_WORKER if delivery.from_dlq else "worker"
        is_entry = message is not None and message.flow in NOT_TOLD
        if point is Point.BEFORE_CLAIM and message is not None and not is_entry:
            self._received(delivery, message)
        draw = random.Random(f"{self.odds.seed} {delivery.message_id} {delivery.receives}")
        if draw.random() < self.odds.kill and draw.choice(list(Point)) is point:
            if not is_entry:
                self._write("killed", point=point.value)
            raise Died(point)

    def happened(self, event: Event) -> None:
        fields = event.fields()
        if fields.get("flow") in NOT_TOLD:
            return
        self._write(fields.pop("event"), **fields)

    def delivered(self, row: Delivered, refused: int) -> None:
        second = (row.at - START) // 1000
        self.calls[second] += row.calls
        if (before := self._sent_back.pop(row.record, None)) is not None:
            self.came_again[before].append(second)
        if row.flow == Orders.name and row.outcome in ("completed", "failed"):
            self.drained = second
        if row.record in self._acked and row.flow not in NOT_TOLD:
            self._write("fault", how="copied", operation="by SQS", requests=[row.request_id])
        if row.acked:
            self._acked.add(row.record)
        if refused > self._refused:
            if not row.acked and row.flow not in NOT_TOLD:
                self._sent_back[row.record] = second, row.receive
            about = [] if row.request_id is None else [row.request_id]
            self._write("fault", how="refused", operation="by the weather", requests=about)
        self._refused = refused

    def _received(self, delivery: Delivery, message: Message) -> None:
        self._batch += 1
        sent_at = delivery.envelope.sent_at
        waited = self.clock.now() - sent_at if sent_at is not None else 0
        place = json.dumps({"hop": message.hop, "retry": message.retry})
        about: dict[str, Any] = {"batch": f"{self._batch}", "request_id": message.request_id, "cpu": 0.0}
        self._write("received", place=place, receives=delivery.receives, waited=waited, **about)

    def _write(self, what: str, **facts: Any) -> None:
        self.lines.append({"what": what, "worker": self._worker, **facts})
