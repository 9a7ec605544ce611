"""A short race of processes; the long one is ``make races``. About ten seconds of CPU."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.on_engines.luck import noticed_in
from tests.proofs.races.__main__ import found_in_claims, report
from tests.proofs.races.figures import figures
from tests.proofs.races.history import History
from tests.proofs.races.mishaps import Odds
from tests.proofs.races.mutants import break_expressions
from tests.proofs.races.reconcile import Check, reconcile
from tests.proofs.races.run import Outcome, run
from tests.proofs.races.worker import Race
from tests.proofs.soak.journal import Line

pytestmark = pytest.mark.long("races as each `make prove` does, and once more without each guard")


def race(url: str, folder: Path, claims: int, odds: Odds, mutant: str | None = None) -> Outcome:
    return run(Race(url, uuid.uuid4().hex[:20], folder, claims, processes=16, seed=5, odds=odds, mutant=mutant))


@pytest.fixture(scope="module")
def outcome(dynamodb_local_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return race(dynamodb_local_url, tmp_path_factory.mktemp("races"), 800, Odds())


def broken(outcome: Outcome) -> list[Check]:
    return [check for check in reconcile(outcome, History.read(outcome.journal)) if not check.holds]


def test_of_sixteen_processes_none_shares_a_hop_loses_a_request_or_has_an_effect_twice(outcome: Outcome) -> None:
    assert broken(outcome) == []


@pytest.mark.parametrize(
    "what",
    [
        "leases that were over or released",
        "redrives",
        "retries",
        "taken over from another request",
        "told busy",
        "told done",
        "asked for with others",
        "made with others",
        "of hops that were only read",
        "answered in part",
    ],
)
def test_what_is_to_be_contested_is_contested(outcome: Outcome, what: str) -> None:
    counted = {name.strip(): number for name, number in figures(outcome, History.read(outcome.journal)).items()}
    assert counted[what] > 0, "it shows nothing"


def test_the_report_says_so_to_programs(outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    told, checks = found_in_claims(outcome)
    assert report([told], [checks], as_json=True) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"]
    assert said["counts"]["claims"] >= 800
    assert report([told], [found_in_claims(replace(outcome, effects={}))[1]]) == 1
    assert "WRONG" in capsys.readouterr().out


def _with_an_effect(outcome: Outcome) -> Line:
    """A commit that no line tells twice: one whose answer was lost is repeated, and stands there again."""
    told = Counter(line["token"] for line in outcome.journal if line["what"] == "commit")
    ends = [grant.commits[0] for grant in History.read(outcome.journal).effects]
    return next(line for line in reversed(ends) if line["token"] is None or told[line["token"]] == 1)


def test_a_lost_end_a_second_effect_and_a_missing_letter_are_noticed(outcome: Outcome) -> None:
    commit = _with_an_effect(outcome)
    twice = {name: {**row, "applied": 2} for name, row in outcome.effects.items()}
    assert broken(replace(outcome, journal=[line for line in outcome.journal if line is not commit]))
    assert broken(replace(outcome, journal=[*outcome.journal, {**commit, "token": None}]))
    assert broken(replace(outcome, effects=twice))
    assert broken(replace(outcome, totals={}))
    assert broken(replace(outcome, post=[line for line in outcome.post if line.get("kind") != "dead"]))
    assert broken(replace(outcome, post=[line for line in outcome.post if "settled" not in line]))


@pytest.mark.parametrize(
    ("mutant", "noticed"),
    [
        ("a commit without the fence of epoch and owner", "only the last owner commits"),
        ("a claim without the lease", "an attempt is taken over only when its lease is over"),
        ("requests without order", "only a newer request takes over"),
        ("a request of the same time", "only a newer request takes over"),
        ("a commit of what was read and has changed", "epochs rise by one with each claim"),
    ],
)
def test_a_missing_guard_is_noticed(dynamodb_local_url: str, tmp_path: Path, mutant: str, noticed: str) -> None:
    odds = Odds(ahead=0.3, repeat=0.1)

    def broken_in(folder: Path) -> set[str]:
        return {check.name for check in broken(race(dynamodb_local_url, folder, 250, odds, mutant))}

    assert noticed_in(broken_in, tmp_path, noticed)


def test_a_mutant_that_changes_nothing_is_no_mutant() -> None:
    with pytest.raises(KeyError):
        break_expressions("no such guard")
