"""A short race of processes that ask for the same pages; the long one is ``make races``. About ten seconds of CPU."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.proofs.races.__main__ import found_in_callers
from tests.proofs.races.callers.run import Outcome, run
from tests.proofs.races.mishaps import Odds
from tests.proofs.races.worker import Race

pytestmark = pytest.mark.long("races as each `make prove` does, and once more without each guard")

KILLED = 0.004
"""The share of calls at which a process is killed: more than in a long race, so that it happens in this one."""

Spoil = Callable[[Outcome], Outcome]


@pytest.fixture(scope="module")
def outcome(dynamodb_local_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("callers")
    return run(Race(dynamodb_local_url, uuid.uuid4().hex[:20], folder, 80, processes=8, seed=5, odds=Odds(kill=KILLED)))


def broken(outcome: Outcome) -> set[str]:
    return {check.name for check in found_in_callers(outcome)[1] if not check.holds}


def test_of_eight_processes_each_caller_gets_one_answer_id_and_no_page_is_made_too_often(outcome: Outcome) -> None:
    assert broken(outcome) == set()


@pytest.mark.parametrize(
    "what",
    [
        "claims for pages told ATTACHED",
        "claims for pages told KEPT",
        "resets told DROPPED",
        "processes of callers killed",
    ],
)
def test_what_is_to_be_contested_is_contested(outcome: Outcome, what: str) -> None:
    counted = {name.strip(): number for name, number in found_in_callers(outcome)[0].items()}
    assert counted.get(what, 0) > 0, "it shows nothing"


# -- what each check would notice


def answer(change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Spoil:
    """One more answer, like the first but for something."""

    def spoil(outcome: Outcome) -> Outcome:
        first = outcome.answers[0]
        return replace(outcome, answers=[*outcome.answers, {**first, **change(first)}])

    return spoil


def without_answers(outcome: Outcome) -> Outcome:
    first = outcome.answers[0]["request_id"]
    return replace(outcome, answers=[one for one in outcome.answers if one["request_id"] != first])


def made(times: int, page: str = "page-0") -> Spoil:
    return lambda outcome: replace(outcome, made={**outcome.made, page: {"times": times}})


def standing(outcome: Outcome) -> Outcome:
    return replace(outcome, items=dict(list(outcome.items.items())[1:]))


@pytest.mark.parametrize(
    ("spoil", "noticed"),
    [
        (without_answers, "each caller is answered"),
        (answer(lambda one: {"answer": f"{one['answer']}r1"}), "each caller has exactly one answer id"),
        (answer(lambda one: {"status": "FAILED"}), "each answer is the page that was asked for"),
        (answer(lambda one: {"result": {"page": "another"}}), "each answer is the page that was asked for"),
        (made(0), "each page was made"),
        (made(1_000), "no page was made more often than its resets ask for"),
        (standing, "no run of a page stands still"),
    ],
)
def test_each_check_notices_what_it_is_there_for(outcome: Outcome, spoil: Spoil, noticed: str) -> None:
    assert noticed in broken(spoil(outcome))
