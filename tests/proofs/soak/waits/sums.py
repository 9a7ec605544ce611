"""The sums of the waits: each ends once, and none stands still. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from flowguard.protocol.run import ENDED, Status
from tests.proofs.soak.check import Check, none, once, same
from tests.proofs.soak.outcome import Outcome


def wait_sums(outcome: Outcome) -> Iterator[Check]:
    runs, effects = outcome.wait_runs, went_on(outcome)
    ended = {request for request, run in runs.items() if run.status in ENDED and run.done}
    yield same("waits: accepted = completed + dead-lettered", outcome.waits, ended)
    completed = {request for request, run in runs.items() if run.status is Status.COMPLETED}
    told = _own(outcome, outcome.completed())
    yield same("waits: whoever waits is told of each completed", completed, told)
    yield same("waits: each that was completed went on after its wait", completed, map(_request, effects))
    yield once("waits: each went on once", ((name, outcome.effects[name]) for name in effects))
    times = outcome.chronicle.resumed + outcome.chronicle.timed_out + outcome.resumed_by_token
    yield none("waits: none was ended twice", (f"{request}: {n} times" for request, n in times.items() if n > 1))
    wrong = (f"{name} went on at {stage}" for name, stage in effects.items() if stage not in _stages(outcome, name))
    yield none("waits: none went on but at the stage for its end", wrong)
    yield same("waits: each forged record is a dead letter", outcome.forged, outcome.mail.forged)
    asked = _own(outcome, outcome.mail.news)
    yield none("waits: none went on whose messages were not sent", completed - set(map(_request, asked)))


def went_on(outcome: Outcome) -> dict[str, str]:
    """Where each run went on, by its effect."""
    return {name: stage for name, stage in outcome.went_on.items() if _request(name) in outcome.waits}


def ends(outcome: Outcome) -> Counter[str]:
    """How many went on at which stage."""
    return Counter(went_on(outcome).values())


def _stages(outcome: Outcome, name: str) -> set[str]:
    wanted = outcome.waits[_request(name)]
    if wanted.fails and "quote" not in wanted.silent:
        return {"sorry", "late"}
    return {"late"} if wanted.silent else {"settle", "late"}


def _own(outcome: Outcome, names: Iterable[str]) -> set[str]:
    return {name for name in names if _request(name) in outcome.waits}


def _request(name: str) -> str:
    return name.partition(".")[0]
