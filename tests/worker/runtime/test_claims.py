"""The table of the claim: each verdict, whether it is acked, and what it costs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from tests.scene import START, OrderState, Scene, record
from tests.worker.runtime.mishaps import Died, boom, die


def test_a_new_message_is_handled_in_two_calls(at: Scene) -> None:
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["UpdateItem", "TransactWriteItems"]
    item = at.item()
    assert item is not None
    assert (item.status, item.hop, item.done, item.epoch) == (Status.RUNNING, 1, True, 1)
    assert at.priced() == 1


def test_the_next_hop_is_handled_in_two_calls_and_ends_the_run(at: Scene) -> None:
    at.deliver(at.message())
    assert at.deliver(at.second()) == [True]
    assert at.calls == ["UpdateItem", "UpdateItem"]
    item = at.item()
    assert item is not None
    assert (item.status, item.result, item.stages) == (Status.COMPLETED, '{"total":7}', {})


def test_a_committed_hop_delivered_again_costs_one_call_and_sends_its_outbox_again(at: Scene) -> None:
    at.deliver(at.message())
    first = [(m["Body"], m["MessageAttributes"]) for m in at.sent("close-order")]
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["UpdateItem"]
    assert [(m["Body"], m["MessageAttributes"]) for m in at.sent("close-order")] == first
    assert (at.told(EventType.DONE), at.priced(), len(at.script.handled)) == (1, 1, 1)


def test_a_hop_that_the_run_has_left_behind_is_a_duplicate(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    at.sent("completed")
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["UpdateItem"]
    assert at.told(EventType.DONE) == 1
    assert at.sent("completed") == [], "the outbox belongs to the last hop, whose own message looks after it"


def test_a_lower_hop_of_a_running_run_is_a_duplicate(at: Scene) -> None:
    at.deliver(at.message())
    at.script.closing = lambda _: verdicts.extend(at.deliver(at.message()))
    verdicts: list[bool] = []
    at.deliver(at.second())
    assert (verdicts, at.told(EventType.DUPLICATE)) == ([True], 1)


def test_a_message_whose_work_is_in_progress_elsewhere_comes_back_when_the_lease_is_over(at: Scene) -> None:
    acked: list[bool] = []
    waits: list[int] = []

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ChangeMessageVisibility":
            waits.append(call.params["VisibilityTimeout"])
            return {}
        return proceed()

    def duplicate(step: Step[OrderState]) -> None:
        acked.extend(at.deliver(at.message()))
        calls.extend(at.calls)

    calls: list[str] = []
    at.script.pricing = duplicate
    with intercept(watch):
        at.deliver(at.message())
    assert (acked, waits, calls, at.told(EventType.BUSY)) == ([False], [30], ["UpdateItem"], 1)
    assert len(at.script.handled) == 1


def test_a_worker_that_died_is_taken_over_when_its_lease_is_over(at: Scene) -> None:
    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.message())
    at.script.pricing = lambda step: None
    assert at.deliver(at.message()) == [False]
    at.clock.advance(seconds=30)
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert (item.epoch, at.priced()) == (2, 1)


def test_a_sender_that_repeats_its_id_at_a_later_time_does_not_take_over_from_itself(at: Scene) -> None:
    at.deliver(at.message())
    assert at.deliver(at.message(requested_at=START)) == [True]
    assert (at.told(EventType.DONE), at.priced()) == (1, 1)


def test_a_request_that_was_sent_twice_keeps_the_later_time_when_the_earlier_copy_comes_last(at: Scene) -> None:
    """The later copy's worker died. Its record comes again, so the earlier copy can go."""
    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.message(requested_at=START))
    at.script.pricing = lambda step: None
    assert (at.deliver(at.message(requested_at=START - 500)), at.told(EventType.BUSY)) == ([False], 1)
    at.clock.advance(seconds=30)
    assert (at.deliver(at.message(requested_at=START - 500)), at.told(EventType.DUPLICATE)) == ([True], 1)
    item = at.item()
    assert item is not None
    assert (item.requested_at, item.done) == (START, False)
    assert at.deliver(at.message(requested_at=START)) == [True]
    assert at.priced() == 1


def test_an_older_request_is_stale(at: Scene) -> None:
    at.deliver(at.newer())
    assert at.deliver(at.message()) == [True]
    assert (at.calls, at.told(EventType.STALE)) == (["UpdateItem"], 1)


@pytest.mark.parametrize("other", ["a-lesser-id", "z-greater-id"])
def test_a_request_of_the_same_time_is_stale_and_a_retry_of_the_first_passes(at: Scene, other: str) -> None:
    at.script.pricing = boom
    at.deliver(at.message())
    assert at.deliver(at.message(request_id=RequestId(other))) == [True]
    assert (at.calls, at.told(EventType.STALE)) == (["UpdateItem"], 1)
    at.script.pricing = lambda step: None
    assert at.deliver(at.message(retry=1)) == [True]
    assert at.priced() == 1


def test_a_newer_request_takes_over_and_the_old_runs_next_hop_is_superseded(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.newer())
    assert at.told(EventType.TOOK_OVER) == 1
    assert at.deliver(at.second()) == [True]
    assert (at.calls, at.told(EventType.SUPERSEDED)) == (["UpdateItem"], 1)
    item = at.item()
    assert item is not None
    assert (item.request_id, item.epoch) == ("run-2", 2)


def test_a_later_hop_whose_item_has_expired_goes_to_the_dead_letters(at: Scene) -> None:
    assert at.deliver(at.second()) == [True]
    assert (at.calls, at.told(EventType.GONE)) == (["UpdateItem"], 1)
    [letter] = at.sent("dead")
    assert "expired" in json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])["error"][1]


def test_a_hop_before_its_time_is_not_acked(at: Scene) -> None:
    at.deliver(at.message())
    assert at.deliver(at.second(hop=3)) == [False]
    assert at.told(EventType.BROKEN) == 0
    assert (at.calls, at.told(EventType.EARLY)) == (["UpdateItem"], 1)


def test_a_retry_of_an_attempt_that_was_overtaken_is_a_duplicate(at: Scene) -> None:
    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.message(retry=1))
    assert at.deliver(at.message()) == [True]
    assert at.told(EventType.DUPLICATE) == 1


def test_a_message_without_any_attribute_starts_a_run_and_its_weak_id_is_told(at: Scene) -> None:
    plain: dict[str, Any] = {**record(at.message()), "messageAttributes": {}}
    at.handler({"Records": [plain]})
    item = at.item()
    assert item is not None
    assert (item.request_id, item.requested_at) == (plain["messageId"], START)
    assert at.told(EventType.WEAK_ID) == 1


def test_a_weak_id_is_told_once_of_a_flow_however_many_messages_come_without_one(at: Scene) -> None:
    plain = [{**record(at.order(order_id), place), "messageAttributes": {}} for place, order_id in enumerate("abc")]
    for event in ({"Records": plain[:2]}, {"Records": plain[2:]}, {"Records": plain}):
        at.handler(event)
    assert (at.told(EventType.CLAIMED), at.told(EventType.WEAK_ID)) == (3, 1)


class Hurried:
    """A Lambda context with little time left."""

    aws_request_id = "invocation"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:orders"

    def __init__(self, ms: int) -> None:
        self._ms = ms

    def get_remaining_time_in_millis(self) -> int:
        return self._ms


def test_the_lease_ends_when_the_invocation_does(at: Scene) -> None:
    at.deliver(at.message(), context=Hurried(12_000))
    item = at.item()
    assert item is not None
    assert item.lease_until == START + 12_000
