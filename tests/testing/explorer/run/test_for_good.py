"""A call of the user's own that is refused for good: nothing is stuck, and what was not done is among the letters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard import IGNORE, Done, Failure, Flow, Outcome, Stage, Step
from flowguard.testing import replay
from flowguard.testing.explorer import PlainFunction, explore
from tests.proofs.recall import cases, waits
from tests.testing.explorer import needy, seeded

FEW: Any = {"tables": {"orders": "order_id", "totals": "day"}, "bound": 0, "walks": 0}
ORDER = {"order_id": "o1"}


def swallows(event: Any, context: Any) -> None:
    try:
        needy.put()
    except Exception:
        return


class Puts(Stage[seeded.Order], name="puts", inbox="orders"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        needy.put(order.order_id)
        return Done()


class PutOrders(Flow, name="put-orders", object_id="order_id"):
    stages = (Puts,)


def test_a_record_ends_among_the_dead_letters_and_is_done_when_it_comes_back() -> None:
    trace = replay(PlainFunction("orders", needy.put_order), [ORDER], "f1", tables=FEW["tables"])
    assert trace.ok, str(trace)
    refused = [line for line in trace.timeline if "AccessDeniedException" in line]
    assert len(refused) == 4  # a schedule with a fault has one receive more
    assert any("from the dead-letter queue" in line for line in trace.timeline)
    assert "AccessDenied" not in trace.timeline[-1]


@pytest.mark.parametrize(
    ("handler", "buckets"), [(needy.put_order, None), (needy.store, ["reports"]), (needy.sends, None)]
)
def test_tables_buckets_and_destinations_of_user_code_are_refused(handler: Any, buckets: Any) -> None:
    trace = replay(PlainFunction("orders", handler), [ORDER], "f1", tables=FEW["tables"], buckets=buckets)
    assert any("AccessDenied" in line for line in trace.timeline), str(trace)


def test_what_swallows_the_refusal_is_found() -> None:
    trace = replay(PlainFunction("orders", swallows), [ORDER], "f1", tables=FEW["tables"])
    assert [one.rule for one in trace.violations] == ["equivalence"]


@pytest.mark.slow("explores flows and handlers")
def test_a_function_that_tries_for_ever_is_reported_with_its_line() -> None:
    (found,) = explore(PlainFunction("orders", waits.tries_for_ever), [ORDER], **FEW).violations
    assert found.rule == "does not end"
    assert "it made 2000 calls of AWS and went on" in found.problems[0].text
    assert len(found.timeline) == 21
    assert found.site is not None
    assert any(one.kind == "tries for ever" for one in cases.BUGS)


def test_a_stage_whose_call_is_refused_for_good_fails_with_a_dead_letter() -> None:
    trace = replay(PutOrders, [seeded.Order(order_id="o1")], "f2", tables=FEW["tables"])
    assert trace.ok, str(trace)
    assert any("AccessDeniedException" in line for line in trace.timeline)
    assert any("asked for once more" in line for line in trace.timeline)


class PutsInOrder(Stage[seeded.Order], name="puts-in-order", inbox="orders.fifo"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        needy.put(order.order_id)
        return Done()


class PutInOrder(Flow, name="put-in-order", object_id="order_id"):
    stages = (PutsInOrder,)


@pytest.mark.parametrize(("flow", "message"), [(PutOrders, ORDER), (PutInOrder, seeded.Order(order_id="o1"))])
def test_one_that_is_tried_again_as_the_same_record_ends_as_failed(flow: type[Flow], message: Any) -> None:
    trace = replay(flow, [message], "f2", tables=FEW["tables"])
    assert trace.ok, str(trace)
    assert any("AccessDeniedException" in line for line in trace.timeline)
    assert not any("from the dead-letter queue of SQS" in line for line in trace.timeline)


def test_they_are_tried_unless_nothing_is_to_be_refused_for_good() -> None:
    tried = [
        explore(PlainFunction("orders", needy.put_order), [ORDER], for_good=flag, **FEW).schedules
        for flag in (True, False)
    ]
    assert tried[0] == tried[1] + 1


class AskBank(Stage[seeded.Order], name="ask-bank", then=("book", "lapse"), inbox="orders"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        ask = step.ask("bank", {"ref": step.answer_id("paid")})
        return Book.when_all(paid=ask, within=timedelta(hours=3), on_timeout="lapse")


class Book(Stage[dict[str, Any]], name="book", inbox="bookings"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Lapse(Book, name="lapse", inbox="bookings"):
    """Nobody has answered."""


class Undo(Stage[Failure], name="undo", inbox="bookings"):
    def handle(self, failure: Failure, step: Step) -> Outcome:
        return Done()


class WaitForBank(Flow, name="wait-for-bank", object_id="order_id", on_conflict=IGNORE):
    stages = (AskBank, Book, Lapse)


class WaitAndUndo(Flow, name="wait-and-undo", object_id="order_id", on_conflict=IGNORE, on_failed=Undo):
    stages = (AskBank, Book, Lapse, Undo)


@pytest.mark.parametrize("flow", [WaitForBank, WaitAndUndo])
def test_the_next_request_comes_when_the_run_that_waits_may_be_taken_over(flow: type[Flow]) -> None:
    """``f4``: the message of the deadline is parked, so the run holds its object for a day after three hours."""
    trace = replay(flow, [seeded.Order(order_id="o1")], "f4")
    assert trace.ok, str(trace)
    shown = iter(trace.timeline)
    assert any("asked for once more" in line for line in shown)
    assert any("(claim)" in line and "ConditionalCheckFailed" not in line for line in shown)
    assert any("bank" in line for line in shown)
