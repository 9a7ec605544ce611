"""A short race of processes that answer waits; the long one is ``make races``. About fifteen seconds of CPU."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.on_engines.luck import noticed_in
from tests.proofs.races.__main__ import found_in_waits
from tests.proofs.races.history import History
from tests.proofs.races.mishaps import Odds
from tests.proofs.races.waits.history import WaitHistory
from tests.proofs.races.waits.run import Outcome, run
from tests.proofs.races.worker import Race
from tests.proofs.soak.journal import Line

pytestmark = pytest.mark.long("races as each `make prove` does, and once more without each guard")

KILLED = 0.004
"""The share of calls at which a process is killed: more than in a long race, so that it happens in this one."""

Spoil = Callable[[Outcome], Outcome]


def race(url: str, folder: Path, waits: int, mutant: str | None = None) -> Outcome:
    odds = Odds(kill=0 if mutant else KILLED)
    return run(Race(url, uuid.uuid4().hex[:20], folder, waits, processes=8, seed=5, odds=odds, mutant=mutant))


@pytest.fixture(scope="module")
def outcome(dynamodb_local_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return race(dynamodb_local_url, tmp_path_factory.mktemp("waits"), 160)


def broken(outcome: Outcome) -> set[str]:
    return {check.name for check in found_in_waits(outcome)[1] if not check.holds}


def test_of_eight_processes_none_loses_a_wait_or_ends_it_twice(outcome: Outcome) -> None:
    assert broken(outcome) == set()


@pytest.mark.parametrize(
    "what",
    [
        "waits answered",
        "waits failed",
        "waits timed out",
        "waits that made way for a newer request",
        "two answers at once",
        "answers told DUPLICATE",
        "answers told EXPIRED",
        "answers told RECORDED",
        "answers told RESUMED",
        "answers told SUPERSEDED",
        "that came too early",
        "processes killed",
    ],
)
def test_what_is_to_be_contested_is_contested(outcome: Outcome, what: str) -> None:
    counted = {name.strip(): number for name, number in found_in_waits(outcome)[0].items()}
    assert counted[what] > 0, "it shows nothing"


def test_each_verdict_is_counted_once_though_it_is_logged_and_returned(outcome: Outcome) -> None:
    calls = [id(one.call) for one in WaitHistory.read(History.read(outcome.journal)).told]
    assert len(calls) == len(set(calls))


# -- what each check would notice


def changed(outcome: Outcome, which: Callable[[Line], bool], **facts: Any) -> Outcome:
    """With other facts in the first such line of the journal."""
    line = next(line for line in outcome.journal if which(line))
    return replace(outcome, journal=[{**one, **facts} if one is line else one for one in outcome.journal])


def applied(what: str) -> Callable[[Line], bool]:
    return lambda line: line["what"] == what and bool(line.get("yes"))


def again(what: str) -> Spoil:
    """A line of the journal that stands there twice: it was applied twice."""

    def spoil(outcome: Outcome) -> Outcome:
        line = next(line for line in outcome.journal if applied(what)(line))
        return replace(outcome, journal=[*outcome.journal, {**line, "worker": "another"}])

    return spoil


def without(what: str) -> Spoil:
    """No such line was applied."""
    return lambda outcome: replace(
        outcome, journal=[{**one, "yes": False} if applied(what)(one) else one for one in outcome.journal]
    )


def of_wait(what: str, **facts: Any) -> Spoil:
    """The wait as a change found it was otherwise."""

    def spoil(outcome: Outcome) -> Outcome:
        line = next(line for line in outcome.journal if applied(what)(line))
        old = {**line["old"], "wait": {**line["old"]["wait"], **facts}}
        return changed(outcome, lambda one: one is line, old=old)

    return spoil


def of_effect(**facts: Any) -> Spoil:
    def spoil(outcome: Outcome) -> Outcome:
        name, row = next(iter(outcome.effects.items()))
        return replace(outcome, effects={**outcome.effects, name: {**row, **facts}})

    return spoil


def stranger(outcome: Outcome) -> Outcome:
    line = next(line for line in outcome.journal if applied("answer")(line))
    return changed(outcome, lambda one: one is line, old={**line["old"], "request_id": "another"})


def unasked(outcome: Outcome) -> Outcome:
    return replace(outcome, post=[{**line, "queue": "nowhere"} for line in outcome.post])


def unsettled(outcome: Outcome) -> Outcome:
    return replace(outcome, post=[line for line in outcome.post if "settled" not in line])


def standing(outcome: Outcome) -> Outcome:
    name, item = next(iter(outcome.items.items()))
    return replace(outcome, items={**outcome.items, name: item._replace(status="WAITING")})  # type: ignore[arg-type]  # as a text it compares alike


def lost(outcome: Outcome) -> Outcome:
    record = {"messageId": "nobody's", "body": '{"kind": 0}'}
    line = {"kind": "request", "id": "nobody", "queue": "waits", "record": record}
    return replace(outcome, post=[*outcome.post, line])


SPOILS: dict[str, Spoil] = {
    "each wait ended once, or its run made way for another": again("deadline"),
    "no wait was ended by an answer and by its deadline": again("deadline"),
    "no deadline came before its time": lambda outcome: changed(outcome, applied("deadline"), now=0),
    "nothing changed a wait that was over": of_wait("answer", timed_out=True),
    "nothing changed another request's wait, or another hop's": stranger,
    "each name was answered once": again("answer"),
    "each answer found its name awaited": of_wait("answer", waiting=["another"]),
    "each answer was told what the item says": lambda outcome: changed(
        outcome, lambda line: line["what"] == "answered" and line["verdict"] == "RESUMED", verdict="EARLY"
    ),
    "the answers that were told so are those in the item": without("answer"),
    "each run that went on had its effect once": of_effect(applied=2),
    "no run went on before its wait was over": lambda outcome: replace(
        outcome, effects={**outcome.effects, "nobody.2": {"applied": 1, "went_on": "late", "got": "{}"}}
    ),
    "each went on at the stage for its end": of_effect(went_on="elsewhere"),
    "each got the very answers that were kept": of_effect(got='{"inside": "made up"}'),
    "each name of a party outside has its own run's row": lambda outcome: replace(outcome, rows=[]),
    "each request has ended, or made way for another": lost,
    "no run stands still": standing,
    "each message was acknowledged": unsettled,
    "each party was asked": unasked,
}


@pytest.mark.parametrize("name", SPOILS)
def test_a_check_notices_what_it_is_there_for(outcome: Outcome, name: str) -> None:
    assert name in broken(SPOILS[name](outcome))


@pytest.mark.parametrize(
    ("mutant", "noticed"),
    [
        ("an answer to a name that has one", "each answer found its name awaited"),
        ("a wait that is over", "nothing changed a wait that was over"),
        ("a wait that has timed out", "nothing changed a wait that was over"),
        ("another request's wait", "nothing changed another request's wait, or another hop's"),
    ],
)
def test_a_missing_guard_is_noticed(dynamodb_local_url: str, tmp_path: Path, mutant: str, noticed: str) -> None:
    assert noticed_in(lambda folder: broken(race(dynamodb_local_url, folder, 40, mutant)), tmp_path, noticed)
