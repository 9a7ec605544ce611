"""Deliveries as lines of text. They say who got what when, and what it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flowguard.sim.delivered import Delivered

_INDENT = " " * 16
_MOST_SENDS = 10


def story(rows: Iterable[Delivered], start: int) -> list[str]:
    """Describe deliveries in lines of text. ``start`` is the moment that times are counted from, ms since 1970."""
    return [line for row in rows for line in _lines(row, start)]


def _lines(row: Delivered, start: int) -> Iterator[str]:
    for key in row.expired[:_MOST_SENDS]:
        yield f"  {(row.at - start) / 1000:9.3f} s  {key} had expired, and is gone"
    words = ["deadline not due"] if row.is_not_due else [word for word in (row.verdict, row.outcome) if word]
    nothing = "nothing was left to do" if row.acked else "stays in its queue"
    yield f"  {(row.at - start) / 1000:9.3f} s  {_what(row)}: {', '.join(words) or nothing}"
    for kind, writes in (("", row.writes), ("refused: ", row.refused)):
        yield from (f"{_INDENT}{kind}{write.kind} {write.table} {write.key}".rstrip() for write in writes)
    for sent in row.sends[:_MOST_SENDS]:
        yield f"{_INDENT}sent to {sent.to}{f' in {sent.delay} s' if sent.delay else ''}"
    if len(row.sends) > _MOST_SENDS:
        yield f"{_INDENT}… and {len(row.sends) - _MOST_SENDS} more"
    if row.why is not None:
        yield f"{_INDENT}{row.why}"
    if row.to_dlq:
        yield f"{_INDENT}moved to the dead-letter queue of SQS after {row.receive} receives"


def _what(row: Delivered) -> str:
    where = row.stage or f"record {row.record}"
    whose = f" of {row.object_id}" if row.object_id else ""
    hop = f", hop {row.hop}" if row.hop is not None else ""
    attempt = f", attempt {row.attempt}" if (row.attempt or 1) > 1 else ""
    receive = f", receive {row.receive}" if row.receive > 1 else ""
    served = ", by dlq_handler" if row.from_dlq else ""
    return f"{where}{whose}{hop}{attempt}{receive}{served}"
