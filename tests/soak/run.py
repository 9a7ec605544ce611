"""One soak, from empty tables to its outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.engines.polling import comes_true
from tests.soak.flow import ACCOUNTS, DEAD, EFFECTS, EMAILS, GIVEN_UP, INBOX, TOLD, Order, Soak
from tests.soak.ground import Ground
from tests.soak.journal import read_journal
from tests.soak.orders import Odds, orders
from tests.soak.outcome import Outcome
from tests.soak.workers import Workers, workers_on

FLOW = "tests.soak.flow:Soak"
VISIBILITY, TIMEOUT = 5, 4
"""Seconds: a record is seen again only when the invocation that had it is over."""


class NotDrained(Exception):
    """Messages were still under way when the time was up."""


def soak(ground: Ground, journal: Path, messages: int, workers: int, odds: Odds, limit: float = 600) -> Outcome:
    """Sends everything, works until nothing is left, and reads what there is. ``limit`` is in seconds."""
    prepare(ground)
    asked = orders(messages, odds)
    began = time.monotonic()
    with workers_on(ground, journal) as pool:
        fate = ("--timeout", str(TIMEOUT), "--kill", str(odds.kill), "--seed", str(odds.seed))
        for number in range(workers):
            pool.start(f"worker-{number}", FLOW, INBOX, *fate)
        pool.start("given-up", FLOW, GIVEN_UP, "--given-up", *fate)
        _send(ground, asked)
        if not comes_true(lambda: _drained(ground, pool), limit, every=0.25):
            raise NotDrained(f"{ground.waiting(INBOX)} messages are left after {limit} s")
    return Outcome.read(ground, asked, read_journal(journal), time.monotonic() - began)


def prepare(ground: Ground) -> None:
    ground.create_tables(ACCOUNTS, EFFECTS)
    for queue in (GIVEN_UP, DEAD, TOLD, EMAILS):
        ground.create_queue(queue, visibility=VISIBILITY)
    ground.create_queue(INBOX, visibility=VISIBILITY, given_up_to=GIVEN_UP, max_receives=3)


def _send(ground: Ground, asked: Mapping[str, Order]) -> None:
    with ThreadPoolExecutor(4) as senders:
        for _ in senders.map(lambda one: ground.client.start(Soak, one[1], request_id=one[0]), asked.items()):
            pass


def _drained(ground: Ground, pool: Workers) -> bool:
    """Nothing in any of the flow's queues: in the order in which messages go, and once more to be sure."""
    pool.tend()
    return not any(ground.waiting(queue) for queue in (INBOX, GIVEN_UP, INBOX))
