"""A short race of processes that call one function under ``@once``; the long one is ``make races``. A few seconds."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.on_engines.luck import noticed_in
from tests.proofs.races.__main__ import found_in_once
from tests.proofs.races.mishaps import Odds
from tests.proofs.races.mutants import OF_ONCE
from tests.proofs.races.once.flow import asked, name_of
from tests.proofs.races.once.reconcile import stored
from tests.proofs.races.once.run import Outcome, key_of, run
from tests.proofs.races.worker import Race

pytestmark = pytest.mark.long("races as each `make prove` does, and once more without each guard")

KILLED = 0.01
"""The share of calls at which a process is killed: more than in a long race, so that it happens in this one."""

Spoil = Callable[[Outcome], Outcome]


def race(url: str, folder: Path, calls: int, processes: int, odds: Odds, mutant: str | None = None) -> Outcome:
    return run(Race(url, uuid.uuid4().hex[:20], folder, calls, processes, seed=5, odds=odds, mutant=mutant))


@pytest.fixture(scope="module")
def outcome(dynamodb_local_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return race(dynamodb_local_url, tmp_path_factory.mktemp("once"), 48, 8, Odds(kill=KILLED))


def broken(outcome: Outcome) -> set[str]:
    return {check.name for check in found_in_once(outcome)[1] if not check.holds}


def test_of_eight_processes_each_gets_the_one_result_that_is_stored(outcome: Outcome) -> None:
    assert broken(outcome) == set()


@pytest.mark.parametrize(
    "what",
    [
        "answers of @once: returned",
        "answers of @once: reused",
        "calls without an answer: InProgress",
        "claims of keys whose lease was over",
        "executions that ended fenced",
        "processes of @once killed",
    ],
)
def test_what_is_to_be_contested_is_contested(outcome: Outcome, what: str) -> None:
    counted = {name.strip(): number for name, number in found_in_once(outcome)[0].items()}
    assert counted.get(what, 0) > 0, "it shows nothing"


# -- what each check would notice


def first(outcome: Outcome, what: str, **facts: Any) -> dict[str, Any]:
    return next(line for line in outcome.lines(what) if facts.items() <= line.items())


def one_more(what: str, change: Callable[[dict[str, Any]], Mapping[str, Any]], **facts: Any) -> Spoil:
    """One more line, like the first of its kind but for something."""

    def spoil(outcome: Outcome) -> Outcome:
        line = first(outcome, what, **facts)
        return replace(outcome, journal=[*outcome.journal, {**line, **change(line)}])

    return spoil


def without(what: str) -> Spoil:
    return lambda outcome: replace(outcome, journal=[line for line in outcome.journal if line["what"] != what])


def unstored(outcome: Outcome) -> Outcome:
    order = next(iter(outcome.entries))
    return replace(outcome, entries={**outcome.entries, order: {**outcome.entries[order], "status": "RUNNING"}})


def unanswered(outcome: Outcome) -> Outcome:
    journal = [line for line in outcome.journal if line["what"] != "told" or line["number"] != 3]
    return replace(outcome, journal=journal)


def returned_to_another(outcome: Outcome) -> Outcome:
    results = stored(outcome)
    number = next(at for at in range(outcome.asked) if results[name_of(at)]["amount"] != asked(at)["amount"])
    line = {**first(outcome, "told"), "number": number, "how": "returned", "result": results[name_of(number)]}
    return replace(outcome, journal=[*outcome.journal, line])


def charged(outcome: Outcome) -> Outcome:
    return replace(outcome, charged={**outcome.charged, "a-stranger": {"order": "order-0", "amount": 5}})


def uncharged(outcome: Outcome) -> Outcome:
    return replace(outcome, charged={})


def claimed_twice(line: dict[str, Any]) -> Mapping[str, Any]:
    held = {"status": "RUNNING", "owner": "another", "lease_until": line["now"] + 1}
    return {"old": held, "owner": "b", "key": key_of("order-0")}


@pytest.mark.parametrize(
    ("spoil", "noticed"),
    [
        (unstored, "each order has one stored result"),
        (one_more("finish", lambda _: {"owner": "b"}, yes=True), "each order has one stored result"),
        (unanswered, "each call has an answer"),
        (
            one_more("told", lambda line: {"result": {**line["result"], "by": "b"}}, how="returned"),
            "each call that returned got the stored result",
        ),
        (returned_to_another, "a payload that differs gets no result"),
        (without("begun"), "only a payload beside another is refused"),
        (one_more("claim", claimed_twice, yes=True), "a call begins only where no other holds the key"),
        (one_more("finish", lambda _: {"owner": "b"}, yes=True), "only the call that holds the key ends it"),
        (
            one_more("finish", lambda line: {"old": {**line["old"], "status": "COMPLETED"}}, yes=True),
            "nothing changes a stored result",
        ),
        (one_more("begun", lambda _: {"owner": "b"}), "the function is called after a claim alone"),
        (one_more("begun", lambda _: {}), "each claim calls the function once at most"),
        (
            one_more("end", lambda _: {"how": "completed"}, how="fenced"),
            "each call that was told so has stored its result",
        ),
        (without("end"), "each other was fenced, raised, unsaved, or its worker died"),
        (charged, "each effect is that of a call"),
        (uncharged, "each stored result has its effect"),
    ],
)
def test_each_check_notices_what_it_is_there_for(outcome: Outcome, spoil: Spoil, noticed: str) -> None:
    assert noticed in broken(spoil(outcome))


NOTICED: dict[str, str] = {
    "a key without its lease": "a call begins only where no other holds the key",
    "a result of a call that was outrun": "only the call that holds the key ends it",
    "a stored result twice": "nothing changes a stored result",
    "a payload that is not compared": "the function is called after a claim alone",
}


@pytest.mark.parametrize("mutant", OF_ONCE)
def test_a_missing_guard_is_noticed(dynamodb_local_url: str, tmp_path: Path, mutant: str) -> None:
    odds = Odds()
    assert noticed_in(
        lambda folder: broken(race(dynamodb_local_url, folder, 40, 4, odds, mutant)), tmp_path, NOTICED[mutant]
    )
