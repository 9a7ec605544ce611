"""The sums of the orders: each is carried out, once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flowguard.protocol.run import ENDED, RunItem, Status
from tests.proofs.soak.check import Check, none, once, same
from tests.proofs.soak.outcome import Outcome
from tests.proofs.soak.places import HOPS


def order_sums(outcome: Outcome) -> Iterator[Check]:
    runs = outcome.order_runs
    ended = {request for request, run in runs.items() if run.status in ENDED and run.done}
    yield same("orders: accepted = completed + dead-lettered", outcome.orders, ended)
    told = {f"{request}.{run.hop}.0" for request, run in runs.items()}
    yield same("orders: whoever waits is told of each", told, _own(outcome, (one.id for one in outcome.mail.told)))
    failed = {request for request, run in runs.items() if run.status is Status.FAILED}
    yield same("orders: each that failed was told so", failed, _own(outcome, outcome.failed()))
    charged = {f"{request}.1.0" for request, run in runs.items() if 1 in passed(run)}
    yield same("orders: each committed stage's message was sent", charged, _own(outcome, outcome.mail.news))
    yield from _effects(outcome)


def _effects(outcome: Outcome) -> Iterator[Check]:
    expected = {f"{request}.{hop}" for request, run in outcome.order_runs.items() for hop in passed(run)}
    applied = {name: times for name, times in outcome.effects.items() if _request(name) in outcome.orders}
    yield same("orders: each committed stage has its effect, no other has", expected, applied)
    yield once("orders: each effect is applied once", applied.items())
    for hop, what in zip(HOPS, ("charged", "shipped"), strict=True):
        due = sum(outcome.orders[request].amount for request, run in outcome.order_runs.items() if hop in passed(run))
        found = sum(int(row.get(what, 0)) for row in outcome.accounts.values())
        yield Check(f"orders: the accounts' sums, {what}", due, found)
    yield none(
        "orders: no attempt begun twice but after a death, a stall, a fault",
        (
            f"{request}.{hop} attempt {attempt}: {times} times"
            for ((request, hop), attempt), times in outcome.chronicle.attempts.items()
            if request in outcome.orders and times > 1 + outcome.chronicle.disturbed(request, hop)
        ),
    )


def passed(run: RunItem) -> range:
    """The hops that were committed by their stage."""
    return range(1, run.hop + (run.status is Status.COMPLETED))


def _own(outcome: Outcome, names: Iterable[str]) -> set[str]:
    return {name for name in names if _request(name) in outcome.orders}


def _request(name: str) -> str:
    return name.partition(".")[0]
