"""A bad day that begins at each call: each run ends as without it, and the explorer notices one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.sim.weather import forecast
from flowguard.sim.weather.forecast import KINDS
from flowguard.testing.explorer import Report, UnmetSchedule, explore, replay
from flowguard.testing.explorer.record.schedule import OF_WEATHER, Schedule
from flowguard.testing.explorer.run import driver
from tests.sim.weather.shop import TABLES, Hurried, Order, Orders, Prices

ORDER = Order(id="o1")
ONLY_WEATHER: dict[str, Any] = {"tables": TABLES, "bound": 0, "walks": 0, "for_good": False}


def of_weather(report: Report) -> set[str]:
    """The promises that schedules of the weather break."""
    return {
        problem.rule
        for one in report.violations
        if Schedule.parse(one.schedule).has(OF_WEATHER)
        for problem in one.problems
    }


@pytest.fixture(autouse=True)
def _only_weather(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the other single faults to the other tests."""
    from flowguard.testing.explorer.search import next_schedules

    monkeypatch.setattr(next_schedules, "choices_in", lambda *_, **__: iter(()))
    monkeypatch.setattr(next_schedules, "lasting", lambda *_: iter(()))
    monkeypatch.setattr(next_schedules, "insiders", lambda *_: iter(()))


@pytest.mark.proof("explores flows")
@pytest.mark.parametrize("weather", [*KINDS, "dynamodb-away=2d", "hot-items=3", "throttled=40m,late-copies"])
def test_whenever_the_weather_begins_each_run_ends_as_without_it(weather: str) -> None:
    clear = explore([Orders, Prices], [ORDER], **ONLY_WEATHER)
    report = explore([Orders, Prices], [ORDER], weather=weather, **ONLY_WEATHER)
    assert report.ok, str(report)
    assert report.schedules - clear.schedules > 10


@pytest.mark.proof("a run stands still for as long as its queues keep messages, from each call on")
def test_with_fewer_writes_than_a_weather_may_say_runs_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "LEAST_WRITES", 2)
    assert of_weather(explore([Orders, Prices], [ORDER], weather="hot-items=2", **ONLY_WEATHER))


@pytest.mark.slow("explores flows and handlers")
def test_a_run_that_an_outage_has_ended_breaks_i20() -> None:
    report = explore([Hurried, Prices], [ORDER], weather="throttled=90m", **ONLY_WEATHER)
    assert "I20" in of_weather(report)


@pytest.mark.slow("explores flows and handlers")
def test_a_run_that_does_not_go_on_after_an_outage_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MANY_RECEIVES", 3)
    assert of_weather(explore([Orders, Prices], [ORDER], weather="dynamodb-away=60m", **ONLY_WEATHER))


def test_a_schedule_of_the_weather_is_replayed_by_its_id() -> None:
    trace = replay([Orders, Prices], [ORDER], "w3", tables=TABLES, weather="dynamodb-away=60m")
    assert trace.violations == ()
    assert any("the weather begins: dynamodb-away=60m" in line for line in trace.timeline)
    with pytest.raises(UnmetSchedule, match="w99 of the schedule 'w99' changes nothing: the run has"):
        replay([Orders, Prices], [ORDER], "w99", tables=TABLES, weather="dynamodb-away=60m")
    with pytest.raises(SettingsError, match="the schedule 'w3' has some; say which"):
        replay([Orders, Prices], [ORDER], "w3", tables=TABLES)


@pytest.mark.parametrize("weather", ["rain", 5])
def test_what_is_no_weather_is_refused(weather: Any) -> None:
    with pytest.raises(SettingsError, match="weather"):
        explore([Orders, Prices], [ORDER], weather=weather, **ONLY_WEATHER)
