"""Threads that call one function under ``@once`` with limits, some of which die: never more at work than may."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple

import pytest

from flowguard import PerKey, once
from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.clock import ManualClock
from flowguard.errors import InProgress, LimitReached, ResultUnsaved
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
_MS: Final = timedelta(milliseconds=1)
BEGIN: Final = 12
PLACES: Final = (
    PerKey("merchant", at_once=MOST),
    PerKey("merchant", per=IN_A_WHILE, count=BEGIN, name="rate"),
)


class Died(BaseException):
    """The thread is gone, and calls nothing any more."""


CALL: Final = 5
"""ms that a call takes by the clock that all threads share. Nothing else moves it, so nobody waits."""


class Kills:
    """Ends threads before or after calls, by chance. What such a thread calls afterwards never leaves it."""

    def __init__(self, odds: float, clock: ManualClock) -> None:
        self._odds = odds
        self._clock = clock
        self._moves = threading.Lock()
        self._draw = random.Random(7)
        self._dead = threading.local()
        self.killed = 0

    def revive(self) -> None:
        self._dead.yes = False

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if getattr(self._dead, "yes", False):
            raise Died
        with self._moves:
            self._clock.advance(ms=CALL)
        draw = self._draw.random()
        if draw > self._odds:
            return proceed()
        if draw > self._odds / 2:
            proceed()
        self._dead.yes = True
        self.killed += 1
        raise Died


class Work(NamedTuple):
    """A function that was at work from ``began`` to ``until`` (ms): its end, or that of its lease."""

    began: int
    until: int


@contextmanager
def engine(name: str, url: str) -> Iterator[Clients]:
    if name == "memory":
        with on_memory() as clients:
            yield clients
    else:
        yield on_dynamodb_local(url)


@contextmanager
def switching_often() -> Iterator[None]:
    """Let threads take turns within a function's calls, which take microseconds in memory."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def race(clients: Clients, calls: int, odds: float, limits: tuple[PerKey, ...] = PLACES) -> tuple[list[Work], Kills]:
    """Return who was at work. The calls are those of one merchant; each is made until it has an answer."""
    work, effects, clock = list[Work](), list[str](), ManualClock()
    kills = Kills(odds, clock)

    @once("charge", key="order_id", limit=limits, lease=LEASE)
    def charge(order: dict[str, Any]) -> str:
        began = clock.now()
        effects.append(order["order_id"])
        try:
            for _ in range(4):  # calls, in which other threads go on
                guarded.read(order["order_id"])
        finally:
            work.append(Work(began, min(clock.now(), began + LEASE // _MS)))
        return "charged"

    services = OnceServices(ledger_of(Settings(), clients), clock, RandomIds(), Tally())
    guarded = charge.using(services)

    def until_answered(number: int) -> None:
        while True:
            kills.revive()
            with suppress(Died, InProgress, LimitReached, ResultUnsaved):
                assert guarded({"order_id": f"o-{number}", "merchant": "m"}) == "charged"
                return

    with intercept(kills), ThreadPoolExecutor(THREADS) as pool, switching_often():
        list(pool.map(until_answered, range(calls)))
    assert {f"o-{number}" for number in range(calls)} == set(effects)
    return work, kills


def at_work(work: list[Work]) -> int:
    return max(sum(other.began <= one.began < other.until for other in work) for one in work)


def begun_in(work: list[Work], span: timedelta) -> int:
    return max(sum(0 <= one.began - other.began < span // _MS for other in work) for one in work)


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("memory", PLACES),
        # a thread that this engine keeps waiting is held up by the others' clock, as no function is by its own
        ("dynamodb-local", PLACES[:1]),
    ],
)
@pytest.mark.slow("threads that call again and again")
def test_of_many_threads_never_more_are_at_work_nor_begin_than_may(
    name: str, limits: tuple[PerKey, ...], request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("dynamodb_local_url") if name == "dynamodb-local" else ""
    with engine(name, url) as clients:
        work, _ = race(clients, 40, odds=0.01, limits=limits)
    assert at_work(work) <= MOST
    assert len(limits) == 1 or begun_in(work, IN_A_WHILE) <= BEGIN
    assert at_work(work) > 1, "it shows nothing"


@pytest.mark.slow("threads that call until the leases of those that died are over")
def test_with_many_deaths_never_more_are_at_work_than_may_and_each_call_has_its_answer() -> None:
    with on_memory() as clients, intercept(calls := Recorder()):
        work, kills = race(clients, 24, odds=0.05, limits=PLACES[:1])
    assert at_work(work) <= MOST
    assert {call.operation for call in calls.calls} == {"UpdateItem", "PutItem", "GetItem"}, "and no more"
    assert kills.killed > 3, "it shows nothing"


@pytest.mark.slow("threads that call again and again")
def test_without_a_limit_the_race_notices() -> None:
    with on_memory() as clients:
        work, _ = race(clients, 40, odds=0, limits=(PerKey("order_id", at_once=1),))
    assert at_work(work) > MOST
    assert begun_in(work, IN_A_WHILE) > BEGIN
