"""Results that are kept, and resets: a run at work begins anew, and who waits for it gets the new end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard.client import FlowClient
from flowguard.errors import DefinitionError, RunFailed
from flowguard.events import EventType
from flowguard.flow import ATTACH, IGNORE, PER_REQUEST, UNTIL_RESET, AnyFlow, Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import Status
from flowguard.sim.calls import intercept
from flowguard.step import Step
from flowguard.verdicts import ResetVerdict
from flowguard.wire.message import Message
from flowguard.worker.kills import MOST_KILLS
from tests.scene import START, Orders, OrderState, Scene, Script, scene, two_stages
from tests.worker.runtime.mishaps import Died, die, dies_at, reject_once
from tests.worker.runtime.test_callers import answers, caller, just_before_the_second

HOUR = timedelta(hours=1)


def stored_cache(script: Script) -> AnyFlow:
    class Stored(Flow, name="orders", object_id="order_id", keep_result=HOUR, dead_letters="dead", trust_senders=True):
        stages = two_stages(script)

    return Stored


def triggered_cache(script: Script) -> AnyFlow:
    class Triggered(
        Flow,
        name="orders",
        object_id="order_id",
        keep_result=UNTIL_RESET,
        dead_letters="dead",
        answers="price-order",
        trust_senders=True,
    ):
        stages = two_stages(script)

    return Triggered


def client(at: Scene) -> FlowClient:
    return FlowClient.of(at.handler._services)


def work_off(at: Scene) -> None:
    """Deliver what lies in the queues of the stages, until nothing is left."""
    while sent := [*at.sent("price-order"), *at.sent("close-order")]:
        for one in sent:
            at.handler({"Messages": [one]}, None)


def built(at: Scene) -> None:
    at.deliver(at.message())
    work_off(at)


def hours(count: float) -> int:
    return START + int(count * 3_600_000)


# -- results that are kept --------------------------------------------------------------------------------------------


def test_a_fresh_result_answers_a_newer_request_with_one_write_and_without_a_handler() -> None:
    with scene(stored_cache) as at:
        built(at)
        at.clock.advance(seconds=3_500)
        assert at.deliver(caller(at, requested_at=at.clock.now())) == [True]
        assert (at.calls, at.priced(), at.told(EventType.KEPT)) == (["UpdateItem"], 1, 1)
        assert answers(at) == [("caller-0", "run-1", "COMPLETED")]


def test_a_result_that_is_too_old_is_computed_anew_and_then_kept() -> None:
    with scene(stored_cache) as at:
        built(at)
        at.clock.advance(seconds=3_601)
        at.deliver(caller(at, requested_at=at.clock.now()))
        work_off(at)
        at.deliver(caller(at, 1, requested_at=at.clock.now()))
        assert at.priced() == 2
        assert answers(at) == [("caller-0", "caller-0", "COMPLETED"), ("caller-1", "caller-0", "COMPLETED")]


def test_a_request_is_answered_by_its_own_time_however_late_it_is_delivered() -> None:
    with scene(stored_cache) as at:
        built(at)
        at.clock.advance(seconds=80_000)
        at.deliver(caller(at, requested_at=hours(0.5)))
        assert (at.priced(), answers(at)) == (1, [("caller-0", "run-1", "COMPLETED")])


def test_a_result_until_reset_does_not_age_and_its_item_does_not_expire() -> None:
    with scene(triggered_cache) as at:
        built(at)
        at.clock.advance(seconds=400 * 86_400)
        at.deliver(caller(at, requested_at=at.clock.now()))
        item = at.item()
        assert item is not None
        assert (at.priced(), item.ttl) == (1, 253_402_300_799)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"keep_result": timedelta(0)}, "keep_result must be positive"),
        ({"keep_result": 60}, "keep_result"),
        ({"keep_result": HOUR, "on_conflict": IGNORE}, "it keeps results, and on_conflict=IGNORE"),
        ({"keep_result": UNTIL_RESET, "object_id": PER_REQUEST}, "with PER_REQUEST"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_definition(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        type("Wrong", (Flow,), {"stages": two_stages(Script())}, name="wrong", **{"object_id": "order_id", **options})


# -- resets -----------------------------------------------------------------------------------------------------------


def test_a_reset_drops_a_kept_result_and_the_next_request_is_carried_out() -> None:
    with scene(triggered_cache) as at:
        built(at)
        at.clock.advance(seconds=1)
        assert client(at).reset(at.flow, "o1") is ResetVerdict.DROPPED
        at.deliver(at.message())
        assert at.priced() == 1, "a copy of the request that was carried out is still no other one"
        at.deliver(caller(at, requested_at=at.clock.now()))
        work_off(at)
        assert (at.priced(), answers(at)) == (2, [("caller-0", "caller-0", "COMPLETED")])


@pytest.mark.parametrize("hop", [1, 2])
def test_a_run_that_is_reset_at_work_begins_anew_and_all_get_the_new_end(hop: int) -> None:
    """Its worker is about to commit when the reset comes."""
    with scene(triggered_cache) as at:
        if hop == 2:
            at.deliver(at.message(reply_to="sqs:completed"), caller(at))
            at.sent("close-order")
        at.clock.advance(seconds=1)
        operation = "UpdateItem" if hop == 2 else "TransactWriteItems"
        resetting = just_before_the_commit(operation, lambda: client(at).reset(at.flow, "o1"))
        last = at.second if hop == 2 else at.message
        with intercept(resetting):
            assert at.deliver(last(reply_to="sqs:completed")) == [False], "the worker is fenced"
        at.clock.advance(seconds=31)
        at.deliver(last(reply_to="sqs:completed"))
        work_off(at)
        item = at.item()
        assert item is not None
        assert (item.status.value, item.reset_at) == ("COMPLETED", None)
        assert at.priced() == (2 if hop == 2 else 1)
        assert [one for one, *_ in answers(at)] == (["caller-0", "run-1"] if hop == 2 else ["run-1"])


@pytest.mark.parametrize("hop", [1, 2])
def test_what_was_remembered_before_a_reset_is_read_anew_under_another_key(hop: int) -> None:
    """Else the result that is kept until the next reset would be the old one."""
    read: list[str] = []
    keys: list[str] = []

    with scene(triggered_cache) as at:

        def work(step: Step[OrderState]) -> None:
            read.append(step.once("read", lambda: "new" if read else "old"))
            keys.append(step.key("read"))
            if len(read) == 1:
                client(at).reset(at.flow, "o1")

        if hop == 1:
            at.script.pricing = work
        else:
            at.script.closing = work
            at.deliver(at.message())
            at.sent("close-order")
        at.clock.advance(seconds=1)
        last = at.second if hop == 2 else at.message
        assert at.deliver(last()) == [False], "the worker is fenced"
        at.clock.advance(seconds=31)
        at.deliver(last())
        work_off(at)
    assert read == ["old", "new"]
    assert len(set(keys)) == 2


def test_however_often_a_run_is_reset_at_work_no_function_counts_as_killed() -> None:
    """What a page is made of may change many times while it is made."""
    with scene(triggered_cache) as at:
        left = [2 * MOST_KILLS]

        def work(step: Step[OrderState]) -> None:
            if left[0]:
                left[0] -= 1
                at.clock.advance(seconds=1)
                client(at).reset(at.flow, "o1")

        at.script.pricing = work
        for _ in range(2 * MOST_KILLS):
            assert at.deliver(at.message(reply_to="sqs:completed")) == [False]
            at.clock.advance(seconds=31)
        at.deliver(at.message(reply_to="sqs:completed"))
        work_off(at)
        assert [(told, how) for told, _, how in answers(at)] == [("run-1", "COMPLETED")]


def test_a_reset_hides_no_function_that_was_killed_before_and_after_it() -> None:
    with scene(triggered_cache) as at:
        for number in range(MOST_KILLS):
            at.clock.advance(seconds=31)
            with pytest.raises(Died), intercept(dies_at("TransactWriteItems")):
                at.deliver(at.message())
            if number == 1:
                client(at).reset(at.flow, "o1")
        item = at.item()
        assert item is not None
        assert item.kills == MOST_KILLS - 2, "that before the reset was not seen by a claim"


def just_before_the_commit(operation: str, happens: Any) -> Any:
    return just_before_the_second(operation, happens) if operation == "UpdateItem" else _before(operation, happens)


def _before(operation: str, happens: Any) -> Any:
    ahead = [happens]

    def interceptor(call: Any, proceed: Any) -> Any:
        if call.operation == operation and ahead:
            ahead.pop()()
        return proceed()

    return interceptor


@pytest.mark.parametrize("delivered", ["the next hop", "a caller"])
def test_a_reset_whose_caller_died_before_it_sent_anything_is_mended_by_what_comes_next(delivered: str) -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message(reply_to="sqs:completed"))
        at.clock.advance(seconds=1)
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            client(at).reset(at.flow, "o1")
        comes: Message = at.second() if delivered == "the next hop" else caller(at, requested_at=at.clock.now())
        assert at.deliver(comes) == [True]
        work_off(at)
        assert at.priced() == 2
        assert "run-1" in [one for one, *_ in answers(at)]


def test_a_run_that_began_before_its_flow_took_callers_cannot_begin_anew_and_says_so() -> None:
    with scene() as at:
        at.deliver(at.message())
        flow = triggered_cache(at.script)
        at.handler = lambda_handler(flow).using(at.handler._services)
        at.clock.advance(seconds=1)
        assert client(at).reset(flow, "o1") is ResetVerdict.RESTARTED
        assert at.deliver(at.second()) == [True]
        [letter] = at.sent("dead")
        assert "it began before its flow took callers" in letter["MessageAttributes"]["flowguard"]["StringValue"]


def test_a_run_that_failed_is_redriven_and_then_reset_begins_anew() -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message(reply_to="sqs:completed"))
        at.script.closing = lambda step: reject_once(at)
        at.deliver(at.second(reply_to="sqs:completed"))
        at.script.closing = die
        with pytest.raises(Died):
            at.deliver(redriven := at.second(redrive=1, reply_to="sqs:completed"))
        at.script.closing = lambda step: None
        at.clock.advance(seconds=1)
        assert client(at).reset(at.flow, "o1") is ResetVerdict.RESTARTED
        at.deliver(redriven)
        work_off(at)
        assert (at.priced(), at.told(EventType.RESET)) == (2, 1)
        assert (at.told(EventType.TOOK_OVER), at.told(EventType.ABANDONED)) == (1, 0), "a reset abandons nothing"
        item = at.item()
        assert item is not None
        assert item.status is Status.COMPLETED


def test_a_run_that_is_reset_twice_and_then_cancelled_does_not_begin_anew() -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message(reply_to="sqs:completed"))
        for _ in range(2):
            at.clock.advance(seconds=1)
            assert client(at).reset(at.flow, "o1") is ResetVerdict.RESTARTED
        at.clock.advance(seconds=1)
        assert client(at).cancel(at.flow, "o1", why="a mistake")
        work_off(at)
        assert [(asked, status) for asked, _, status in answers(at)] == [("run-1", "FAILED")]
        assert at.priced() == 1


def test_what_a_run_before_its_reset_had_sent_changes_nothing_any_more() -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message())
        at.sent("close-order")
        at.clock.advance(seconds=1)
        assert client(at).reset(at.flow, "o1") is ResetVerdict.RESTARTED
        assert at.deliver(at.second()) == [True]
        assert at.told(EventType.RESET) == 1
        work_off(at)
        assert at.deliver(at.second()) == [True]
        assert (at.priced(), at.told(EventType.SUPERSEDED)) == (2, 1)


@pytest.mark.parametrize("fast", [6, 48])
def test_a_run_that_a_fast_clock_has_reset_begins_anew_with_the_next_request_at_the_latest(fast: int) -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message())
        at.deliver(caller(at))
        at.clock.advance(seconds=fast * 3_600)
        assert client(at).reset(at.flow, "o1") is ResetVerdict.RESTARTED
        at.clock.advance(seconds=-fast * 3_600 + 60)
        work_off(at)
        assert answers(at) == []
        assert not client(at).cancel(at.flow, "o1", why="it was asked for later, by its own time")
        at.deliver(caller(at, 1, requested_at=at.clock.now()))
        work_off(at)
        assert [(asked, by) for asked, by, _ in answers(at)] == [("caller-0", "caller-1"), ("caller-1", "caller-1")]


def test_the_same_order_to_reset_is_carried_out_once() -> None:
    with scene(triggered_cache) as at:
        built(at)
        store, now = at.handler._services.store, at.clock.now() + 1_000
        first = store.callers.reset("orders", at.message().object_id, "reset-1", now, now)
        again = store.callers.reset("orders", at.message().object_id, "reset-1", now, now)
        assert first == again
        at.deliver(caller(at, requested_at=now + 1))
        work_off(at)
        assert store.callers.reset("orders", at.message().object_id, "reset-1", now, now) is None


def test_there_may_be_nothing_to_reset() -> None:
    with scene(triggered_cache) as at:
        assert client(at).reset(at.flow, "o1") is ResetVerdict.NOTHING


def test_a_flow_that_takes_no_callers_has_nothing_to_reset() -> None:
    with scene(triggered_cache) as at, pytest.raises(RunFailed, match="keeps no result"):
        client(at).reset(Orders, "o1")
    with scene(triggered_cache) as at, pytest.raises(RunFailed, match="is empty"):
        client(at).reset(at.flow, "")


def test_a_stage_resets_another_flows_run_with_a_message_of_its_commit() -> None:
    with scene(triggered_cache) as at:
        built(at)
        at.clock.advance(seconds=1)
        at.script.closing = lambda step: step.reset(at.flow, "o1")
        other = at.order("o2", request_id=RequestId("run-9"))
        at.deliver(other)
        work_off(at)
        assert at.told(EventType.WAS_RESET) == 1
        at.script.closing = lambda step: None
        at.deliver(caller(at, requested_at=at.clock.now()))
        assert at.priced() == 2


def test_a_stage_also_resets_a_result_that_was_computed_between_its_handler_and_its_commit() -> None:
    """It was made of what the stage was about to replace."""
    with scene(triggered_cache) as at:
        changing = at.order("o2", request_id=RequestId("run-9"))
        asked: list[bool] = []

        def change(step: Any) -> None:
            step.reset(at.flow, "o1")
            at.script.closing = lambda step: None
            at.clock.advance(seconds=1)
            asked.extend(at.deliver(caller(at, requested_at=at.clock.now())))
            work_off(at)

        at.deliver(changing)
        at.script.closing = change
        work_off(at)
        assert (asked, at.told(EventType.WAS_RESET)) == ([True], 1)
        at.clock.advance(seconds=1)
        assert client(at).result(at.flow, "o1") is None


# -- reading ----------------------------------------------------------------------------------------------------------


def test_a_client_reads_a_result_that_is_good_and_may_ask_for_one_where_there_is_none() -> None:
    with scene(stored_cache) as at:
        asking, entry = client(at), at.flow.entry().payload(order_id="o1")
        assert asking.result(at.flow, "o1", otherwise=entry) is None
        work_off(at)
        found = asking.result(at.flow, "o1")
        assert found is not None
        assert found.value == {"total": 7}
        assert found.completed_at.timestamp() == START // 1000 + 0.001
        at.clock.advance(seconds=100)
        assert asking.result(at.flow, "o1", max_age=timedelta(seconds=99)) is None
        assert asking.result(at.flow, "o1", max_age=timedelta(seconds=101)) == found
        at.clock.advance(seconds=3_600)
        assert asking.result(at.flow, "o1") is None
        assert asking.result(at.flow, "o1", max_age=timedelta(days=3)) is None
        with pytest.raises(RunFailed, match="max_age"):
            asking.result(at.flow, "o1", max_age=7)  # type: ignore[arg-type]  # on purpose


def test_a_result_that_was_reset_or_of_a_run_at_work_is_none() -> None:
    with scene(triggered_cache) as at:
        built(at)
        at.clock.advance(seconds=1)
        assert client(at).result(at.flow, "o1") is not None
        client(at).reset(at.flow, "o1")
        assert client(at).result(at.flow, "o1") is None
        at.deliver(caller(at, requested_at=at.clock.now()))
        assert client(at).result(at.flow, "o1") is None


def test_attach_without_a_kept_result_reads_the_last_end() -> None:
    def plain(script: Script) -> AnyFlow:
        class Plain(
            Flow, name="orders", object_id="order_id", on_conflict=ATTACH, dead_letters="dead", trust_senders=True
        ):
            stages = two_stages(script)

        return Plain

    with scene(plain) as at:
        built(at)
        assert client(at).result(at.flow, "o1") is not None


def test_callers_that_were_answered_are_not_answered_again_without_the_result() -> None:
    """The run after theirs has committed its first hop, and their result with it is gone. Then its work begins anew."""
    with scene(triggered_cache) as at:
        at.deliver(at.message(reply_to="sqs:completed"), caller(at))
        work_off(at)
        client(at).reset(at.flow, ObjectId("o1"))
        at.clock.advance(seconds=60)
        at.deliver(at.message(request_id=RequestId("run-2"), requested_at=at.clock.now()))
        client(at).reset(at.flow, ObjectId("o1"))
        work_off(at)
        assert at.told(EventType.WAS_RESET) == 2
        assert [run for _, run, _ in answers(at)] == ["run-1", "run-1"]
