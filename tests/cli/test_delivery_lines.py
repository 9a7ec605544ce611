"""What a table of deliveries says of each record."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from flowguard.cli.delivery_lines import show_timeline
from flowguard.events import Event, EventType
from flowguard.sim.delivered import Delivered
from flowguard.sim.delivery_trace import DeliveryTrace

NOTHING = "nothing was left to do"
SILENT: dict[str, Any] = {
    "at": 1_000,
    "record": "record",
    "queue": "queue",
    "receive": 1,
    "flow": None,
    "stage": None,
    "object_id": None,
    "request_id": None,
    "hop": None,
    "attempt": None,
    "verdict": None,
    "outcome": None,
    "writes": (),
    "refused": (),
    "sends": (),
    "calls": 1,
    "status": None,
    "crash": None,
    "acked": True,
    "to_dlq": False,
    "from_dlq": False,
    "why": None,
    "events": {},
}


def shown(**facts: Any) -> str:
    out = StringIO()
    show_timeline(Console(file=out, width=200), [Delivered(**{**SILENT, **facts})], start=0)
    return out.getvalue()


def test_a_record_that_changed_nothing_says_so() -> None:
    assert NOTHING in shown()


@pytest.mark.parametrize(
    "facts",
    [{"acked": False}, {"verdict": "DONE"}, {"outcome": "reset"}, {"why": "why"}],
    ids=lambda facts: str(*facts),
)
def test_no_other_record_says_so(facts: dict[str, Any]) -> None:
    assert NOTHING not in shown(**facts)


@pytest.mark.parametrize(
    ("event", "outcome"), [(EventType.WAS_RESET, "reset"), (EventType.WAS_CANCELLED, "cancelled")], ids=str
)
def test_an_order_says_what_became_of_its_run(event: EventType, outcome: str) -> None:
    trace = DeliveryTrace()
    trace.add(Event(event, None, {}))
    assert trace.outcome == outcome
