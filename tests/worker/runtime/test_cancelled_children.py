"""Runs that a cancelled run waits for: they are cancelled too where their ask says so, whatever comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from flowguard.aws.services import aws_store
from flowguard.client import FlowClient
from flowguard.clock import ManualClock
from flowguard.errors import RunFailed
from flowguard.events import EventType
from flowguard.failed import Failure
from flowguard.flow import AnyFlow, Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import RunItem, Status
from flowguard.settings import Settings
from flowguard.sim.calls import intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message
from flowguard.wire.signing import Keyring, Keys, KeySigner
from tests.aws.engines import same_clients
from tests.waits import DEADLINE, START, Cart, Progress, WaitScene, record, wait_scene
from tests.worker.runtime.mishaps import Died, dies_at

WHY = "ordered by mistake"


@dataclass
class Script:
    """What the stages do."""

    asks: Callable[[Step[Progress]], dict[str, Any]] = lambda step: {"a": ask(step)}
    child: Callable[[Step], Outcome] = lambda step: Done(1)
    end: Callable[[Step[Progress]], object] = lambda step: None
    handled: list[str] = field(default_factory=list)


SCRIPT = Script()


class Begin(Stage[Cart, Progress], name="begin", then="end", inbox="carts"):
    def handle(self, cart: Cart, step: Step[Progress]) -> Outcome:
        return End.when_all(**SCRIPT.asks(step), within=timedelta(minutes=10))


class End(Stage[dict[str, Any], Progress], name="end", inbox="carts"):
    def handle(self, answers: dict[str, Any], step: Step[Progress]) -> Outcome:
        SCRIPT.end(step)
        return Done()


class Undo(Stage[Failure, Progress], name="undo", inbox="carts"):
    def handle(self, failure: Failure, step: Step[Progress]) -> Outcome:
        SCRIPT.handled.append(f"undo {failure.type}")
        return Done()


class Parent(Flow, name="carts", object_id="cart_id", answers="answers", carry=("tenant",), trust_senders=True):
    stages = (Begin, End)


class Undoing(Flow, name="carts", object_id="cart_id", answers="answers", on_failed=Undo, trust_senders=True):
    stages = (Begin, End, Undo)


class First(Stage[Cart], name="first", then=("second", "grown"), inbox="searches"):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        SCRIPT.handled.append(f"first {cart.cart_id}")
        return SCRIPT.child(step)


class Second(Stage[Cart], name="second", inbox="searches"):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        SCRIPT.handled.append(f"second {cart.cart_id}")
        return Done(2)


class Grown(Stage[dict[str, Any]], name="grown", inbox="searches"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Child(
    Flow,
    name="child",
    object_id="cart_id",
    answers="answers",
    complete_to="completed",
    carry=("tenant",),
    trust_senders=True,
):
    stages = (First, Second, Grown)


class Shared(
    Flow, name="shared", object_id="cart_id", answers="answers", on_conflict=OnConflict.ATTACH, trust_senders=True
):
    stages = (First, Second, Grown)


def ask(step: Step[Any], object_id: str = "s1", **options: Any) -> Any:
    return step.ask(Child, Cart(cart_id=object_id), **{"cancel_too": True, **options})


def goes_on(step: Step) -> Outcome:
    return Second.message(Cart(cart_id=step.object_id))


@contextmanager
def family(flow: AnyFlow = Parent) -> Iterator[WaitScene]:
    """One function that serves the flow that asks and the one that is asked, in a world of its own."""
    fresh = Script()
    SCRIPT.asks, SCRIPT.child, SCRIPT.end, SCRIPT.handled = fresh.asks, fresh.child, fresh.end, fresh.handled
    with wait_scene(flow) as at:
        at.function = lambda_handler(flow, Child).using(at.services)
        for queue in ("child-dead-letters", "shared-dead-letters"):
            at.aws.create_queue(queue)
        yield at


def cancel(at: WaitScene) -> None:
    """Cancel the run that waits, and let its message end it."""
    assert FlowClient.of(at.services).cancel(at.flow, "c1", why=WHY)
    at.resume()


def begun(at: WaitScene) -> list[dict[str, Any]]:
    """Begin the run that waits. Return the records by which the others are asked."""
    at.begin(carried={"tenant": Attribute.string("north")})
    return at.waiting("searches")


def child(at: WaitScene, object_id: str = "s1") -> RunItem | None:
    return aws_store(Settings(), same_clients()).read("child", ObjectId(object_id))


def ended(at: WaitScene, object_id: str = "s1") -> tuple[Status, str] | None:
    item = child(at, object_id)
    return None if item is None else (item.status, str(item.error))


CANCELLED = (Status.FAILED, f"Cancelled: {WHY}")


def grow(at: WaitScene) -> None:
    """Deliver what lies in the inbox of the flow that was asked, first what is cancelled, until nothing does."""
    while records := sorted(at.waiting("searches"), key=lambda one: bool(one["body"] != "cancelled")):
        for one in records:
            assert at.deliver(one)


# -- whatever comes first ---------------------------------------------------------------------------------------------


def test_a_child_that_has_not_begun_never_begins() -> None:
    with family() as at:
        asked = begun(at)
        cancel(at)
        grow(at)
        assert ended(at) == CANCELLED
        assert all(at.deliver(one) for one in asked)
        assert (ended(at), SCRIPT.handled) == (CANCELLED, [])
        assert at.waiting("child-dead-letters") == []


def test_a_child_at_its_first_hop_is_fenced_and_ended_by_the_request_that_is_cancelled() -> None:
    with family() as at:
        [asked] = begun(at)

        def meanwhile(step: Step) -> Outcome:
            cancel(at)
            [again] = at.waiting("searches")
            assert not at.deliver(again), "its worker is fenced; it comes again at once"
            assert at.deliver(again)
            return Done(1)

        SCRIPT.child = meanwhile
        assert at.deliver(asked), "its hop has ended"
        assert ended(at) == CANCELLED


def test_a_child_between_two_hops_ends_with_its_next_message() -> None:
    with family() as at:
        SCRIPT.child = goes_on
        assert all(at.deliver(one) for one in begun(at))
        cancel(at)
        grow(at)
        assert (ended(at), SCRIPT.handled) == (CANCELLED, ["first s1"])


def test_a_child_that_waits_ends_at_once_and_cancels_its_own() -> None:
    with family() as at:

        def asks_further(step: Step) -> Outcome:
            if step.object_id != "s1":
                return Done(1)
            return Grown.when_all(a=ask(step, "s2"), within=timedelta(minutes=10))

        SCRIPT.child = asks_further
        assert all(at.deliver(one) for one in begun(at))
        further = at.waiting("searches")
        cancel(at)
        grow(at)
        assert (ended(at), ended(at, "s2")) == (CANCELLED, CANCELLED)
        assert all(at.deliver(one) for one in further)
        assert SCRIPT.handled == ["first s1"]


def test_a_child_that_has_ended_is_left_as_it_is() -> None:
    with family() as at:
        assert all(at.deliver(one) for one in begun(at))
        assert at.waiting("answers"), "its answer is on its way"
        cancel(at)
        grow(at)
        assert ended(at) == (Status.COMPLETED, "None")


def test_a_retried_child_is_ended_by_its_retry() -> None:
    def fails(step: Step) -> Outcome:
        raise ValueError("not now")

    with family() as at:
        SCRIPT.child = fails
        assert all(at.deliver(one) for one in begun(at))
        [again] = at.waiting("searches")
        assert at.deliver(again)
        cancel(at)
        grow(at)
        assert (ended(at), SCRIPT.handled) == (CANCELLED, ["first s1", "first s1"])


# -- what is not its child any more -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_id", "later"),
    [("another", 1), ("another", 60_000), (None, 1)],
    ids=["a newer request", "one from after the end", "the same id at a later time"],
)
@pytest.mark.parametrize("first", ["the request", "its cancellation"])
def test_an_object_that_has_gone_over_to_another_request_is_left_alone(
    request_id: str | None, later: int, first: str
) -> None:
    with family() as at:
        SCRIPT.child = goes_on
        [asked] = begun(at)
        named = asked["messageAttributes"]["uniquerequestid"]["stringValue"]
        newer = Message(
            "child", "first", 1, ObjectId("s1"), RequestId(request_id or named), START + later, '{"cart_id":"s1"}'
        )
        assert at.deliver(asked)
        at.waiting("searches")
        if request_id is None:  # its run is over before: only then the id names another one
            other = newer._replace(request_id=RequestId("between"), requested_at=START + 1)
            assert at.deliver(record(other.attributes(), other.body, "searches"))
            newer = newer._replace(requested_at=START + 2)
        at.move_to(START + later)
        before = [newer] if first == "the request" else []
        for one in before:
            assert at.deliver(record(one.attributes(), one.body, "searches"))
        cancel(at)
        found = at.waiting("searches")
        [again] = [one for one in found if one["body"] == "cancelled"]
        assert at.deliver(again)
        if not before:
            assert at.deliver(record(newer.attributes(), newer.body, "searches"))
        item = child(at)
        assert item is not None
        assert (item.request_id, item.requested_at) == (newer.request_id, newer.requested_at)
        assert item.cancelled_because is None
        assert all(at.deliver(one) for one in found)
        grow(at)
        assert ended(at) == (Status.COMPLETED, "None")


def test_only_those_are_cancelled_whose_ask_says_so_and_that_have_not_answered() -> None:
    with family() as at:
        SCRIPT.child = goes_on
        SCRIPT.asks = lambda step: {
            "a": ask(step, "s1"),
            "b": ask(step, "s2"),
            "c": ask(step, "s3", cancel_too=False),
        }
        assert all(at.deliver(one) for one in begun(at))
        at.waiting("searches")
        at.answer("b")
        cancel(at)
        sent = at.waiting("searches")
        assert [one["body"] for one in sent] == ["cancelled"]
        assert all(at.deliver(one) for one in sent)
        noted = {name: item.cancelled_because for name in ("s1", "s2", "s3") if (item := child(at, name))}
        assert noted == {"s1": WHY, "s2": None, "s3": None}


def test_a_run_that_ends_otherwise_cancels_nobody() -> None:
    with family() as at:
        asked = begun(at)
        at.time_out(DEADLINE)
        at.resume()
        assert at.waiting("searches") == []
        assert all(at.deliver(one) for one in asked)
        assert ended(at) == (Status.COMPLETED, "None")


def test_a_cancelled_run_that_is_superseded_before_it_has_ended_cancels_nobody() -> None:
    with family() as at:
        asked = begun(at)
        assert FlowClient.of(at.services).cancel(at.flow, "c1", why=WHY)
        SCRIPT.asks = lambda step: {"a": ask(step, "s2")}
        at.begin(request_id=RequestId("run-2"), requested_at=START + 1)
        at.resume()
        assert [one["body"] for one in at.waiting("searches")] == ['{"cart_id":"s2"}']
        assert all(at.deliver(one) for one in asked)
        assert ended(at) == (Status.COMPLETED, "None")


# -- the run that is cancelled ----------------------------------------------------------------------------------------


def test_a_run_that_is_undone_cancels_its_children_with_the_commit_that_gives_it_up() -> None:
    with family(Undoing) as at:
        asked = begun(at)
        cancel(at)
        assert SCRIPT.handled == ["undo Cancelled"]
        grow(at)
        assert all(at.deliver(one) for one in asked)
        assert (ended(at), SCRIPT.handled) == (CANCELLED, ["undo Cancelled"])


def test_no_stage_has_a_write_more() -> None:
    with family() as at:
        begun(at)
        assert at.calls == ["UpdateItem", "UpdateItem"]
        FlowClient.of(at.services).cancel(at.flow, "c1", why=WHY)
        [resumed] = at.waiting("carts")
        assert at.deliver(resumed)
        assert at.calls == ["UpdateItem", "UpdateItem"]
        [cancelled] = at.waiting("searches")
        assert at.deliver(cancelled)
        assert at.calls == ["UpdateItem", "UpdateItem"]


def test_what_is_carried_goes_along_and_the_end_is_told() -> None:
    with family() as at:
        begun(at)
        cancel(at)
        grow(at)
        [told] = at.waiting("completed")
        assert told["messageAttributes"]["tenant"]["stringValue"] == "north"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["UpdateItem", "SendMessageBatch"])
def test_the_run_may_die_at_its_end(operation: str, after: bool) -> None:
    with family() as at:
        begun(at)
        FlowClient.of(at.services).cancel(at.flow, "c1", why=WHY)
        [resumed] = at.waiting("carts")
        with intercept(dies_at(operation, after=after)), pytest.raises(Died):
            at.deliver(resumed)
        at.clock.advance(seconds=60)
        assert at.deliver(resumed)
        grow(at)
        assert ended(at) == CANCELLED


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["UpdateItem", "SendMessageBatch"])
def test_the_worker_of_a_cancelled_request_may_die(operation: str, after: bool) -> None:
    with family() as at:
        begun(at)
        cancel(at)
        [cancelled] = at.waiting("searches")
        with intercept(dies_at(operation, after=after)), pytest.raises(Died):
            at.deliver(cancelled)
        at.clock.advance(seconds=60)
        assert at.deliver(cancelled)
        assert ended(at) == CANCELLED
        assert {one["body"].count("Cancelled") for one in at.waiting("completed")} == {1}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["GetItem", "UpdateItem", "SendMessageBatch"])
def test_the_worker_of_a_cancelled_request_may_die_over_a_child_that_waits(operation: str, after: bool) -> None:
    with family() as at:
        SCRIPT.child = lambda step: Grown.when_all(x=step.event("x"), within=timedelta(minutes=10))
        assert all(at.deliver(one) for one in begun(at))
        cancel(at)
        [cancelled] = at.waiting("searches")
        with intercept(dies_at(operation, after=after)), pytest.raises(Died):
            at.deliver(cancelled)
        assert at.deliver(cancelled)
        grow(at)
        assert ended(at) == CANCELLED


# -- who may say so ---------------------------------------------------------------------------------------------------


def test_where_messages_are_signed_a_stranger_cancels_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Child, "trust_senders", False)
    signer = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))
    with family() as at:
        SCRIPT.child = goes_on
        at.services = at.services._replace(signer=signer)
        at.function = lambda_handler(at.flow, Child).using(at.services)
        assert all(at.deliver(one) for one in begun(at))
        cancel(at)
        *_, cancelled = at.waiting("searches")
        assert cancelled["body"] == "cancelled"
        place = cancelled["messageAttributes"]["flowguard"]
        forged = {**place, "stringValue": place["stringValue"].replace(WHY, "a wish of mine")}
        assert not at.deliver(
            {**cancelled, "messageAttributes": {**cancelled["messageAttributes"], "flowguard": forged}}
        )
        assert at.told(EventType.UNTRUSTED) == 1
        assert at.deliver(cancelled)
        item = child(at)
        assert item is not None
        assert item.cancelled_because == WHY


def test_an_ask_says_so_only_of_a_run_that_is_for_it_alone() -> None:
    problems: list[str] = []

    def noting(step: Step[Progress]) -> dict[str, Any]:
        asks: Any = step.ask
        for to in (Shared, "asked"):
            with pytest.raises(RunFailed) as refused:
                asks(to, Cart(cart_id="s1"), cancel_too=True)
            problems.append(str(refused.value))
        return {"a": ask(step)}

    with family() as at:
        SCRIPT.asks = noting
        begun(at)
    assert "shared answers other requests with the same run" in problems[0]
    assert "cancel_too is for another flow" in problems[1]


# -- by a stage, after a wait that ended without them -----------------------------------------------------------------


def cancelling(said: list[int]) -> Callable[[Step[Progress]], object]:
    """What a stage does that needs no more answers, and hears how many there were without one."""
    return lambda step: said.append(step.cancel_children(why=WHY))


def late(at: WaitScene) -> None:
    """Let the wait time out, and the stage after it run."""
    at.move_to(DEADLINE)
    assert at.time_out()
    assert at.resume()


def test_a_stage_cancels_the_children_that_are_late() -> None:
    with family() as at:
        said: list[int] = []
        SCRIPT.end = cancelling(said)
        SCRIPT.child = goes_on
        asked = begun(at)
        late(at)
        grow(at)
        assert said == [1]
        assert ended(at) == CANCELLED
        assert all(at.deliver(one) for one in asked)
        assert (ended(at), SCRIPT.handled) == (CANCELLED, []), "it never begins"
        assert at.item().status is Status.COMPLETED, "its parent went on without it"


def test_a_child_that_is_at_work_ends_with_its_next_message() -> None:
    with family() as at:
        SCRIPT.end = cancelling([])
        SCRIPT.child = goes_on
        assert all(at.deliver(one) for one in begun(at))
        late(at)
        grow(at)
        assert (ended(at), SCRIPT.handled) == (CANCELLED, ["first s1"])


def test_children_that_have_answered_or_were_asked_without_it_go_on() -> None:
    with family() as at:
        said: list[int] = []
        SCRIPT.asks = lambda step: {"a": ask(step), "b": ask(step, "s2", cancel_too=False), "c": ask(step, "s3")}
        SCRIPT.end = cancelling(said)
        begun(at)
        assert at.answer("a")
        late(at)
        assert [one["body"] for one in at.waiting("searches")] == ["cancelled"]
        assert said == [1]


def test_a_child_is_cancelled_once_however_often_the_stage_says_so() -> None:
    with family() as at:
        said: list[int] = []

        def twice(step: Step[Progress]) -> None:
            cancelling(said)(step)
            cancelling(said)(step)

        SCRIPT.end = twice
        begun(at)
        late(at)
        assert len(at.waiting("searches")) == 1
        assert said == [1, 0]


def test_a_stage_after_no_wait_has_no_children() -> None:
    with family() as at:
        said: list[int] = []

        def first(step: Step[Progress]) -> dict[str, Any]:
            cancelling(said)(step)
            return {"a": ask(step)}

        SCRIPT.asks = first
        begun(at)
        assert said == [0]


def test_an_attempt_that_fails_cancels_nobody() -> None:
    with family() as at:

        def fails(step: Step[Progress]) -> None:
            step.cancel_children(why=WHY)
            raise ValueError("on purpose")

        SCRIPT.end = fails
        begun(at)
        late(at)
        assert at.waiting("searches") == []


def test_who_cancels_children_need_not_say_why() -> None:
    with family() as at:
        SCRIPT.end = lambda step: step.cancel_children()
        SCRIPT.child = goes_on
        asked = begun(at)
        late(at)
        grow(at)
        assert all(at.deliver(one) for one in asked)
        assert ended(at) == (Status.FAILED, "Cancelled: the run that has asked for it needs it no more")


def test_an_empty_reason_is_refused() -> None:
    with family() as at:

        def silent(step: Step[Progress]) -> None:
            with pytest.raises(RunFailed, match="why"):
                step.cancel_children(why="")
            SCRIPT.handled.append("refused")

        SCRIPT.end = silent
        begun(at)
        late(at)
        assert SCRIPT.handled == ["refused"]


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("operation", ["UpdateItem", "SendMessageBatch"])
def test_whoever_dies_the_children_are_cancelled_with_the_commit(operation: str, after: bool) -> None:
    with family() as at:
        SCRIPT.end = cancelling([])
        begun(at)
        at.move_to(DEADLINE)
        assert at.time_out()
        [onward] = at.waiting("carts")
        with intercept(dies_at(operation, after=after)), pytest.raises(Died):
            at.deliver(onward)
        at.move_to(DEADLINE + 3_600_000)
        assert at.deliver(onward)
        grow(at)
        assert ended(at) == CANCELLED
