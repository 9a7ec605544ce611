"""A short soak, and that each of its sums would notice. The long one is ``make soak``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pytest

from flowguard.names.ids import RequestId
from flowguard.protocol.run import Status
from tests.proofs.soak.check import Check
from tests.proofs.soak.chronicle import Chronicle
from tests.proofs.soak.figures import figures
from tests.proofs.soak.journal import Line
from tests.proofs.soak.mail import Told
from tests.proofs.soak.odds import Odds
from tests.proofs.soak.outcome import Outcome
from tests.proofs.soak.reconcile import reconcile
from tests.proofs.soak.run import requests, soak
from tests.proofs.soak.sandbox import Sandbox

pytestmark = pytest.mark.long("kills workers as each `make prove` does, and spoils each check once")

Value = TypeVar("Value")
Spoil = Callable[[Outcome], Outcome]

REQUESTS, SECONDS = 100, 120
ODDS = Odds(seed=6, fail=0.1, kill=0.02, stall=0, throttle=0.02, lost=0.01, strike=6)


@pytest.fixture(scope="module")
def outcome(dynamodb_local_url: str, elasticmq_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    journal: Path = tmp_path_factory.mktemp("soak") / "journal"
    return soak(Sandbox(dynamodb_local_url, elasticmq_url), journal, REQUESTS, 3, ODDS, SECONDS)


def broken(outcome: Outcome) -> list[Check]:
    return [check for check in reconcile(outcome) if not check.holds]


def test_three_flows_reconcile_although_workers_are_killed_and_calls_are_refused(outcome: Outcome) -> None:
    assert broken(outcome) == []
    told = outcome.chronicle
    assert told.points, "nobody died: it shows nothing"
    assert told.faults_by.total() > 5, "hardly a call was refused: it shows nothing"
    assert outcome.failed(), "nobody was rejected: it shows nothing"
    assert told.what["took_over"], "no request met another: it shows nothing"
    assert told.answered["RESUMED"], "no answer ended a wait: it shows nothing"
    assert outcome.forged, "nobody lied: it shows nothing"
    assert told.timed_out.total(), "no deadline ended a wait: it shows nothing"


def test_a_seed_decides_what_is_asked_and_what_goes_wrong_with_it() -> None:
    assert requests(50, ODDS) == requests(50, ODDS)
    assert requests(50, ODDS).sends != requests(50, replace(ODDS, seed=8)).sends


# -- what each sum would notice


def without_one(rows: Mapping[str, Value]) -> dict[str, Value]:
    return dict(islice(rows.items(), 1, None))


def order_of(outcome: Outcome) -> str:
    """One that was completed."""
    return next(request for request, run in outcome.order_runs.items() if run.status is Status.COMPLETED)


def line_of(outcome: Outcome) -> str:
    """A page's commit."""
    return next(str(line) for row in outcome.page_rows.values() for line in row["history"])


def rewritten(outcome: Outcome, rewrite: Callable[[list[str]], list[str]]) -> Outcome:
    """With another history of a page that has several lines."""
    page = max(outcome.page_rows, key=lambda page: len(outcome.page_rows[page]["history"]))
    row = outcome.page_rows[page]
    return replace(outcome, page_rows={**outcome.page_rows, page: {**row, "history": rewrite(row["history"])}})


def chronicled(outcome: Outcome, **changed: Any) -> Outcome:
    return replace(outcome, chronicle=replace(outcome.chronicle, **changed))


def lost_run(outcome: Outcome) -> Outcome:
    return replace(outcome, order_runs=without_one(outcome.order_runs))


def applied(times: int, which: Callable[[Outcome], str]) -> Spoil:
    return lambda outcome: replace(outcome, effects={**outcome.effects, which(outcome): times})


def booked_twice(what: str) -> Spoil:
    def spoil(outcome: Outcome) -> Outcome:
        name, row = next((name, row) for name, row in outcome.accounts.items() if what in row)
        return replace(outcome, accounts={**outcome.accounts, name: {**row, what: row[what] + 1}})

    return spoil


