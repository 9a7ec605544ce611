"""A run that waits for a place of a limit says so, and has no error."""

from __future__ import annotations

from typing import Any

from flowguard.operate import selection
from flowguard.operate.own_letters import refusal
from flowguard.operate.run_facts import _back_off, standing
from flowguard.protocol.run import RunItem
from tests.worker.limited import Order, crowd_of, flow_of, occupy


def waiting() -> tuple[RunItem, int]:
    with crowd_of(flow_of()) as crowd:
        occupy(crowd)
        crowd.send(Order(order_id="o0"))
        crowd.run(2_000)
        return crowd.item("o0"), crowd.now()


def test_it_says_for_which_limit_and_when_it_looks_again() -> None:
    item, now = waiting()
    assert item.back_off is not None
    assert standing(item, now).startswith("it waits for a place of the limit customer: it is called, or looks again at")
    assert standing(item, item.back_off.until + 1).endswith("looks again any moment")


def test_it_goes_on_by_itself_as_the_same_attempt() -> None:
    item, now = waiting()
    assert str(refusal(item, now)).startswith("it goes on by itself: attempt 1 comes at")


def test_it_has_no_error() -> None:
    item, _ = waiting()
    assert _back_off(item) is None
    seen: Any = type("Seen", (), {"item": item})
    assert [*selection._errors(seen, None)] == []  # type: ignore[arg-type]  # nothing is read
