"""After a bad day every accepted request has ended as it would have ended on a good one."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, NamedTuple

import pytest

from flowguard.deploy.queue_plan import times_of
from flowguard.errors import Reject
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Outcome
from flowguard.sim.calls import ApiCall
from flowguard.sim.delivered import Delivered
from flowguard.sim.final_state import FinalState
from flowguard.sim.limits.fault import Fault
from flowguard.sim.weather.away import Away
from flowguard.sim.weather.layer import Layer
from flowguard.sim.weather.throttled import Throttled
from flowguard.sim.weather.weather import Weather
from flowguard.sim.world import START
from flowguard.stage import Stage
from flowguard.step import Step
from tests.sim.weather.shop import Hurried, Orders, Priced, Take, Undo, put_orders, world

RUNS = 100

MOST_A_SECOND = RUNS // 5
"""Deliveries in any second after an outage. The world makes fifty where all records come at once."""


class Day(NamedTuple):
    """What a day came to."""

    rows: list[Delivered]
    state: FinalState
    refused: int
    expired: int

    @property
    def ends(self) -> Counter[tuple[str, str]]:
        return Counter((run.flow, run.status) for run in self.state.runs)

    def busiest_second(self, since: int) -> int:
        """The most deliveries of one second, ``since`` so many ms after the day began."""
        seconds = Counter(row.at // 1000 for row in self.rows if row.at >= START + since)
        return max(seconds.values(), default=0)


def played(weather: str, runs: int = RUNS, seed: int = 0, orders: AnyFlow = Orders, *, kept: bool = False) -> Day:
    """Play a day on the queues of a template, or on some that keep every record until somebody takes it."""
    with world(weather, seed=seed, orders=orders, times=None if kept else times_of([orders])) as opened:
        put_orders(opened, runs)
        rows = list(opened.run())
        return Day(rows, FinalState.of(opened), opened.weather.refused, len(opened.source.expired))


@functools.cache
def good_day(runs: int) -> Day:
    """Play a day on which nothing happens once for all tests that compare with it."""
    return played("", runs)


def effects(day: Day) -> dict[str, object]:
    """What is in the tables and queues that the shop's stages write to."""
    return {"tables": day.state.tables, "queues": day.state.queues}


@pytest.mark.proof("plays a hundred runs of a good and of a bad day")
def test_after_an_hour_without_the_database_every_run_has_ended_as_on_a_good_day() -> None:
    good, day = played(""), played("dynamodb-away=60m")
    assert day.refused > RUNS
    assert day.ends == {("orders", "COMPLETED"): RUNS, ("prices", "COMPLETED"): RUNS} == good.ends
    assert effects(day) == effects(good)
    assert day.busiest_second(since=60 * 60_000) <= MOST_A_SECOND


FEW = 10


def proof(*weather: str) -> list[Any]:
    """Return what is no test for each change: a kind of weather that another one of the list has at another length."""
    return [pytest.param(kind, marks=pytest.mark.proof("plays ten runs once more")) for kind in weather]


@pytest.mark.slow("plays ten runs of a bad day")
@pytest.mark.parametrize(
    "weather",
    [
        "dynamodb-away=60m@1s",
        "sqs-away=60m",
        "new-permissions=5m",
        "pollers,throttled=20m",
        "ssm-away=3h@1s",
        *proof("dynamodb-away=25m", "dynamodb-away=3h", "dynamodb-away=1d", "dynamodb-away=3d", "dynamodb-away=2d@1s"),
        *proof("dynamodb-away=25m,late-copies=2h", "throttled=1h", "ssm-away=3h"),
    ],
)
def test_after_a_bad_day_every_run_has_ended_as_on_a_good_one(weather: str) -> None:
    good, day = good_day(FEW), played(weather, FEW)
    assert len(day.rows) > len(good.rows) or "sqs-away" in weather
    assert day.ends == {("orders", "COMPLETED"): FEW, ("prices", "COMPLETED"): FEW}
    assert effects(day) == effects(good)


