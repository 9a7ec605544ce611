"""A soak through outages of an hour, and that its sums notice a pause that is wrong, and each other thing they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from flowguard.protocol.run import Status
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.loops import MOST_IN_CHAIN
from flowguard.worker import patience
from tests.proofs.soak.check import Check
from tests.proofs.soak.mail import Told
from tests.proofs.soak.mutants import MUTANTS
from tests.proofs.soak.odds import Odds
from tests.proofs.soak.outcome import GIVEN_UP
from tests.proofs.soak.reconcile import reconcile
from tests.proofs.soak.weather_sums import together_of, weather_sums
from tests.proofs.soak.weathered import Day, weathered_soak

AT_ONCE = "sqs-away=30s@20s,dynamodb-away=60m@50s"
"""What SQS keeps for half a minute comes at once, and meets a database that is away."""

FEW, MANY = 100, 300


def soaked(weather: str, messages: int = FEW) -> Day:
    return weathered_soak(weather, messages, Odds(seed=6))


def broken(day: Day) -> list[Check]:
    return [check for check in (*reconcile(day.outcome), *weather_sums(day)) if not check.holds]


def names(checks: list[Check]) -> str:
    return "\n".join(check.name for check in checks)


@pytest.fixture(scope="module")
def day() -> Day:
    """A day with a short outage: a sum notices what is done to a day, whatever else there was in it."""
    return soaked(AT_ONCE.replace("60m", "10m"), 60)


@pytest.mark.proof("sends a hundred requests into an outage of an hour")
def test_after_an_hour_without_the_database_all_ends_as_it_would_have_ended() -> None:
    day = soaked(AT_ONCE)
    assert broken(day) == []
    assert day.refused > 10 * FEW
    assert together_of(day)[1] > 10 * FEW, "few were sent back together: it shows nothing"
    told = day.outcome.chronicle
    assert told.points, "nobody died: it shows nothing"
    assert day.outcome.failed(), "nothing was rejected: it shows nothing"
    assert told.what["took_over"] + told.what["stale"], "no request met another: it shows nothing"
    assert told.answered["RESUMED"], "no answer ended a wait: it shows nothing"


@pytest.mark.slow("sends requests into an outage")
@pytest.mark.parametrize(
    ("messages", "minutes"),
    [
        pytest.param(FEW, 60, marks=pytest.mark.slow("sends a hundred requests into an outage of an hour")),
        pytest.param(500, 10, marks=pytest.mark.long("sends as many as the soak of `make prove`")),
    ],
)
def test_records_that_come_again_together_are_noticed(
    monkeypatch: pytest.MonkeyPatch, messages: int, minutes: int
) -> None:
    monkeypatch.setattr(patience, "_JITTER", patience._JITTER)  # put back at the end
    MUTANTS["pauses-are-not-drawn"]()
    assert "was sent back together does not come again together" in names(
        broken(soaked(AT_ONCE.replace("60m", f"{minutes}m"), messages))
    )


@pytest.mark.long("repeats in an hour of records what a mutant of the group shows in its tests")
def test_a_group_that_does_not_wait_for_its_first_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Delivery, "group", property(lambda self: None))
    assert "ledger: no account has an entry before an earlier one of its group" in names(broken(soaked(AT_ONCE)))


@pytest.mark.proof("sends a hundred requests")
def test_long_chains_and_hot_items_change_no_end() -> None:
    day = soaked("hot-items=4,loops-allowed")
    assert broken(day) == []
    assert day.refused, "no item was written too often: it shows nothing"
    assert day.longest_chain > MOST_IN_CHAIN, "no chain was so long that Lambda stops it: it shows nothing"


@pytest.mark.long("repeats with less what the other chains show")
def test_chains_that_lambda_stops_are_noticed() -> None:
    assert "rounds: each run has its 20 hops" in names(broken(soaked("loops")))


@pytest.mark.long("repeats in an hour of records what a mutant of the pause shows in its tests")
def test_records_that_use_up_their_receives_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_GROWTH", patience._GROWTH)  # put back at the end
    MUTANTS["pauses-do-not-grow"]()
    assert "ledger: no account has an entry before an earlier one of its group" in names(broken(soaked(AT_ONCE)))


ANOTHER = pytest.mark.long("repeats the outage of an hour with other weather")


@pytest.mark.proof("sends a hundred requests into an outage of an hour")
@pytest.mark.parametrize(
    ("weather", "messages"),
    [
        pytest.param("dynamodb-away=60m@2m", MANY, marks=ANOTHER),
        pytest.param("sqs-away=60m@2m", MANY, marks=ANOTHER),
        pytest.param("throttled=45m@2m", MANY, marks=ANOTHER),
        pytest.param("dynamodb-away=2d@2m", MANY, marks=ANOTHER),
        pytest.param("dynamodb-away=60m@2m,hot-items=4,loops-allowed", MANY, marks=ANOTHER),
        pytest.param("pollers,throttled=60m@2m,late-copies=2h", MANY, marks=ANOTHER),
        pytest.param(
            "new-permissions=2m,sqs-away=1m@3m,dynamodb-away=60m@4m",
            MANY,
            marks=pytest.mark.long("the weather of the next, at three times the size"),
        ),
        ("new-permissions=40s,sqs-away=20s@60s,dynamodb-away=60m@80s", FEW),
    ],
)
def test_three_flows_reconcile_after_outages_of_an_hour(weather: str, messages: int) -> None:
    day = soaked(weather, messages)
    assert broken(day) == []
    assert day.refused > messages, "few calls were refused: it shows nothing"


# -- what each sum of the weather would notice


def gives_one_up(day: Day) -> Day:
    outcome = day.outcome
    told = Told("x", next(iter(outcome.orders)), Status.FAILED, GIVEN_UP)
    return replace(day, outcome=replace(outcome, mail=replace(outcome.mail, told=(*outcome.mail.told, told))))


def fails_one(day: Day) -> Day:
    outcome = day.outcome
    name, run = next((name, run) for name, run in outcome.order_runs.items() if run.status is Status.COMPLETED)
    runs = {**outcome.order_runs, name: run._replace(status=Status.FAILED)}
    return replace(day, outcome=replace(outcome, order_runs=runs))


def lets_one_time_out(day: Day) -> Day:
    name = next(name for name, stage in day.outcome.went_on.items() if stage == "settle")
    return replace(day, outcome=replace(day.outcome, went_on={**day.outcome.went_on, name: "late"}))


def books_one_twice(day: Day) -> Day:
    name, entries = next(iter(day.booked.items()))
    return replace(day, booked={**day.booked, name: [*entries, entries[-1]]})


def books_one_early(day: Day) -> Day:
    name, entries = next((name, entries) for name, entries in day.booked.items() if len(entries) > 1)
    return replace(day, booked={**day.booked, name: [*entries[1:], entries[0]]})


def books_one_less(day: Day) -> Day:
    name, entries = next(iter(day.booked.items()))
    return replace(day, booked={**day.booked, name: entries[1:]})


def works_all_at_once(day: Day) -> Day:
    return replace(day, calls=day.calls + Counter({int(day.ends): 1_000}))


def brings_them_together(day: Day) -> Day:
    return replace(day, came_again={group: [seconds[0]] * len(seconds) for group, seconds in day.came_again.items()})


def drains_for_hours(day: Day) -> Day:
    return replace(day, drained=int(day.ends) + 7_200)


@pytest.mark.slow("sends requests into an outage")
@pytest.mark.parametrize(
    ("spoil", "notices"),
    [
        (gives_one_up, "weather: none given up by SQS"),
        (fails_one, "weather: each order and wait has the end that it has without it"),
        (lets_one_time_out, "weather: each wait went on at the stage at which it does without it"),
        (books_one_twice, "ledger: each is booked once"),
        (books_one_early, "ledger: no account has an entry before an earlier one of its group"),
        (books_one_less, "ledger: each entry is booked, but those that failed by themselves"),
        (works_all_at_once, "weather: no second after it has 2 times the calls of any before"),
        (brings_them_together, "weather: what was sent back together does not come again together"),
        (drains_for_hours, "weather: the backlog was gone in time"),
    ],
)
def test_each_sum_of_the_weather_can_fail(day: Day, spoil: Callable[[Day], Day], notices: str) -> None:
    assert notices in names(broken(spoil(day)))