def untold(flow: str, status: Status) -> Spoil:
    def kept(told: Told) -> bool:
        return not (told.request_id.startswith(flow) and told.status == status)

    return lambda outcome: replace(
        outcome, mail=replace(outcome.mail, told=[told for told in outcome.mail.told if kept(told)])
    )


def no_news(flow: str) -> Spoil:
    return lambda outcome: replace(
        outcome, mail=replace(outcome.mail, news=[one for one in outcome.mail.news if not one.startswith(flow)])
    )


def blamed(flow: str) -> Spoil:
    """A request fails that nothing was wrong with."""

    def spoil(outcome: Outcome) -> Outcome:
        asked = outcome.orders if flow == "order" else outcome.pages
        request = next(
            one for one in asked if outcome.trouble(one).ends_at is None and one not in outcome.dead_lettered()
        )
        told = Told(f"{request}.1.0", request, Status.FAILED, "ConnectionError: no")
        return replace(outcome, mail=replace(outcome.mail, told=[*outcome.mail.told, told]))

    return spoil


def older_run(outcome: Outcome) -> Outcome:
    """The page's item is left to a request that was passed."""
    page, run = next(iter(outcome.page_runs.items()))
    other = next(one for one, (reset, _) in outcome.pages.items() if reset.page == page and one != run.request_id)
    return replace(outcome, page_runs={**outcome.page_runs, page: run._replace(request_id=RequestId(other))})


def stale_content(outcome: Outcome) -> Outcome:
    page, row = next((page, row) for page, row in outcome.page_rows.items() if "content" in row)
    return replace(outcome, page_rows={**outcome.page_rows, page: {**row, "content": "of an older request"}})


def completed_unseen(outcome: Outcome) -> Outcome:
    page, run = next(iter(outcome.page_runs.items()))
    runs = {**outcome.page_runs, page: run._replace(status=Status.COMPLETED, request_id=RequestId("reset-of-nobody"))}
    return replace(outcome, page_runs=runs)


def begun_thrice(outcome: Outcome) -> Outcome:
    hop = (order_of(outcome), 1)
    times = 2 + outcome.chronicle.disturbed(*hop)
    return chronicled(outcome, attempts=Counter({**outcome.chronicle.attempts, (hop, 1): times}))


def wait_of(outcome: Outcome) -> str:
    """The effect of one that went on."""
    return next(iter(outcome.went_on))


def stood_still(outcome: Outcome) -> Outcome:
    return replace(outcome, wait_runs=without_one(outcome.wait_runs))


def ended_twice(outcome: Outcome) -> Outcome:
    request = wait_of(outcome).partition(".")[0]
    return chronicled(outcome, timed_out=Counter({**outcome.chronicle.timed_out, request: 2}))


