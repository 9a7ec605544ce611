"""A run that is cancelled from outside: nothing of its worker is applied any more, and all who wait are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flowguard.aws.cancellations import MOST_TRIES
from flowguard.aws.clients import Clients
from flowguard.aws.signing_keys import aws_signer
from flowguard.client import FlowClient
from flowguard.errors import Reject, RunFailed, RunTooBusy, SendFailed, SettingsError
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_KEYS
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.testing import hostile
from flowguard.verdicts import ResetVerdict
from flowguard.wire.cancel_reason import LONGEST_REASON
from flowguard.wire.message import Message
from tests.scene import START, OrderState, Scene, scene
from tests.waits import SCRIPT, SignedCarts, WaitScene, wait_scene
from tests.worker.runtime.failing import hand_over, undoing_scene, undone
from tests.worker.runtime.mishaps import Died, boom, dies_at
from tests.worker.runtime.test_callers import answers, caller, shared
from tests.worker.runtime.test_resets import work_off

TOLD = {"reply_to": "sqs:completed"}


def client(at: Scene | WaitScene) -> FlowClient:
    return FlowClient.of(at.handler._services if isinstance(at, Scene) else at.services)


def cancel(at: Scene, why: str = "ordered by mistake") -> bool:
    return client(at).cancel(at.flow, "o1", why=why)


def cancelling(at: Scene) -> Callable[[Step[OrderState]], None]:
    """A handler during which somebody cancels its run."""

    def handle(step: Step[OrderState]) -> None:
        assert cancel(at)

    return handle


def status(at: Scene) -> Status:
    item = at.item()
    assert item is not None
    return item.status


def errors(at: Scene) -> set[str]:
    """The errors in the Complete messages."""
    return {json.loads(one["Body"]).get("error", "") for one in at.sent("completed")}


@pytest.mark.usefixtures("denied_for_minutes")
def test_a_run_whose_message_is_parked_ends_with_the_redrive_of_its_letter() -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        unread = at.second(body='{"sum":7}', **TOLD)
        at.receives = 3
        assert at.deliver(unread) == [True]
        assert at.told(EventType.PARKED) == 1
        assert cancel(at)
        assert (status(at), errors(at)) == (Status.RUNNING, set()), "nothing comes that would end it"
        assert at.deliver(unread._replace(redrive=1)) == [True]
        assert (status(at), errors(at)) == (Status.FAILED, {"Cancelled: ordered by mistake"})


def test_a_run_between_two_stages_ends_with_its_next_message_and_without_a_dead_letter() -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        assert cancel(at)
        assert at.deliver(at.second(**TOLD)) == [True]
        assert (status(at), at.told(EventType.WAS_CANCELLED)) == (Status.FAILED, 1)
        assert errors(at) == {"Cancelled: ordered by mistake"}
        assert at.sent("dead") == []
        assert ("close-order", "run-1", 1) not in at.script.handled


def test_a_worker_whose_run_is_cancelled_meanwhile_is_fenced() -> None:
    with scene() as at:
        at.script.pricing = cancelling(at)
        assert at.deliver(at.message(**TOLD)) == [False], "its record comes again, and ends the run"
        assert (at.priced(), at.sent("emails"), status(at)) == (0, [], Status.RUNNING)
        assert at.deliver(at.message(**TOLD)) == [True]
        assert (status(at), errors(at)) == (Status.FAILED, {"Cancelled: ordered by mistake"})
        assert at.script.handled == [("price-order", "run-1", 1)]


def test_a_retry_that_comes_later_ends_the_run() -> None:
    with scene() as at:
        at.script.pricing = boom
        at.deliver(at.message())
        assert cancel(at)
        assert at.deliver(at.message(retry=1)) == [True]
        assert (status(at), len(at.script.handled)) == (Status.FAILED, 1)


def test_there_is_nothing_to_cancel_where_no_run_goes_on() -> None:
    with scene() as at:
        assert not cancel(at)
        at.deliver(at.message())
        at.deliver(at.second())
        assert not cancel(at)
        assert (status(at), at.told(EventType.WAS_CANCELLED)) == (Status.COMPLETED, 0)


def test_a_newer_request_is_carried_out_after_a_cancelled_one() -> None:
    with scene() as at:
        at.deliver(at.message())
        assert cancel(at)
        at.deliver(at.newer())
        assert (status(at), at.priced()) == (Status.RUNNING, 2)
        at.deliver(at.newer(stage="close-order", hop=2, body='{"total":7}'))
        assert status(at) is Status.COMPLETED


def test_a_request_from_after_the_cancellation_is_left_alone() -> None:
    with scene() as at:
        at.deliver(at.message(requested_at=at.clock.now() + 1))
        assert not cancel(at)


def test_a_copy_of_the_request_with_a_later_time_is_a_wish_of_its_own() -> None:
    with scene() as at:
        at.script.pricing = cancelling(at)
        at.deliver(at.message())
        at.script.pricing = lambda step: None
        assert at.deliver(at.message(requested_at=at.clock.now() + 1)) == [True]
        assert at.priced() == 1


def test_a_cancellation_that_comes_twice_is_one() -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        assert cancel(at, "first")
        assert cancel(at, "second")
        at.deliver(at.second(**TOLD))
        assert errors(at) == {"Cancelled: first"}
        assert not cancel(at)


def test_callers_of_a_cancelled_run_are_told() -> None:
    with scene(shared) as at:
        at.deliver(at.message(**TOLD))
        at.deliver(caller(at))
        assert cancel(at)
        at.deliver(at.second(**TOLD))
        assert answers(at) == [("caller-0", "run-1", "FAILED"), ("run-1", "run-1", "FAILED")]


def test_a_cancelled_run_is_undone_by_its_flow() -> None:
    with undoing_scene() as (at, undoing):
        at.deliver(at.message())
        assert cancel(at)
        at.deliver(at.second())
        assert at.sent("dead") == []
        assert hand_over(at) == [True]
        [(failure, state)] = undoing.seen
        assert (failure.type, failure.text, state.total) == ("Cancelled", "ordered by mistake", 7)
        assert (undone(at), status(at)) == (1, Status.FAILED)


def test_a_run_that_is_undone_already_is_left_to_end() -> None:
    def rejects(step: Step[OrderState]) -> None:
        raise Reject("no such customer")

    with undoing_scene() as (at, undoing):
        at.script.closing = rejects
        at.deliver(at.message())
        at.deliver(at.second())
        assert not cancel(at)
        hand_over(at)
        assert undoing.seen[0][0].type == "Reject"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["GetItem", "UpdateItem"])
def test_who_dies_while_cancelling_has_cancelled_or_not(operation: str, after: bool) -> None:
    with scene() as at:
        at.deliver(at.message())
        with intercept(dies_at(operation, after=after)), pytest.raises(Died):
            cancel(at)
        at.deliver(at.second())
        assert status(at) is (Status.FAILED if (operation, after) == ("UpdateItem", True) else Status.COMPLETED)


def test_a_run_that_goes_on_meanwhile_is_cancelled_where_it_is_then() -> None:
    with scene() as at:
        at.deliver(at.message())
        with intercept(just_before_the_write(lambda: at.deliver(at.second(retry=1)), at)):
            at.script.closing = boom
            assert cancel(at)
        item = at.item()
        assert item is not None
        assert (item.hop, item.cancelled_because) == (2, "ordered by mistake")


def just_before_the_write(happens: Callable[[], Any], at: Scene) -> Any:
    pending = [happens]

    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and "cancelled" in call.params.get("UpdateExpression", "") and pending:
            pending.pop()()
        return proceed()

    return interceptor


def test_a_run_that_never_holds_still_is_not_cancelled_and_that_is_said() -> None:
    count = iter(range(1_000))
    with scene() as at:
        at.deliver(at.message())
        at.clock.advance(seconds=1)

        def goes_on() -> None:
            number = next(count) + 2
            at.deliver(at.newer(request_id=RequestId(f"run-{number}"), requested_at=START + number))

        def interceptor(call: ApiCall, proceed: Proceed) -> Response:
            if call.operation == "UpdateItem" and "cancelled" in call.params.get("UpdateExpression", ""):
                goes_on()
            return proceed()

        with intercept(interceptor), pytest.raises(RunTooBusy, match=f"it moved on {MOST_TRIES} times meanwhile"):
            cancel(at)


def test_a_reason_is_bounded_and_may_hold_anything() -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        assert cancel(at, "x" * 10_000)
        item = at.item()
        assert item is not None
        kept = item.cancelled_because or ""
        assert kept.startswith("x" * LONGEST_REASON)
        assert len(kept) < LONGEST_REASON + 50, "and a word about the rest"


@pytest.mark.parametrize("text", [text for text in hostile.TEXTS if text.strip()])
def test_a_hostile_reason_ends_the_run_all_the_same(text: str) -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        assert cancel(at, text)
        assert at.deliver(at.second(**TOLD)) == [True]
        assert status(at) is Status.FAILED


@pytest.mark.parametrize("why", ["", "  ", None, 7])
def test_a_cancellation_says_why(why: Any) -> None:
    with scene() as at:
        at.deliver(at.message())
        with pytest.raises(RunFailed, match="write a text that says why"):
            cancel(at, why)
        assert at.item().cancelled_because is None  # type: ignore[union-attr]  # it was begun


@pytest.mark.parametrize(("keys", "looks"), [(SIMULATED_KEYS, []), (None, ["GetItem"])])
def test_it_costs_one_read_and_one_write_and_without_keys_a_look_whether_the_run_waits(
    keys: str | None, looks: list[str]
) -> None:
    calls: list[str] = []

    def counting(call: ApiCall, proceed: Proceed) -> Response:
        calls.append(call.operation)
        return proceed()

    with scene() as at:
        services = at.handler._services
        signer = aws_signer(Settings.model_validate({"signing_keys": keys}), Clients(), at.clock)
        at.deliver(at.message())
        with intercept(counting):
            FlowClient.of(services._replace(signer=signer)).cancel(at.flow, "o1", why="ordered by mistake")
    assert calls == [*looks, "GetItem", "UpdateItem"]


# -- ordered by a stage -----------------------------------------------------------------------------------------------


def begin_both(at: Scene) -> Message:
    """Begin two runs. Return the message at which the second one cancels the first."""
    at.deliver(at.message(**TOLD))
    at.deliver(at.order("o2", request_id=RequestId("run-9")))
    at.script.closing = lambda step: step.cancel(at.flow, "o1", why="ordered by mistake")
    at.clock.advance(seconds=1)
    second = at.order("o2", request_id=RequestId("run-9"), stage="close-order", hop=2)
    return second._replace(body='{"total":7}')


def test_a_stage_cancels_another_flows_run_with_a_message_of_its_commit() -> None:
    with scene() as at:
        assert at.deliver(begin_both(at)) == [True]
        work_off(at)
        assert at.told(EventType.WAS_CANCELLED) == 1
        assert (status(at), "Cancelled: ordered by mistake" in errors(at)) == (Status.FAILED, True)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["UpdateItem", "SendMessageBatch"])
def test_whatever_dies_under_a_stage_that_cancels_the_order_is_carried_out(operation: str, after: bool) -> None:
    with scene() as at:
        second = begin_both(at)
        with intercept(dies_at(operation, after=after)), pytest.raises(Died):
            at.deliver(second)
        at.clock.advance(seconds=60)
        assert at.deliver(second) == [True]
        work_off(at)
        assert status(at) is Status.FAILED
        assert errors(at) == {"", "Cancelled: ordered by mistake"}


@pytest.mark.parametrize("why", ["", "  ", None, 7])
def test_a_stage_says_why_it_cancels(why: Any) -> None:
    with scene() as at:
        at.script.pricing = lambda step: step.cancel(at.flow, "o2", why=why)
        at.deliver(at.message())
        item = at.item()
        assert item is not None
        assert (item.status, "write a text that says why" in str(item.error)) == (Status.FAILED, True)


# -- runs that wait ---------------------------------------------------------------------------------------------------


def test_a_run_that_waits_is_ended_at_once_and_its_answers_are_expired() -> None:
    with wait_scene() as at:
        at.begin()
        assert client(at).cancel(at.flow, "c1", why="ordered by mistake")
        at.answer("a")
        assert at.verdicts() == ["EXPIRED"]
        at.resume()
        assert (at.item().status, str(at.item().error)) == (Status.FAILED, "Cancelled: ordered by mistake")
        at.time_out()
        assert at.resume() == 0
        assert at.told(EventType.TIMED_OUT) == 0


def test_a_run_that_waits_is_not_cancelled_without_the_keys_that_its_flow_needs() -> None:
    with wait_scene() as at:
        at.begin()
        with pytest.raises(
            SettingsError, match="carts believes the message that ends a run which waits only with a signature"
        ):
            client(at).cancel(SignedCarts, "c1", why="ordered by mistake")
        assert (at.item().status, at.item().cancelled_because) == (Status.WAITING, None)


def test_a_wait_whose_answers_are_there_is_cancelled_before_it_goes_on() -> None:
    with wait_scene() as at:
        at.begin()
        for name in "abc":
            at.answer(name)
        assert client(at).cancel(at.flow, "c1", why="ordered by mistake")
        at.resume()
        assert at.item().status is Status.FAILED
        at.answer("a")
        assert at.verdicts()[-1] == "DUPLICATE"


def test_a_hop_that_has_gone_on_is_fenced_and_its_own_message_ends_the_run() -> None:
    with wait_scene() as at:
        at.begin()
        for name in "abc":
            at.answer(name)

        def cancelled(step: Step[Any]) -> None:
            SCRIPT.resumed = lambda step: None
            assert client(at).cancel(at.flow, "c1", why="ordered by mistake")

        SCRIPT.resumed = cancelled
        [resumed, *_] = at.waiting("carts")
        assert not at.deliver(resumed)
        assert at.waiting("carts") == [], "no further hop is begun"
        assert at.deliver(resumed)
        assert (at.item().status, str(at.item().error)) == (Status.FAILED, "Cancelled: ordered by mistake")


def test_an_answer_that_comes_just_before_is_no_way_round_it() -> None:
    with wait_scene() as at:
        at.begin()
        at.answer("a")
        at.answer("b")
        pending = ["c"]

        def interceptor(call: ApiCall, proceed: Proceed) -> Response:
            if call.operation == "UpdateItem" and "cancelled" in call.params["UpdateExpression"] and pending:
                at.answer(pending.pop())
            return proceed()

        with intercept(interceptor):
            assert client(at).cancel(at.flow, "c1", why="ordered by mistake")
        assert at.wait.timed_out is False, "the answers were there before"
        at.resume()
        assert at.item().status is Status.FAILED


def test_where_the_message_is_not_taken_the_deadline_ends_the_run() -> None:
    with wait_scene() as at:
        at.begin()
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            client(at).cancel(at.flow, "c1", why="ordered by mistake")
        assert at.item().status is Status.WAITING
        at.time_out()
        at.resume()
        assert (at.item().status, str(at.item().error)) == (Status.FAILED, "Cancelled: ordered by mistake")


def test_the_answers_that_are_under_way_send_no_copy_of_the_message_that_ends_the_run() -> None:
    with wait_scene() as at:
        at.begin()
        at.clock.advance(seconds=5)
        assert client(at).cancel(at.flow, "c1", why="ordered by mistake")
        for name in "abc":
            assert at.answer(name)
        assert at.verdicts() == ["EXPIRED"] * 3
        assert len(at.waiting("carts")) == 1


@pytest.mark.parametrize("over", [False, True], ids=["it waits", "its answers are there"])
def test_a_later_answer_sends_the_message_whose_canceller_has_died(over: bool) -> None:
    with wait_scene() as at:
        at.begin()
        for name in "abc" if over else "":
            at.answer(name)
        at.waiting("carts")
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            client(at).cancel(at.flow, "c1", why="ordered by mistake")
        at.clock.advance(seconds=899)
        assert at.answer("a")
        assert at.waiting("carts") == [], "the look at its wait comes in 15 minutes at most, and sends it"
        at.clock.advance(seconds=1)
        assert at.answer("b")
        at.resume()
        assert (at.item().status, str(at.item().error)) == (Status.FAILED, "Cancelled: ordered by mistake")


def test_the_look_at_its_wait_sends_the_message_whose_canceller_has_died() -> None:
    with wait_scene() as at:
        at.begin()
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            client(at).cancel(at.flow, "c1", why="ordered by mistake")
        assert at.deliver(*at.waiting("answers"))
        at.resume()
        assert at.item().status is Status.FAILED


def test_a_queue_that_does_not_take_the_message_is_an_error_that_says_so() -> None:
    with wait_scene() as at:
        at.begin()
        at.waiting("carts")
        drop = at.aws.client("sqs")
        drop.delete_queue(QueueUrl=drop.get_queue_url(QueueName="carts")["QueueUrl"])
        with pytest.raises(SendFailed, match="sqs:carts"):
            client(at).cancel(at.flow, "c1", why="ordered by mistake")
        assert at.item().cancelled_because == "ordered by mistake"


# -- a run that was reset ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [True, False], ids=["the restart is sent", "who has reset it died"])
def test_a_run_that_was_reset_and_is_cancelled_does_not_begin_anew(sent: bool) -> None:
    with scene(shared) as at:
        at.deliver(at.message(**TOLD))
        at.clock.advance(seconds=1)
        if sent:
            assert client(at).reset(at.flow, "o1") is ResetVerdict.RESTARTED
        else:
            with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
                client(at).reset(at.flow, "o1")
        at.clock.advance(seconds=1)
        at.script.handled.clear()
        assert cancel(at)
        assert client(at).reset(at.flow, "o1") is ResetVerdict.NOTHING, "another one would have another id"
        assert at.deliver(at.second(**TOLD)) == [True]
        for _ in range(2):
            hand_over(at, "price-order")
        assert (status(at), at.script.handled) == (Status.FAILED, [])
        assert errors(at) == {"Cancelled: ordered by mistake"}


def test_a_first_hop_that_was_reset_and_is_cancelled_ends_with_its_own_message() -> None:
    with scene(shared) as at:

        def both(step: Step[OrderState]) -> None:
            at.clock.advance(seconds=1)
            client(at).reset(at.flow, "o1")
            assert cancel(at)

        at.script.pricing = both
        assert at.deliver(at.message(**TOLD)) == [False]
        at.deliver(at.message(**TOLD))
        assert (status(at), len(at.script.handled)) == (Status.FAILED, 1)


def test_a_cancelled_run_is_not_reset_and_ends() -> None:
    with scene(shared) as at:
        at.deliver(at.message(**TOLD))
        at.clock.advance(seconds=1)
        assert cancel(at)
        at.clock.advance(seconds=1)
        assert client(at).reset(at.flow, "o1") is ResetVerdict.NOTHING
        at.deliver(at.second(**TOLD))
        assert (status(at), errors(at)) == (Status.FAILED, {"Cancelled: ordered by mistake"})


def test_a_reset_that_is_later_than_the_cancellation_is_not_cancelled() -> None:
    with scene(shared) as at:
        at.deliver(at.message(**TOLD))
        services = at.handler._services
        services.store.callers.reset(
            "orders", at.message().object_id, "reset-1", at.clock.now() + 60_000, at.clock.now()
        )
        assert not cancel(at)


def test_a_request_that_is_cancelled_by_who_asked_is_cancelled_also_where_its_run_was_reset() -> None:
    with scene(shared) as at:
        first = at.message(**TOLD)
        at.deliver(first)
        at.clock.advance(seconds=1)
        client(at).reset(at.flow, "o1")
        store, run = at.handler._services.store.cancellations, (first.object_id, first.requested_at)
        for _ in range(2):
            assert store.cancel("orders", *run, "not needed", at.clock.now(), first.request_id) is not None
        assert store.cancel("orders", *run, "not needed", at.clock.now(), RequestId("another")) is None
        at.script.handled.clear()
        hand_over(at, "price-order")
        assert (status(at), at.script.handled) == (Status.FAILED, [])
