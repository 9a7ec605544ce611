"""One soak, from empty tables to its outcome."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.engines.polling import comes_true
from tests.proofs.soak.chronicle import GIVEN_UP_WORKER, Chronicle
from tests.proofs.soak.feed import Feed
from tests.proofs.soak.journal import Journal, last_lines, read_journal
from tests.proofs.soak.mail import Postman
from tests.proofs.soak.odds import Odds
from tests.proofs.soak.orders import requests as order_requests
from tests.proofs.soak.outcome import Outcome
from tests.proofs.soak.pages import requests as page_requests
from tests.proofs.soak.places import (
    ACCOUNTS,
    ANSWERED,
    ASKED,
    DEAD,
    EFFECTS,
    GIVEN_UP,
    INBOX,
    MAX_RECEIVES,
    NEWS,
    PAGES,
    PATIENCE,
    TIMEOUT,
    TOLD,
    VISIBILITY,
)
from tests.proofs.soak.request import Requests
from tests.proofs.soak.sandbox import Sandbox
from tests.proofs.soak.waits import requests as wait_requests
from tests.proofs.soak.waits.insider import Insider
from tests.proofs.soak.waits.party import Party
from tests.proofs.soak.workers import Workers, workers_on

ORDERS_FLOW = "tests.proofs.soak.orders.flow:Orders"
OTHER_FLOWS = (
    "tests.proofs.soak.pages.flow:Pages",
    "tests.proofs.soak.waits.flow:Waits",
    "tests.proofs.soak.waits.flow:Stock",
)
WAITS = 10
"""One of so many requests waits: each takes as many messages as five others."""


WAY = (INBOX, GIVEN_UP, ASKED, ANSWERED)
"""The flows' queues in the order in which messages go."""


class NotDrained(Exception):
    """Messages were still under way when the time was up."""


def soak(
    sandbox: Sandbox, journal: Path, messages: int, workers: int, odds: Odds, limit: float = 1_800, *more: str
) -> Outcome:
    """Sends everything, works until nothing is left, and reads what there is.

    ``limit`` is in seconds; ``more`` are further arguments of the workers.
    """
    sandbox = replace(sandbox, signed=True)
    prepare(sandbox)
    asked = requests(messages, odds)
    began = time.monotonic()
    postman = Postman(sandbox)
    with workers_on(sandbox, journal) as pool:
        flows = [word for flow in OTHER_FLOWS for word in ("--flow", flow)]
        about = ("--timeout", str(TIMEOUT), "--signed", "--patience", str(PATIENCE))
        all_of_them = (*flows, *about, *odds.arguments(), *more)
        for number in range(workers):
            shared = ("--together",) if number % 2 else ()
            pool.start(f"worker-{number}", ORDERS_FLOW, INBOX, *all_of_them, *shared)
        pool.start(GIVEN_UP_WORKER, ORDERS_FLOW, GIVEN_UP, "--dlq", *all_of_them)
        pool.start("callbacks", ORDERS_FLOW, ANSWERED, "--callbacks", *all_of_them)
        insider = Insider(sandbox, odds.forge, odds.seed)
        party = Party(sandbox, odds.seed, insider.hear)
        feed = Feed(sandbox.services().sender, asked.sends)
        reaper = Reaper(pool, Journal(journal, "reaper"), odds)
        if not comes_true(lambda: _round(sandbox, pool, feed, postman, party, reaper), limit, every=0.1):
            raise NotDrained(_left(sandbox, journal, limit))
    seconds = time.monotonic() - began
    told = Chronicle.of(read_journal(journal))
    return Outcome.read(sandbox, asked, postman.mail(), told, seconds, party.resumed, insider.sent)


def requests(messages: int, odds: Odds) -> Requests:
    """A tenth of them wait; of the others half are orders, half for pages."""
    waits = wait_requests.waits(messages // WAITS, odds)
    rest = messages - len(waits)
    orders = order_requests.orders(rest // 2, odds)
    pages = page_requests.page_requests(rest - rest // 2, odds)
    sends = [*order_requests.sent(orders), *page_requests.sent(pages, odds), *wait_requests.sent(waits)]
    return Requests(orders, pages, waits, sorted(sends, key=lambda one: one.position))


def prepare(sandbox: Sandbox) -> None:
    sandbox.create_tables(ACCOUNTS, PAGES, EFFECTS)
    for queue in (GIVEN_UP, DEAD, TOLD, NEWS, ASKED, ANSWERED):
        sandbox.create_queue(queue, visibility=VISIBILITY)
    sandbox.create_queue(INBOX, visibility=VISIBILITY, dead_letters_to=GIVEN_UP, max_receives=MAX_RECEIVES)


@dataclass
class Reaper:
    """Kills a worker now and then from outside, wherever it is: between any two instructions, idle ones too."""

    workers: Workers
    journal: Journal
    odds: Odds
    clock: Callable[[], float] = time.monotonic
    _draw: random.Random = field(init=False)
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        self._draw = random.Random(f"{self.odds.seed} reaper")
        self._next = self.clock() + self._pause()

    def come(self) -> None:
        if self.clock() < self._next:
            return
        self._next = self.clock() + self._pause()
        name = self._draw.choice(self.workers.names)
        if self.workers.kill(name):
            self.journal.write("killed", point="anywhere", of=name)

    def _pause(self) -> float:
        return self._draw.expovariate(1 / self.odds.strike) if self.odds.strike else float("inf")


def _left(sandbox: Sandbox, journal: Path, limit: float) -> str:
    """Where messages are left, and what workers did last: that is about those, for all others are done."""
    queues = (f"  {queue}: {sandbox.counts(queue)}" for queue in WAY if sandbox.waiting(queue))
    return "\n".join([f"messages are left after {limit} s:", *queues, *last_lines(journal, 20)])


def _round(sandbox: Sandbox, pool: Workers, feed: Feed, postman: Postman, party: Party, reaper: Reaper) -> bool:
    """True when nothing is left in any of the flows' queues: in the order in which messages go, and once more."""
    reaper.come()
    pool.tend()
    feed.more(sandbox.waiting(INBOX))
    postman.collect()
    party.answer()
    return feed.is_over and not any(sandbox.waiting(queue) for queue in (*WAY, *WAY))
