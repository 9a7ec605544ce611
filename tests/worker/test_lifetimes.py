"""How long what a flow writes is needed, and that nothing shortens the life of what something still has to find."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard.errors import DefinitionError
from flowguard.flow import ATTACH, UNTIL_RESET, AnyFlow, Flow
from flowguard.operate.moments import iso
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.retry import Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.worker.lifetimes import LONGEST_WAIT, Lifetimes

NOW = 1_800_000_000_000
DAY = timedelta(days=1) // timedelta(milliseconds=1)
HELD_BACK = RetryPolicy(attempts=3, backoff=Fixed(10 * 86_400), max_delay=timedelta(days=10))


def flow(retry: RetryPolicy | None = None, **options: Any) -> AnyFlow:
    class Work(Stage[dict[str, Any]], name="work", retry=retry or RetryPolicy()):
        def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
            return Done()

    class Works(Flow, name="works", object_id="id", **options):
        stages = (Work,)

    return Works


def days(moment: int) -> float:
    return (moment - NOW) / DAY


@pytest.mark.parametrize(
    ("options", "lives"),
    [
        ({}, 28),
        ({"retention": timedelta(days=1)}, 2),
        ({"remember": timedelta(days=365)}, 365),
        ({"retention": timedelta(days=1), "remember": timedelta(days=2)}, 2),
        ({"long_delays": True}, 28 + 900 / 86_400),
        ({"long_delays": True, "retention": timedelta(days=1), "retry": HELD_BACK}, 2 + 10),
    ],
)
def test_a_run_item_outlives_copies_and_delayed_retries_and_is_remembered(options: Any, lives: float) -> None:
    lifetimes = Lifetimes(flow(**options))
    assert days(lifetimes.of_run(NOW)) == lives
    assert days(lifetimes.of_wait(NOW + 60 * DAY)) == 60 + lives


def test_what_answers_are_found_by_outlives_their_deadline_and_is_not_remembered() -> None:
    lifetimes = Lifetimes(flow(remember=timedelta(days=365)))
    assert days(lifetimes.of_awaited(NOW + 60 * DAY)) == 88


def test_what_is_remembered_for_ever_outlives_everybody() -> None:
    lives = Lifetimes(flow(remember=timedelta.max)).of_end(NOW, Status.COMPLETED)
    assert iso(lives) == "9999-12-31T23:59:59.000Z", "and every reader can print it"


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
def test_a_good_result_is_there_as_long_as_it_is_good(status: Status) -> None:
    kept: Any = {"keep_result": timedelta(days=60), "on_conflict": ATTACH}
    lives = days(Lifetimes(flow(**kept)).of_end(NOW, status))
    assert lives == (60 if status is Status.COMPLETED else 28)
    longer = flow(**kept, remember=timedelta(days=90))
    assert days(Lifetimes(longer).of_end(NOW, status)) == 90


def test_the_row_of_a_caller_outlives_whatever_its_run_still_waits_for() -> None:
    lifetimes = Lifetimes(flow(max_hops=3))
    assert days(lifetimes.of_caller(NOW)) == 3 * (LONGEST_WAIT.days + 28)


def test_no_commit_shortens_the_life_of_an_item() -> None:
    lifetimes = Lifetimes(flow())
    needed = lifetimes.of_run(NOW)
    assert lifetimes.not_before(NOW + 60 * DAY, needed, NOW) == NOW + 60 * DAY
    assert lifetimes.not_before(needed - 1, needed, NOW) == needed
    assert lifetimes.not_before(0, needed, NOW) == needed


def test_what_was_there_for_ever_is_not_when_its_result_is_no_longer_the_last() -> None:
    kept = Lifetimes(flow(keep_result=UNTIL_RESET, on_conflict=ATTACH))
    forever = kept.of_end(NOW, Status.COMPLETED)
    found = kept.not_before(forever, kept.of_end(NOW, Status.FAILED), NOW)
    assert days(found) == LONGEST_WAIT.days + 28


@pytest.mark.parametrize(
    ("remember", "problem"),
    [
        (
            timedelta(days=27),
            "it remembers a run for 27 days, .*, and copies of its messages may come for 28 days",
        ),
        (365, r"remember is 365, which has no unit; write timedelta\(seconds=365\)"),
    ],
)
def test_a_run_that_is_remembered_shorter_than_its_copies_come_is_refused(remember: Any, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        flow(remember=remember)
    assert flow(remember=timedelta(days=28)).remember == timedelta(days=28)
