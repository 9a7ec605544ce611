"""A short soak in every test run; the long one is ``make soak``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.ground import Ground
from tests.soak.orders import Odds
from tests.soak.outcome import Outcome
from tests.soak.reconcile import Check, reconcile
from tests.soak.run import soak


@pytest.fixture(scope="module")
def outcome(dynamodb_local_url: str, elasticmq_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    journal: Path = tmp_path_factory.mktemp("soak") / "journal"
    odds = Odds(seed=7, kill=0.03)
    return soak(Ground(dynamodb_local_url, elasticmq_url), journal, messages=120, workers=2, odds=odds, limit=60)


def broken(outcome: Outcome) -> list[Check]:
    return [check for check in reconcile(outcome) if not check.holds]


def test_accepted_is_completed_and_dead_lettered_although_workers_are_killed(outcome: Outcome) -> None:
    assert broken(outcome) == []
    assert outcome.lines("killed"), "nobody died: it shows nothing"
    assert outcome.letters, "nobody was rejected: it shows nothing"


def test_a_lost_request_a_second_effect_and_a_missing_dead_letter_would_be_noticed(outcome: Outcome) -> None:
    lost = dict(list(outcome.runs.items())[1:])
    twice = {name: {**row, "applied": 2} for name, row in outcome.effects.items() if "applied" in row}
    assert broken(replace(outcome, runs=lost))
    assert broken(replace(outcome, effects=twice))
    assert broken(replace(outcome, letters=outcome.letters[1:], told=outcome.told[1:]))
    assert broken(replace(outcome, emails=[]))
