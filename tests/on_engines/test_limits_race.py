"""A short race of sixteen processes for the places of a limit; the long one is ``make races``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.on_engines.luck import noticed_in
from tests.proofs.races.__main__ import found_in_limits
from tests.proofs.races.limits.at_work import Work, beside, within, works
from tests.proofs.races.limits.flow import COUNT
from tests.proofs.races.limits.reconcile import ENDS, MOST, ONCE, RATE
from tests.proofs.races.limits.run import Outcome, run
from tests.proofs.races.limits.worker import NO_LIMIT
from tests.proofs.races.mishaps import Odds
from tests.proofs.races.worker import Race

KILLED = 0.002
"""The share of calls at which a process is killed: more than in a long race, so that it happens in this one."""

Spoil = Callable[[Outcome], Outcome]

is_race = pytest.mark.long("races as each `make prove` does, and once more without the limit")


def race(url: str, folder: Path, orders: int, mutant: str | None = None) -> Outcome:
    odds = Odds() if mutant else Odds(kill=KILLED)
    return run(Race(url, uuid.uuid4().hex[:20], folder, orders, processes=16, seed=5, odds=odds, mutant=mutant))


@pytest.fixture(scope="module")
def outcome(dynamodb_local_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return race(dynamodb_local_url, tmp_path_factory.mktemp("limits"), 4)


def broken(outcome: Outcome) -> set[str]:
    return {check.name for check in found_in_limits(outcome)[1] if not check.holds}


@is_race
def test_of_sixteen_processes_never_more_are_at_work_than_there_are_places(outcome: Outcome) -> None:
    assert broken(outcome) == set()


@is_race
@pytest.mark.parametrize(
    "what",
    [
        "times that an order found no place",
        "calls of orders that stood in line",
        "mishaps of limits",
        "processes of limits killed",
    ],
)
def test_what_is_to_be_contested_is_contested(outcome: Outcome, what: str) -> None:
    assert found_in_limits(outcome)[0][what] > 0, "it shows nothing"


@is_race
def test_all_places_are_used(outcome: Outcome) -> None:
    assert found_in_limits(outcome)[0]["handlers at work at once for one customer, at most"] == 2, "it shows nothing"


# -- what each check would notice


def charged_twice(outcome: Outcome) -> Outcome:
    return replace(outcome, rows={**outcome.rows, "o1": {"id": "o1", "charged": 2}})


def never_charged(outcome: Outcome) -> Outcome:
    return replace(outcome, rows={name: row for name, row in outcome.rows.items() if name != "o1"})


def without_an_end(outcome: Outcome) -> Outcome:
    return replace(outcome, items=dict(list(outcome.items.items())[1:]))


def three_at_work(outcome: Outcome) -> Outcome:
    lines = [
        {
            "what": "begins",
            "worker": f"x{number}.0",
            "tick": number,
            "until": 99,
            "customer": "c",
            "order": f"x{number}",
        }
        for number in range(3)
    ]
    return replace(outcome, journal=[*lines, *outcome.journal])


def seven_in_a_row(outcome: Outcome) -> Outcome:
    lines = [
        line
        for number in range(COUNT + 1)
        for line in (
            {"what": "begins", "worker": "x.0", "tick": number, "until": 99, "customer": "c", "order": f"x{number}"},
            {"what": "ends", "worker": "x.0", "tick": number},
        )
    ]
    return replace(outcome, journal=[*lines, *outcome.journal])


@is_race
@pytest.mark.parametrize(
    ("spoil", "noticed"),
    [
        (charged_twice, ONCE),
        (never_charged, ONCE),
        (without_an_end, ENDS),
        (three_at_work, MOST),
        (seven_in_a_row, RATE),
    ],
)
def test_each_check_notices_what_it_is_there_for(outcome: Outcome, spoil: Spoil, noticed: str) -> None:
    assert broken(spoil(outcome)) == {noticed}


@is_race
def test_a_missing_limit_is_noticed(dynamodb_local_url: str, tmp_path: Path) -> None:
    assert noticed_in(lambda folder: broken(race(dynamodb_local_url, folder, 4, NO_LIMIT)), tmp_path, MOST)


# -- who was at work


def line(what: str, worker: str, tick: int, **facts: Any) -> dict[str, Any]:
    return {"what": what, "worker": worker, "tick": tick, **facts}


def begins(worker: str, tick: int, order: str) -> dict[str, Any]:
    return line("begins", worker, tick, customer="c", order=order, until=tick + 10)


def test_a_handler_is_at_work_until_its_commit_its_lease_or_the_next_life_of_its_process() -> None:
    told = [
        begins("p1.0", 1, "a"),
        line("mishap", "p1.0", 1),
        line("ends", "p1.0", 5),
        line("ends", "p1.0", 6),
        begins("p1.0", 7, "b"),
        begins("p2.0", 8, "c"),
        line("ends", "p1.1", 30),
    ]
    assert list(works(told)) == [Work("c", "a", 1, 5), Work("c", "b", 7, 17), Work("c", "c", 8, 18)]


def test_who_is_at_work_beside_a_handler_when_it_begins() -> None:
    first = Work("c", "a", 1, 9)
    of = [first, Work("c", "b", 3, 5), Work("c", "a", 4, 9), Work("d", "e", 1, 9)]
    assert [beside(work, of) for work in of] == [1, 2, 2, 1]
    assert beside(Work("c", "x", 5, 9), of) == 2
    assert beside(Work("c", "x", 9, 12), of) == 1


def test_how_many_began_in_an_interval_that_ends_with_a_handler() -> None:
    of = [Work("c", "a", 1, 9), Work("c", "b", 5, 6), Work("c", "a", 5, 9), Work("d", "e", 5, 9), Work("c", "f", 6, 9)]
    assert within(of[1], of, 4) == 2
    assert within(of[1], of, 5) == 3
