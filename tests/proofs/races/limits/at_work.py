"""Which handlers were at work at once, as the processes have told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.proofs.soak.journal import Line


class Work(NamedTuple):
    """The handler of an order at work for a customer, in ticks: until its commit was answered, or its lease ended."""

    customer: str
    order: str
    began: int
    until: int


def works(journal: Iterable[Line]) -> Iterator[Work]:
    """Of each process its handlers, one after the other. One that was killed is at work until its lease is over."""
    open_works: dict[str, Work] = {}
    for line in journal:
        process = str(line["worker"]).partition(".")[0]
        if line["what"] == "begins":
            open_works[process] = Work(line["customer"], line["order"], line["tick"], line["until"])
        elif line["what"] == "ends" and (ended := open_works.pop(process, None)) is not None:
            yield ended._replace(until=min(ended.until, line["tick"]))
    yield from open_works.values()


def within(work: Work, of: Sequence[Work], ticks: int) -> int:
    """Return how many handlers began for its customer in so many ticks up to it, itself one of them."""
    since = work.began - ticks
    return sum(other.customer == work.customer and since < other.began <= work.began for other in of)


def beside(work: Work, of: Sequence[Work]) -> int:
    """Return how many orders were at work for its customer when it began, itself one of them."""
    there = {other.order for other in of if other.customer == work.customer and other.began <= work.began < other.until}
    return len(there | {work.order})
