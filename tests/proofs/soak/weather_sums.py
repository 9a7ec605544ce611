"""The sums of a soak under weather: each request ended as without it, and the work after it came bit by bit. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from flowguard.protocol.run import Status
from tests.proofs.soak.check import Check, none, same
from tests.proofs.soak.figures import Figures
from tests.proofs.soak.ledger.sums import ledger_sums
from tests.proofs.soak.rounds import round_sums
from tests.proofs.soak.waits.flow import Late, Settle, Sorry, Wanted
from tests.proofs.soak.waits.sums import went_on
from tests.proofs.soak.weathered import Day

MORE: Final = 2
"""A second after the outages has at most so many times the calls of the busiest before them."""

MOST_TOGETHER: Final = 1 / 2
"""The share of the pairs of records sent back in one second that may come again in one: a sixth do, by chance."""

PAUSED: Final = ("dynamodb", "ssm")
"""The services without which a function hands its records back, each with a pause of its own."""

LAST: Final = 1 / 3
"""The share of the outages' length after which the backlog is gone: the pauses grow by a fifth of what has passed."""

RETRIES: Final = 300
"""Seconds more, for attempts that fail after that."""


def weather_sums(day: Day) -> Iterator[Check]:
    outcome = day.outcome
    yield none("weather: none given up by SQS", outcome.dead_lettered())
    runs = {**outcome.order_runs, **outcome.wait_runs}
    yield same(
        "weather: each order and wait has the end that it has without it",
        (f"{request} {_end(day, request).value}" for request in (*outcome.orders, *outcome.waits)),
        (f"{request} {run.status.value}" for request, run in runs.items()),
    )
    yield same(
        "weather: each wait went on at the stage at which it does without it",
        (
            f"{request} {_stage(wanted)}"
            for request, wanted in outcome.waits.items()
            if _end(day, request) is Status.COMPLETED
        ),
        (f"{name.partition('.')[0]} {stage}" for name, stage in went_on(outcome).items()),
    )
    yield from ledger_sums(day.entries, day.booked)
    yield from round_sums(day.round_runs, day.round_hops)
    if day.outages:
        yield _drawn(day)
        yield from _drained(day)


def _drawn(day: Day) -> Check:
    """Of two records that a function sent back in one second, most come again in two, whatever else is at work."""
    together, pairs = together_of(day)
    return none(
        "weather: what was sent back together does not come again together",
        [f"{together} of {pairs} pairs"] if together > MOST_TOGETHER * pairs else [],
    )


def together_of(day: Day) -> tuple[int, int]:
    """Return how many pairs of records came again in one second, and how many were sent back in one."""
    paused = [outage for outage in day.outages if outage.of in PAUSED]
    groups = [
        seconds
        for (second, _), seconds in day.came_again.items()
        if any(outage.begins <= second < outage.ends for outage in paused)
    ]
    pairs = sum(_pairs(len(seconds)) for seconds in groups)
    return sum(_pairs(count) for seconds in groups for count in Counter(seconds).values()), pairs


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _drained(day: Day) -> Iterator[Check]:
    """What SQS kept comes as fast as mappings take it; what functions handed back comes after flowguard's pauses."""
    if max(day.outages, key=lambda outage: outage.ends).of in PAUSED:
        yield none(
            f"weather: no second after it has {MORE} times the calls of any before",
            (f"second {at}: {calls} calls" for at, calls in day.after().items() if calls > MORE * day.before()),
        )
    latest = max(day.ends, day.sent) + LAST * (day.ends - day.begins) + RETRIES
    late = [f"an order that ended after {day.drained} s"] if day.drained > latest else []
    yield none("weather: the backlog was gone in time", late)


def weather_figures(day: Day) -> Figures:
    after = day.after()
    return {
        "calls that the weather refused": day.refused,
        "calls a second, at most, before it": day.before(),
        "calls a second, at most, after it": max(after.values(), default=0),
        "seconds until the backlog was gone": max(0, round(day.drained - day.ends)),
        **({"invocations of a function in one chain, at most": day.longest_chain} if day.longest_chain else {}),
    }


def _end(day: Day, request: str) -> Status:
    return Status.COMPLETED if day.outcome.trouble(request).ends_at is None else Status.FAILED


def _stage(wanted: Wanted) -> str:
    """The stage at which it goes on where its answers come within its time, whenever that is."""
    if wanted.fails and "quote" not in wanted.silent:
        return Sorry.name
    return Late.name if wanted.silent else Settle.name
