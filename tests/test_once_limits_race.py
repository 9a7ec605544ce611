"""Threads that call one function under ``@once`` with limits, some of which die: never more at work than may."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple

import pytest

from flowguard import PerKey, once
from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.clock import SystemClock
from flowguard.errors import InProgress, LimitReached
from flowguard.events import Tally
from flowguard.names.ids import RandomIds
from flowguard.once_function import OnceServices
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from tests.aws.engines import on_dynamodb_local, on_memory

MOST: Final = 3
THREADS: Final = 8
LEASE: Final = timedelta(seconds=2)
IN_A_WHILE: Final = timedelta(seconds=2)
BEGIN: Final = 12
PLACES: Final = (
    PerKey("merchant", at_once=MOST),
    PerKey("merchant", per=IN_A_WHILE, count=BEGIN, name="rate"),
)


class Died(BaseException):
    """The thread is gone, and calls nothing any more."""


class Kills:
    """Ends threads before or after calls, by chance. What such a thread calls afterwards never leaves it."""

    def __init__(self, odds: float) -> None:
        self._odds = odds
        self._draw = random.Random(7)
        self._dead = threading.local()
        self.killed = 0

    def revive(self) -> None:
        self._dead.yes = False

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if getattr(self._dead, "yes", False):
            raise Died
        draw = self._draw.random()
        if draw > self._odds:
            return proceed()
        if draw > self._odds / 2:
            proceed()
        self._dead.yes = True
        self.killed += 1
        raise Died


class Work(NamedTuple):
    """A function that was at work, and until when nobody may take its place: its end, or that of its lease (s)."""

    began: float
    until: float


@contextmanager
def engine(name: str, url: str) -> Iterator[Clients]:
    if name == "memory":
        with on_memory() as clients:
            yield clients
    else:
        yield on_dynamodb_local(url)


def race(clients: Clients, calls: int, odds: float, limits: tuple[PerKey, ...] = PLACES) -> tuple[list[Work], Kills]:
    """Return who was at work. The calls are those of one merchant; each is made until it has an answer."""
    work, kills, effects = list[Work](), Kills(odds), list[str]()

    @once("charge", key="order_id", limit=limits, lease=LEASE)
    def charge(order: dict[str, Any]) -> str:
        began = time.monotonic()
        effects.append(order["order_id"])
        time.sleep(0.02)
        work.append(Work(began, time.monotonic()))
        return "charged"

    services = OnceServices(ledger_of(Settings(), clients), SystemClock(), RandomIds(), Tally())
    guarded = charge.using(services)

    def until_answered(number: int) -> None:
        while True:
            kills.revive()
            with suppress(Died, InProgress, LimitReached):
                assert guarded({"order_id": f"o-{number}", "merchant": "m"}) == "charged"
                return
            time.sleep(0.03)

    with intercept(kills), ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(until_answered, range(calls)))
    assert {f"o-{number}" for number in range(calls)} == set(effects)
    return work, kills


def at_work(work: list[Work]) -> int:
    return max(sum(other.began <= one.began < other.until for other in work) for one in work)


def begun_in(work: list[Work], span: timedelta) -> int:
    return max(sum(0 <= one.began - other.began < span.total_seconds() for other in work) for one in work)


@pytest.mark.parametrize("name", ["memory", "dynamodb-local"])
@pytest.mark.slow("threads that call for seconds")
def test_of_many_threads_never_more_are_at_work_nor_begin_than_may(name: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("dynamodb_local_url") if name == "dynamodb-local" else ""
    with engine(name, url) as clients:
        work, _ = race(clients, 40, odds=0.01)
    assert at_work(work) <= MOST
    assert begun_in(work, IN_A_WHILE) <= BEGIN
    assert at_work(work) > 1, "it shows nothing"


@pytest.mark.slow("threads that call for seconds, and the leases of those that died")
def test_with_many_deaths_never_more_are_at_work_than_may_and_each_call_has_its_answer() -> None:
    with on_memory() as clients, intercept(calls := Recorder()):
        work, kills = race(clients, 24, odds=0.05, limits=PLACES[:1])
    assert at_work(work) <= MOST
    assert {call.operation for call in calls.calls} == {"UpdateItem", "PutItem"}, "what its role may do"
    assert kills.killed > 3, "it shows nothing"


@pytest.mark.slow("threads that call for a second")
def test_without_a_limit_the_race_notices() -> None:
    with on_memory() as clients:
        work, _ = race(clients, 40, odds=0, limits=(PerKey("order_id", at_once=1),))
    assert at_work(work) > MOST
    assert begun_in(work, IN_A_WHILE) > BEGIN
