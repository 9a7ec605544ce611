"""The sums of the pages: the newest request wins, and what the others still did was never seen. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from flowguard.protocol.run import ENDED, Status
from tests.proofs.soak.check import Check, none, once, same
from tests.proofs.soak.outcome import Outcome
from tests.proofs.soak.pages.flow import content
from tests.proofs.soak.places import HOPS


def page_sums(outcome: Outcome) -> Iterator[Check]:
    written = history(outcome)
    yield from _settled(outcome, written)
    yield from _newest(outcome)
    yield from _order(outcome)
    yield from _effects(outcome, written)


def history(outcome: Outcome) -> Counter[str]:
    """How often each hop stands in its page's history."""
    return Counter(line for row in outcome.page_rows.values() for line in row["history"])


def _settled(outcome: Outcome, written: Counter[str]) -> Iterator[Check]:
    """Each request has one end: completed, dead-lettered, or passed by a newer one."""
    completed = {_request(line) for line in written if line.endswith(f".{HOPS[-1]}")}
    failed = _own(outcome, outcome.failed())
    passed = (outcome.chronicle.passed & outcome.pages.keys()) - completed - failed
    yield same("pages: accepted = completed + dead-lettered + passed", outcome.pages, completed | failed | passed)
    yield none("pages: none both completed and dead-lettered", completed & failed)
    yield same("pages: whoever waits is told of each completed", completed, _own(outcome, outcome.completed()))


def _newest(outcome: Outcome) -> Iterator[Check]:
    """The page belongs to a newest request, and shows what the last one that was carried out had to show."""
    latest: dict[str, int] = {}
    for reset, moment in outcome.pages.values():
        latest[reset.page] = max(latest.get(reset.page, 0), moment)
    ended = {page: run.request_id for page, run in outcome.page_runs.items() if run.status in ENDED and run.done}
    yield same(
        "pages: each page's run is a newest request's, and has ended",
        (f"{page} {moment}" for page, moment in latest.items()),
        (f"{page} {outcome.pages[own].moment if own in outcome.pages else own}" for page, own in ended.items()),
    )
    yield same(
        "pages: each page shows its newest completed request",
        (shown for page in latest for shown in _due(outcome, page)),
        (f"{page} {row['revision']} {row['content']}" for page, row in outcome.page_rows.items() if "content" in row),
    )
    yield none(
        "pages: none ended COMPLETED without being shown",
        (
            f"{page} {run.request_id}"
            for page, run in outcome.page_runs.items()
            if run.status is Status.COMPLETED and _last(outcome, page) != f"{run.request_id}.{HOPS[-1]}"
        ),
    )


def _due(outcome: Outcome, page: str) -> Iterator[str]:
    published = [_request(line) for line in _lines(outcome, page) if line.endswith(f".{HOPS[-1]}")]
    if published:
        newest = max(published, key=lambda request: outcome.pages[request].moment)
        reset = outcome.pages[newest].reset
        yield f"{page} {reset.revision} {content(newest, reset)}"


def _order(outcome: Outcome) -> Iterator[Check]:
    """By the histories alone: the order in which DynamoDB applied the commits. Of one moment there is one request."""

    def goes_on(before: str, after: str) -> bool:
        (request, _, hop), (newer, _, later) = before.partition("."), after.partition(".")
        return later > hop if newer == request else outcome.pages[newer].moment > outcome.pages[request].moment

    yield none(
        "pages: no page's history goes back",
        (
            f"{page}: {after} after {before}"
            for page, row in outcome.page_rows.items()
            for before, after in pairwise(row["history"])
            if not goes_on(before, after)
        ),
    )


def _effects(outcome: Outcome, written: Counter[str]) -> Iterator[Check]:
    applied = {name: times for name, times in outcome.effects.items() if _request(name) in outcome.pages}
    yield same("pages: each line of a history has its effect, no other has", written, applied)
    yield once("pages: each effect is applied once", applied.items())
    yield once("pages: each committed hop stands in its history once", written.items())
    journal = {f"{request}.{hop}" for request, hop in outcome.chronicle.committed if request in outcome.pages}
    yield none("pages: no worker was told of a commit that is not there", journal - written.keys())
    news = (f"{line}.0" for line in written)
    yield same(
        "pages: each committed hop's message was sent, taken over or not", news, _own(outcome, outcome.mail.news)
    )


def _last(outcome: Outcome, page: str) -> str:
    lines = _lines(outcome, page)
    return lines[-1] if lines else ""


def _lines(outcome: Outcome, page: str) -> list[str]:
    row: Any = outcome.page_rows.get(page, {})
    return list(row.get("history", ()))


def _own(outcome: Outcome, names: Iterable[str]) -> set[str]:
    return {name for name in names if _request(name) in outcome.pages}


def _request(name: str) -> str:
    return name.partition(".")[0]