@pytest.mark.proof("plays days without a service")
@pytest.mark.parametrize("span", ["6d", "11d"])
@pytest.mark.parametrize("what", ["dynamodb-away", "ssm-away", "sqs-away", "throttled"])
def test_an_outage_of_any_length_that_the_queues_of_a_template_outlast_changes_no_end(what: str, span: str) -> None:
    day = played(f"{what}={span}", runs=3)
    assert day.ends == {("orders", "COMPLETED"): 3, ("prices", "COMPLETED"): 3}
    assert (day.expired, len(day.state.dead_letters)) == (0, 0)


@pytest.mark.slow("plays bad days")
def test_what_an_outage_outlasts_is_a_dead_letter_before_its_queue_deletes_it() -> None:
    day = played("dynamodb-away=20d", runs=3)
    assert (day.expired, len(day.state.dead_letters), day.ends) == (0, 3, {})


def test_without_the_service_that_keeps_the_keys_functions_hand_their_records_back() -> None:
    day = played("ssm-away=60m", runs=5)
    assert day.refused > 0
    assert min(row.at for row in day.rows if row.acked) >= START + 60 * 60_000


def test_an_outage_that_is_longer_than_the_retention_ends_each_run_with_an_error_that_says_so() -> None:
    shorter, longer = (played(f"throttled={span}", runs=5, orders=Hurried, kept=True) for span in ("55m", "90m"))
    assert shorter.ends == {("orders", "COMPLETED"): 5, ("prices", "COMPLETED"): 5}
    assert longer.ends == {("orders", "FAILED"): 5}
    assert {str(run.error).partition(" of ")[0] for run in longer.state.runs} == {
        "RunFailed: an outage has outlasted the flow's retention"
    }
    assert len(longer.state.dead_letters) == 5


def test_a_second_bad_day_with_the_same_seed_is_the_same() -> None:
    first, second = (played("dynamodb-away=25m,late-copies", runs=5) for _ in range(2))
    assert [row.as_json() for row in first.rows] == [row.as_json() for row in second.rows]


class Refusing(Stage[Priced], name="ship"):
    def handle(self, priced: Priced, step: Step[Any]) -> Outcome:
        raise Reject("out of stock")


class Unshipped(Flow, name="orders", object_id="id", on_failed=Undo):
    stages = (Take, Refusing, Undo)


def test_a_stage_that_rejects_what_it_waited_for_is_undone() -> None:
    day = played("", 3, orders=Unshipped)
    assert day.ends == {("orders", "FAILED"): 3, ("prices", "COMPLETED"): 3}
    assert len(day.state.tables["undone"]) == 3


class Denying(Layer):
    """Denies an operation for some ms, from its first call on."""

    def __init__(self, operation: str, span: int) -> None:
        self.operation, self.span, self.first, self.denied = operation, span, 0, 0

    def refusal(self, call: ApiCall, now: int) -> Fault | None:
        if call.operation != self.operation:
            return None
        self.first = self.first or now
        if now >= self.first + self.span:
            return None
        self.denied += 1
        code = "AccessDeniedException" if call.service == "dynamodb" else "AccessDenied"
        return Fault(code, "no identity-based policy allows it", status=403)


@pytest.mark.parametrize("before", [Throttled(START, START + 20 * 60_000), Away("dynamodb", START, START + 600_000)])
@pytest.mark.parametrize("operation", ["TransactWriteItems", "SendMessageBatch"])
@pytest.mark.parametrize("span", [1_000, 30_000])
def test_a_moment_of_denial_after_a_bad_hour_ends_no_run(
    before: Layer, operation: str, span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of the backlog have been received often by then, for something else."""
    denying = Denying(operation, span)
    monkeypatch.setattr("flowguard.sim.world.forecast", lambda _, clock, **__: Weather([before, denying], clock))
    day = played("", 5)
    assert denying.denied
    assert day.ends == {("orders", "COMPLETED"): 5, ("prices", "COMPLETED"): 5}
    assert not day.state.dead_letters
