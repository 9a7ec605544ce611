"""A short race of processes that add to the same sums; the long one is ``make races``. About ten seconds of CPU."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.on_engines.luck import noticed_in
from tests.proofs.races.__main__ import found_in_sums
from tests.proofs.races.mishaps import Odds
from tests.proofs.races.sums.asked import expected
from tests.proofs.races.sums.flow import COMPUTED, EARLY
from tests.proofs.races.sums.run import Outcome, run
from tests.proofs.races.worker import Race

pytestmark = pytest.mark.long("races as each `make prove` does, and once more without each guard")

KILLED = 0.006
"""The share of calls at which a process is killed: more than in a long race, so that it happens in this one."""

Spoil = Callable[[Outcome], Outcome]


def race(url: str, folder: Path, updates: int, mutant: str | None = None) -> Outcome:
    odds = Odds(ahead=0.3, repeat=0.1) if mutant else Odds(kill=KILLED)
    return run(Race(url, uuid.uuid4().hex[:20], folder, updates, processes=8, seed=5, odds=odds, mutant=mutant))


@pytest.fixture(scope="module")
def outcome(dynamodb_local_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return race(dynamodb_local_url, tmp_path_factory.mktemp("sums"), 60)


def broken(outcome: Outcome) -> set[str]:
    return {check.name for check in found_in_sums(outcome)[1] if not check.holds}


def test_of_eight_processes_none_adds_twice_or_loses_what_another_added(outcome: Outcome) -> None:
    assert broken(outcome) == set()


@pytest.mark.parametrize(
    "what",
    ["deliveries told BUSY", "deliveries told DONE", "deliveries told STALE", "processes of sums killed"],
)
def test_what_is_to_be_contested_is_contested(outcome: Outcome, what: str) -> None:
    counted = {name.strip(): number for name, number in found_in_sums(outcome)[0].items()}
    assert counted[what] > 0, "it shows nothing"


def test_newer_requests_take_back_what_older_ones_have_added(outcome: Outcome) -> None:
    applied = {name: outcome.rows[name]["applied"] for name in expected(outcome.asked).amounts}
    assert any(number > 1 for number in applied.values()), "it shows nothing"


# -- what each check would notice


def row(name: str, **facts: Any) -> Spoil:
    return lambda outcome: replace(outcome, rows={**outcome.rows, name: {**outcome.rows[name], **facts}})


def without_an_end(outcome: Outcome) -> Outcome:
    return replace(outcome, items=dict(list(outcome.items.items())[1:]))


@pytest.mark.parametrize(
    ("spoil", "noticed"),
    [
        (row("sum-1", amount=0), "the sum is what the newest requests of all objects add up to"),
        (row("sum-1", applied=0), "as much was added to the sum as to the objects"),
        (row(EARLY, applied=1), "each block that is applied at once was applied once"),
        (row(COMPUTED, applied=1), "each count that was computed from what was there counts once"),
        (row("g0", amount=0), "each object has the amount of its newest request"),
        (row("a4", applied=2), "each request that is alone counts once"),
        (without_an_end, "each object's run is that of its newest request, and COMPLETED"),
    ],
)
def test_each_check_notices_what_it_is_there_for(outcome: Outcome, spoil: Spoil, noticed: str) -> None:
    assert noticed in broken(spoil(outcome))


@pytest.mark.parametrize(
    ("mutant", "noticed"),
    [
        ("a commit of a hop that is committed", "each request that is alone counts once"),
        ("requests without order", "each object has the amount of its newest request"),
    ],
)
def test_a_missing_guard_is_noticed(dynamodb_local_url: str, tmp_path: Path, mutant: str, noticed: str) -> None:
    assert noticed_in(lambda folder: broken(race(dynamodb_local_url, folder, 40, mutant)), tmp_path, noticed)
