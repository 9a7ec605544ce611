"""A hold-up that would be the same as one that was run is left out, and nothing is lost by that."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, Report, explore
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.search.next_schedules import choices_in
from flowguard.testing.explorer.search.pairs import Second
from flowguard.testing.explorer.search.repeated_holds import RepeatedHolds
from tests.testing.explorer import handlers
from tests.testing.explorer.histories import history_of

ORDERS = PlainFunction("orders", handlers.put)
MESSAGES = [sqs_event("orders", {"order_id": "o1", "amount": 5})]


def noted(*schedules: str) -> RepeatedHolds:
    """What is known after these schedules of a handler that makes one call."""
    holds = RepeatedHolds()
    for schedule in schedules:
        holds.note(Schedule.parse(schedule), history_of(ORDERS, MESSAGES, schedule))
    return holds


def is_left_out(schedule: str, holds: RepeatedHolds) -> bool:
    return holds.seconds_after(Schedule.parse(schedule)) is not None


@pytest.mark.parametrize(
    ("schedule", "leaves_out"),
    [
        ("z1-2", True),  # the other worker makes one call, and then nothing is left to wait for
        ("z1-1", False),  # it went on after that call
        ("z1", False),  # it waits for no number of calls
        ("z1-2.a2", False),
        ("d1", False),
    ],
)
def test_who_waited_for_more_calls_than_there_were_waits_as_long_for_any_greater_number(
    schedule: str, leaves_out: bool
) -> None:
    holds = noted(schedule)
    assert is_left_out("z1-3", holds) is leaves_out
    assert is_left_out("z1-999", holds) is leaves_out
    assert not any(is_left_out(other, holds) for other in ("z1", "z2-3", "d1", "a1", "v1", "z1-3.a2", "none"))


def test_the_pairs_that_begin_with_it_are_still_there() -> None:
    holds, history = noted("z1-2"), history_of(ORDERS, MESSAGES, "z1-2")
    left_out = Schedule.parse("z1-3")
    seconds = holds.seconds_after(left_out)
    assert seconds
    assert [second.choice for second in seconds] == list(choices_in(history, after=left_out.choices[-1]))


class EachHold(RepeatedHolds):
    """The whole search."""

    def seconds_after(self, schedule: Schedule) -> tuple[Second, ...] | None:
        return None


def explored(handler: Any) -> Report:
    return explore(PlainFunction("orders", handler), MESSAGES, tables={"totals": "day"}, bound=5, walks=0)


@pytest.mark.parametrize("handler", [handlers.put, handlers.add])
def test_no_end_and_no_violation_is_lost(handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few = explored(handler)
    monkeypatch.setattr("flowguard.testing.explorer.search.search.RepeatedHolds", EachHold)
    every = explored(handler)
    assert few.schedules < every.schedules
    assert (few.ends, few.pairs_left, few.coverage, few.singles_left) == (
        every.ends,
        every.pairs_left,
        every.coverage,
        every.singles_left,
    )
    assert Counter(one.rule for one in few.violations) == Counter(one.rule for one in every.violations)
