"""What proves that a hop which waits has sent what it had to."""

from __future__ import annotations

from flowguard.destinations import Queue
from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import Cancellation
from flowguard.protocol.waiting import Wait, WaitPlan
from tests.protocol.run_items import run_item


def test_a_look_of_the_time_before_a_reset_proves_nothing() -> None:
    wait = Wait(frozenset(), 0, 1, looked_at=1)
    item = run_item(wait=wait)
    assert item.wait_was_dispatched
    assert not item._replace(reset_at=1).wait_was_dispatched
    assert item._replace(reset_by="r").wait_was_dispatched, "a run before it was reset, and has another request"
    assert not item._replace(wait=wait._replace(looked_at=0)).wait_was_dispatched
    timed_out = item._replace(wait=wait._replace(looked_at=0, timed_out=True))
    assert timed_out.wait_was_dispatched
    cancelled = Cancellation(item.request_id, item.requested_at, "why")
    assert not timed_out._replace(cancellation=cancelled).wait_was_dispatched
    assert not item._replace(wait=None).wait_was_dispatched


def test_an_answer_to_what_the_hop_has_asked_proves_it_and_one_that_nobody_was_asked_for_does_not() -> None:
    plan = WaitPlan("stage", {"a": None, "b": None}, frozenset({"a"}))
    wait = Wait(frozenset({"a"}), 0, 1, answered=frozenset({"b"}), plan=plan)
    assert not run_item(wait=wait).wait_was_dispatched
    assert run_item(wait=wait._replace(answered=frozenset({"a"}))).wait_was_dispatched


def test_what_stands_beside_a_wait_is_proved_to_be_sent_and_what_an_end_leaves_is_not() -> None:
    sends = tuple(Send(kind, Queue("q"), "{}", kind.value) for kind in (Kind.SIDE, Kind.DEADLINE))
    item = run_item(wait=Wait(frozenset(), 0, 1, looked_at=1), outbox=Outbox(RequestId("r"), 1, sends))
    assert item.has_sent_beside_its_wait
    assert not item._replace(wait=None).has_sent_beside_its_wait
    assert not item._replace(wait=Wait(frozenset(), 0, 1)).has_sent_beside_its_wait
    assert not item._replace(outbox=Outbox(RequestId("r"), 1, sends[:1])).has_sent_beside_its_wait
    assert not item._replace(outbox=None).has_sent_beside_its_wait


def test_a_look_is_awaited_where_the_first_message_of_the_deadline_makes_one_and_none_was_made() -> None:
    plan = WaitPlan("stage", {"a": "paid"}, looks=True)
    assert WaitPlan.from_text(plan.to_text()) == plan
    wait = Wait(frozenset(), 0, 1, plan=plan)
    item = run_item(wait=wait)
    assert item.awaits_look
    assert not item._replace(reset_at=1).awaits_look, "no look proves anything, so nobody waits for one"
    assert item._replace(reset_by="r").awaits_look, "a run before it was reset"
    assert not item._replace(wait=wait._replace(looked_at=1)).awaits_look
    assert not item._replace(wait=wait._replace(plan=plan._replace(looks=False))).awaits_look
    assert not item._replace(wait=wait._replace(plan=None)).awaits_look
    assert not item._replace(wait=None).awaits_look


def test_a_group_was_asked_for_all_that_has_answered_and_no_more() -> None:
    """Its shards are asked by messages that go after the hop's own."""
    wait = Wait(frozenset({"1"}), 0, 1, answered=frozenset({"0"}), group="key")
    assert not run_item(wait=wait).wait_was_dispatched
    assert run_item(wait=wait._replace(waiting=frozenset())).wait_was_dispatched
