"""Messages that come when the others have ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from flowguard import IGNORE, Done, Flow, Outcome, Stage, Step
from flowguard.errors import SettingsError
from flowguard.sim.world import START
from flowguard.testing import FlowClock, sqs_event
from flowguard.testing.explorer import Later, PlainFunction, View, explore, replay
from flowguard.testing.explorer.run.inbox import Given
from tests.testing.explorer import handlers, seeded

FIRST = seeded.Order(order_id="o1", amount=2)
SECOND = seeded.Order(order_id="o1", amount=7)
DAY = timedelta(days=1)
TABLES = {"placed": "order_id"}


class Place(Stage[seeded.Order], name="place", inbox="to-place"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        step.put("placed", {"order_id": order.order_id, "amount": order.amount, "at": step.requested_at.isoformat()})
        return Done()


class Places(Flow, name="places", object_id="order_id", on_conflict=IGNORE):
    stages = (Place,)


def ends_with(messages: list[Given]) -> dict[str, Any]:
    found: list[Any] = []

    def look(view: View) -> None:
        found.append(view.item("placed", order_id="o1"))

    trace = replay(Places, messages, "none", tables=TABLES, invariants=[look])
    assert trace.ok, str(trace)
    return {"placed": found[-1], "timeline": trace.timeline}


def test_it_meets_what_the_others_have_left() -> None:
    end = ends_with([FIRST, Later(SECOND, by=DAY)])
    assert end["placed"]["amount"] == 7
    assert [line.split()[0] for line in end["timeline"] if " w" in line] == ["0.000", "86400.000"]


def test_it_is_asked_for_when_it_comes() -> None:
    begun, then = (ends_with([FIRST, *more])["placed"]["at"] for more in ([], [Later(SECOND, by=DAY)]))
    assert datetime.fromisoformat(then) - datetime.fromisoformat(begun) == DAY


@pytest.mark.proof("explores flows")
def test_whatever_happens_to_the_others_it_comes_after_them() -> None:
    report = explore(Places, [FIRST, Later(SECOND, by=DAY)], tables=TABLES, bound=0, walks=0)
    assert report.ok, str(report)
    assert (report.orders, report.ends) == (1, 1)
    assert report.schedules > 40


def test_recorded_events_and_plain_functions_can_come_later_too() -> None:
    body, a_day_later = {"order_id": "o1", "amount": 7}, START + DAY // timedelta(milliseconds=1)
    waited, fresh = (sqs_event("to-place", body, sent_at=at) for at in (START, a_day_later))
    assert ends_with([FIRST, Later(fresh, by=DAY)])["placed"]["amount"] == 7
    assert ends_with([FIRST, Later(waited, by=DAY)])["placed"]["amount"] == 2, "it was sent before the run had ended"
    plain = PlainFunction("orders", handlers.put)
    trace = replay(plain, [FIRST, Later(SECOND, by=DAY)], "none", tables={"orders": "order_id"})
    assert trace.ok, str(trace)
    assert [line.split()[0] for line in trace.timeline if " w" in line] == ["0.000", "86400.000"]


@pytest.mark.parametrize("by", [timedelta(0), timedelta(seconds=-1), 3, None])
def test_a_time_that_is_none_is_refused(by: Any) -> None:
    with pytest.raises(SettingsError, match=r"messages: one is later by .*; give a time: Later\(message, timedelta"):
        explore(Places, [FIRST, Later(SECOND, by)], tables=TABLES)


def test_each_schedule_begins_without_it() -> None:
    """What came late in one schedule does not wait in the next."""
    with FlowClock():
        ends = [ends_with([FIRST, Later(SECOND, by=DAY)]) for _ in range(2)]
    assert ends[0] == ends[1]