SPOILS: dict[str, Spoil] = {
    "orders: accepted = completed + dead-lettered": lost_run,
    "orders: whoever waits is told of each": untold("order", Status.COMPLETED),
    "orders: each that failed was told so": untold("order", Status.FAILED),
    "orders: each committed stage's message was sent": no_news("order"),
    "orders: each committed stage has its effect, no other has": lost_run,
    "orders: each effect is applied once": applied(2, lambda outcome: f"{order_of(outcome)}.1"),
    "orders: the accounts' sums, charged": booked_twice("charged"),
    "orders: the accounts' sums, shipped": booked_twice("shipped"),
    "orders: no attempt begun twice but after a death, a stall, a fault": begun_thrice,
    "pages: accepted = completed + dead-lettered + passed": lambda outcome: chronicled(outcome, passed=set()),
    "pages: none both completed and dead-lettered": lambda outcome: replace(
        outcome,
        mail=replace(
            outcome.mail,
            told=[replaced._replace(status=Status.FAILED.value) for replaced in outcome.mail.told],
        ),
    ),
    "pages: whoever waits is told of each completed": untold("reset", Status.COMPLETED),
    "pages: each page's run is a newest request's, and has ended": older_run,
    "pages: each page shows its newest completed request": stale_content,
    "pages: none ended COMPLETED without being shown": completed_unseen,
    "pages: no page's history goes back": lambda outcome: rewritten(outcome, lambda lines: lines[::-1]),
    "pages: each line of a history has its effect, no other has": lambda outcome: rewritten(outcome, lambda _: []),
    "pages: each effect is applied once": applied(2, line_of),
    "pages: each committed hop stands in its history once": lambda outcome: rewritten(
        outcome, lambda lines: [lines[0], *lines]
    ),
    "pages: no worker was told of a commit that is not there": lambda outcome: chronicled(
        outcome, committed={(next(iter(outcome.pages)), 9)}
    ),
    "pages: each committed hop's message was sent, taken over or not": no_news("reset"),
    "waits: accepted = completed + dead-lettered": stood_still,
    "waits: whoever waits is told of each completed": untold("wait", Status.COMPLETED),
    "waits: each that was completed went on after its wait": lambda outcome: replace(
        outcome, went_on=without_one(outcome.went_on)
    ),
    "waits: each went on once": applied(2, wait_of),
    "waits: none was ended twice": ended_twice,
    "waits: none went on but at the stage for its end": lambda outcome: replace(
        outcome, went_on={**outcome.went_on, wait_of(outcome): "elsewhere"}
    ),
    "waits: each forged record is a dead letter": lambda outcome: replace(
        outcome, forged=[*outcome.forged, "believed"]
    ),
    "waits: none went on whose messages were not sent": no_news("wait"),
    "orders and waits that failed: refused, out of attempts, or given up by SQS": blamed("order"),
    "no page request failed but by its own trouble, or by SQS's giving up": blamed("reset"),
    "each failed request has its dead letter": lambda outcome: replace(outcome, mail=replace(outcome.mail, letters=[])),
    "no attempt beyond the policy's": lambda outcome: chronicled(outcome, attempts=Counter({(("order", 1), 6): 1})),
    "no retry asked for outside the policy": lambda outcome: chronicled(outcome, retries=[("order", 1, 900)]),
    "no retry came early": lambda outcome: chronicled(outcome, waits=[("order", 2, 10)]),
}


@pytest.mark.parametrize("name", SPOILS)
def test_a_sum_notices_what_it_is_there_for(outcome: Outcome, name: str) -> None:
    assert name in {check.name for check in broken(SPOILS[name](outcome))}


def test_there_is_no_sum_that_cannot_fail(outcome: Outcome) -> None:
    assert [check.name for check in reconcile(outcome)] == list(SPOILS)


def test_a_journal_is_held_to_what_the_tables_say() -> None:
    """A claim after the worker's death is no surprise; the same without a death is."""
    received: Line = {"what": "received", "worker": "w1", "batch": "7.1", "request_id": "o1", "place": '{"hop": 1}'}
    received.update(receives=1, waited=3, cpu=0.5)
    claimed = {"what": "claimed", "worker": "w1", "request_id": "o1", "hop": 1, "attempt": 1}
    killed = {"what": "killed", "worker": "reaper", "of": "w1", "point": "anywhere"}
    told = Chronicle.of([received, claimed, killed, claimed])
    assert told.attempts[("o1", 1), 1] == 2
    assert told.held["o1", 1] == 1
    assert Chronicle.of([received, claimed, claimed]).held["o1", 1] == 0


def test_the_figures_add_up(outcome: Outcome) -> None:
    told = figures(outcome)
    waits = ("waits answered", "waits failed", "waits timed out", "waits dead-lettered")
    ends = ("orders completed", "orders dead-lettered", "page requests completed", "page requests dead-lettered")
    assert told["accepted"] == REQUESTS
    assert sum(int(told[f"  {end}"]) for end in (*ends, *waits, "passed by a newer one")) == REQUESTS
    assert told["workers killed"] == sum(outcome.chronicle.points.values())
    assert len({name.strip() for name in told}) == len(told), "as JSON they would hide each other"
