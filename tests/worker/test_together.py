"""Records that are claimed and committed together end as they would have ended one by one, in a few calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.run_orders import cancel_attributes
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.moto import EmbeddedAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing.context import FakeContext
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import Message
from flowguard.wire.signing import UNSIGNED
from tests.scene import START, Order, OrderState, Priced, Scene, Script, message_id, record, scene

BATCH, UPDATE = "BatchExecuteStatement", "UpdateItem"


def plain(script: Script) -> AnyFlow:
    """A flow of two stages that records no writes."""

    class PriceOrder(
        Stage[Order, OrderState],
        name="price-order",
        then="close-order",
        inbox="price-order",
        retry=RetryPolicy(attempts=3, backoff=Fixed(20), jitter=0),
    ):
        def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
            script.handled.append((order.order_id, step.request_id, step.attempt))
            script.pricing(step)
            step.state.total = len(order.order_id)
            step.send("emails", {"priced": order.order_id})
            return CloseOrder.message(Priced(total=7))

    class CloseOrder(Stage[Priced, OrderState], name="close-order", inbox="close-order"):
        def handle(self, priced: Priced, step: Step[OrderState]) -> Outcome:
            script.handled.append((step.object_id, step.request_id, step.attempt))
            script.closing(step)
            return Done({"total": step.state.total})

    class Orders(Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead"):
        stages = (PriceOrder, CloseOrder)

    return Orders


def ignoring(script: Script) -> AnyFlow:
    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", on_conflict=OnConflict.IGNORE):
        stages = plain(script).stages

    return Orders


def attaching(script: Script) -> AnyFlow:
    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", on_conflict=OnConflict.ATTACH):
        stages = plain(script).stages

    return Orders


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(plain) as found:
        yield together(found)


def together(at: Scene) -> Scene:
    at.handler.together = True
    return at


def order(at: Scene, number: int, **changes: Any) -> Message:
    return at.order(f"o{number}", request_id=RequestId(f"run-{number}"), **changes)


def orders(at: Scene, count: int) -> list[Message]:
    return [order(at, number) for number in range(count)]


def next_hops(at: Scene, count: int) -> list[Message]:
    return [one._replace(stage="close-order", hop=2, body='{"total":7}') for one in orders(at, count)]


def items(at: Scene, count: int) -> list[RunItem | None]:
    """The items but for what is drawn: owners, and epochs that a repeated claim raises."""
    found = [at.item(f"o{number}") for number in range(count)]
    return [None if one is None else one._replace(owner=one.owner[:0], epoch=0) for one in found]  # type: ignore[arg-type]


def fails_for(*names: str) -> Callable[[Step[OrderState]], None]:
    def fail(step: Step[OrderState]) -> None:
        if step.object_id in names:
            raise ValueError("sold out")

    return fail


# -- how many calls ---------------------------------------------------------------------------------------------------


def test_ten_new_objects_take_two_calls_and_so_do_ten_next_hops(at: Scene) -> None:
    assert at.deliver(*orders(at, 10)) == [True] * 10
    assert at.calls == [BATCH, BATCH]
    assert len(at.sent("close-order")) == 10
    assert at.deliver(*next_hops(at, 10)) == [True] * 10
    assert at.calls == [BATCH, BATCH]
    assert [item.status for item in items(at, 10) if item is not None] == [Status.COMPLETED] * 10


def test_one_record_goes_as_it_goes_alone(at: Scene) -> None:
    assert at.deliver(order(at, 0)) == [True]
    assert at.calls == [UPDATE, UPDATE]


def test_without_the_option_each_record_goes_alone(at: Scene) -> None:
    at.handler.together = False
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at.calls == [UPDATE] * 6


@pytest.mark.parametrize("flow", [plain, ignoring, attaching])
def test_a_batch_ends_as_its_records_end_one_by_one(flow: Callable[[Script], AnyFlow]) -> None:
    ends = []
    for shared in (False, True):
        with scene(flow) as at:
            at.handler.together = shared
            at.script.pricing = fails_for("o2")
            acked = [at.deliver(*orders(at, 4)), at.deliver(*next_hops(at, 4)), at.deliver(*orders(at, 4))]
            sent = {queue: [one["Body"] for one in at.sent(queue)] for queue in ("emails", "close-order", "dead")}
            events = sorted(event.type.value for event in at.tally.events)
            ends.append((acked, items(at, 4), sent, events))
    assert ends[0] == ends[1]


# -- what goes in turn ------------------------------------------------------------------------------------------------


def test_records_of_one_object_go_in_turn(at: Scene) -> None:
    newer = order(at, 0, requested_at=order(at, 0).requested_at + 1)._replace(request_id=RequestId("run-0b"))
    assert at.deliver(order(at, 0), order(at, 1), newer, order(at, 0)) == [True] * 4
    assert [name for name, _, _ in at.script.handled] == ["o0", "o1", "o0"]
    item = at.item("o0")
    assert item is not None
    assert item.request_id == "run-0b"
    assert at.told(EventType.STALE) == 1


def test_two_copies_of_a_message_are_handled_once(at: Scene) -> None:
    assert at.deliver(order(at, 0), order(at, 0), order(at, 1), order(at, 1)) == [True] * 4
    assert [name for name, _, _ in at.script.handled] == ["o0", "o1"]


def fifo(message: Message, place: int, group: str) -> dict[str, Any]:
    found = record(message, place)
    found["eventSourceARN"] += ".fifo"
    found["attributes"] |= {"MessageGroupId": group}
    return found


def deliver_fifo(at: Scene, *records: dict[str, Any]) -> list[int]:
    """The places that stay."""

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetQueueUrl" and call.params["QueueName"].endswith(".fifo"):
            return {"QueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/price-order.fifo"}
        return {} if call.operation == "ChangeMessageVisibility" else proceed()

    with intercept(watch):
        answer = at.handler({"Records": list(records)})
    back = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
    return [place for place in range(len(records)) if message_id(place) in back]


def test_the_groups_of_a_fifo_queue_go_together_and_each_in_its_order(at: Scene) -> None:
    at.script.pricing = fails_for("o2")
    groups = ["red", "blue", "red", "blue", "red"]
    records = [fifo(order(at, place), place, group) for place, group in enumerate(groups)]
    with intercept(Recorder()) as calls:
        assert deliver_fifo(at, *records) == [2, 4]
    assert [name for name, _, _ in at.script.handled] == ["o0", "o1", "o2", "o3"]
    sends = [place for place, call in enumerate(calls.calls) if call.service == "sqs" and "Send" in call.operation]
    claims = [place for place, call in enumerate(calls.calls) if call.operation == BATCH]
    assert min(sends) < max(claims), "what the first wave commits is sent before the second wave is claimed"
    assert at.item("o4") is None


def ordered(at: Scene, attributes: dict[str, Attribute], place: int) -> dict[str, Any]:
    found = record(order(at, 0), place)
    return {**found, "body": "{}", "messageAttributes": attributes_to(Attribute.to_sqs_record, attributes)}


@pytest.mark.parametrize("first", [False, True])
def test_an_order_to_cancel_goes_in_turn_with_the_records_of_its_object(at: Scene, first: bool) -> None:
    cancel = cancel_attributes("orders", "price-order", ObjectId("o0"), "cancel-1", START, "a mistake", UNSIGNED)
    records = [record(order(at, 0), 0), record(order(at, 1), 1), record(order(at, 2), 2)]
    records.insert(0 if first else 1, ordered(at, cancel, 3))
    assert at.handler({"Records": records}) == {"batchItemFailures": []}
    assert sorted(name for name, _, _ in at.script.handled) == ["o0", "o1", "o2"]
    item = at.item("o0")
    assert item is not None
    assert (item.cancelled_because == "a mistake") is not first, "there was no run to cancel"


# -- each its own -----------------------------------------------------------------------------------------------------


def test_a_stage_that_fails_harms_its_own_record_alone(at: Scene) -> None:
    at.script.pricing = fails_for("o1")
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at.told(EventType.RETRIED) == 1
    assert [item.done for item in items(at, 3) if item is not None] == [True, False, True]


def test_recorded_writes_are_transactions_of_their_own() -> None:
    with scene() as at:
        together(at)
        assert at.deliver(*orders(at, 3)) == [True] * 3
        assert at.calls == [BATCH, *["TransactWriteItems"] * 3]
        assert at.priced() == 1
        assert [item.done for item in items(at, 3) if item is not None] == [True] * 3


def test_a_commit_that_closes_a_list_of_callers_is_made_alone() -> None:
    with scene(attaching) as at:
        together(at)
        at.deliver(*orders(at, 2))
        assert at.deliver(*next_hops(at, 2)) == [True] * 2
        assert at.calls == [BATCH, UPDATE, UPDATE]


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("which", [1, 2])
def test_a_request_whose_answer_is_lost_or_that_fails_is_made_up_for_by_single_calls(
    at: Scene, which: int, applied: bool
) -> None:
    met: list[None] = []

    def fail(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != BATCH:
            return proceed()
        met.append(None)
        if len(met) != which:
            return proceed()
        if applied:
            proceed()
        raise ClientError({"Error": {"Code": "InternalServerError", "Message": "no"}}, BATCH)

    with intercept(fail):
        assert at.deliver(*orders(at, 3)) == [True] * 3
    assert [item.done for item in items(at, 3) if item is not None] == [True] * 3
    assert len(at.script.handled) == 3
    assert len(at.sent("close-order")) == 3


def test_where_the_engine_has_no_such_request_single_calls_are_made() -> None:
    with scene(plain, engine=EmbeddedAWS) as at:
        together(at)
        assert at.deliver(*orders(at, 2)) == [True] * 2
        assert at.calls == [BATCH, *[UPDATE] * 4]
        assert [item.done for item in items(at, 2) if item is not None] == [True] * 2


def test_an_outage_keeps_each_record_in_its_queue(at: Scene) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "dynamodb":
            raise ClientError({"Error": {"Code": "InternalServerError", "Message": "no"}}, call.operation)
        return proceed()

    with intercept(down):
        assert at.deliver(*orders(at, 3)) == [False] * 3
    assert (at.told(EventType.BROKEN), at.told(EventType.RETURNED)) == (1, 2)
    assert at.deliver(*orders(at, 3)) == [True] * 3


# -- those that may kill ----------------------------------------------------------------------------------------------


def test_a_record_that_may_have_killed_a_worker_is_begun_when_the_others_are_committed(at: Scene) -> None:
    def kill(step: Step[OrderState]) -> None:
        raise Killed

    at.script.pricing = kill
    with pytest.raises(Killed):
        at.deliver(orders(at, 1)[0])
    at.script.handled.clear()
    at.clock.advance(seconds=31)
    records = [record(message, place) for place, message in enumerate(orders(at, 3))]
    for one in records:
        one["attributes"]["ApproximateReceiveCount"] = "2"
    done: list[list[bool | None]] = []

    def look(step: Step[OrderState]) -> None:
        found = [at.item(f"o{number}") for number in range(3)]
        done.append([None if one is None else one.done for one in found])

    at.script.pricing = look
    assert at.handler({"Records": records}) == {"batchItemFailures": []}
    assert [name for name, _, _ in at.script.handled] == ["o1", "o2", "o0"]
    assert done == [[False, False, False], [False, False, False], [False, True, True]]


class Killed(KeyboardInterrupt):
    """The end of the process."""


def test_what_a_killed_worker_leaves_is_done_when_its_leases_are_over(at: Scene) -> None:
    def kill(step: Step[OrderState]) -> None:
        if step.object_id == "o1":
            raise Killed

    at.script.pricing = kill
    with pytest.raises(Killed):
        at.deliver(*orders(at, 3))
    assert [item.done for item in items(at, 3) if item is not None] == [False] * 3
    at.script.pricing = lambda step: None
    assert at.deliver(*orders(at, 3)) == [False] * 3, "their leases are not over"
    at.clock.advance(seconds=31)
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert [item.done for item in items(at, 3) if item is not None] == [True] * 3
    assert len(at.sent("close-order")) == 3


# -- time -------------------------------------------------------------------------------------------------------------


def taking(at: Scene, *ms: int) -> Callable[[Step[OrderState]], None]:
    left = iter(ms)
    return lambda step: at.clock.advance(ms=next(left))


@pytest.mark.parametrize(
    ("each", "commits"),
    [
        ((100, 100, 100, 100), [3, 1]),
        ((0, 0, 0, 0), [4]),
        ((125, 125, 1, 1), [3, 1]),
        ((125, 126, 1, 1), [2, 2]),
        ((250, 0, 0, 0), [4]),
        ((251, 1, 1, 1), [1, 1, 1, 1]),
    ],
)
def test_no_commit_waits_longer_than_a_quarter_of_a_second_for_handlers_like_those_before(
    at: Scene, each: tuple[int, ...], commits: list[int]
) -> None:
    at.script.pricing = taking(at, *each)
    with intercept(Recorder()) as calls:
        assert at.deliver(*orders(at, 4)) == [True] * 4
    made = [call for call in calls.calls if call.service == "dynamodb"][1:]
    assert [len(call.params.get("Statements", [None])) for call in made] == commits


def test_no_commit_waits_when_little_time_is_left(at: Scene) -> None:
    context = FakeContext(timeout=timedelta(milliseconds=1_999), clock=at.clock)
    assert at.deliver(*orders(at, 3), context=context) == [True] * 3
    assert at.calls == [BATCH, UPDATE, UPDATE, UPDATE]


def test_what_was_claimed_and_not_begun_is_given_back(at: Scene) -> None:
    context = FakeContext(timeout=timedelta(seconds=10), clock=at.clock)
    at.script.pricing = taking(at, 1_000, 9_000)
    assert at.deliver(*orders(at, 4), context=context) == [True, True, False, False]
    assert at.told(EventType.RETURNED) == 2
    at.script.pricing = lambda step: None
    assert at.deliver(*orders(at, 4)) == [True] * 4
    assert [item.retry for item in items(at, 4) if item is not None] == [0] * 4


def test_a_lease_that_is_nearly_over_is_asked_for_once_more(at: Scene) -> None:
    at.script.pricing = taking(at, 16_000, 0)
    assert at.deliver(*orders(at, 2)) == [True] * 2
    assert at.calls == [BATCH, UPDATE, UPDATE, UPDATE]
    item = at.item("o1")
    assert item is not None
    assert item.epoch == 2


def test_no_more_is_claimed_than_there_is_time_for() -> None:
    class Slow(Stage[Order, OrderState], name="price-order", inbox="price-order", timeout=timedelta(seconds=20)):
        def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
            return Done()

    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead"):
        stages = (Slow,)

    with scene(lambda script: Orders) as at:
        together(at)
        context = FakeContext(timeout=timedelta(seconds=62), clock=at.clock)
        with intercept(Recorder()) as calls:
            assert at.deliver(*orders(at, 4), context=context) == [True] * 4
        claims = next(call for call in calls.calls if call.operation == BATCH)
        assert len(claims.params["Statements"]) == 3


def test_what_cannot_be_read_is_said_once_when_its_turn_has_come(at: Scene) -> None:
    unknown = order(at, 9)._replace(stage="nowhere", flow="nobody")
    assert at.deliver(order(at, 0), unknown, order(at, 1)) == [True, False, True]
    assert at.told(EventType.UNROUTABLE) == 1


def test_a_message_without_an_object_is_a_dead_letter_and_harms_no_other(at: Scene) -> None:
    nameless = at.message(object_id=ObjectId(""), body="{}")
    assert at.deliver(order(at, 0), nameless, order(at, 1)) == [True] * 3
    assert len(at.sent("dead")) == 1


@pytest.mark.usefixtures("denied_for_minutes")
@pytest.mark.parametrize("shared", [False, True])
def test_a_message_that_no_item_can_hold_is_a_dead_letter_and_harms_no_other(at: Scene, shared: bool) -> None:
    at.handler.together = shared
    at.receives = 3
    hostile = order(at, 9)._replace(stage="x" * 256, hop=2)
    assert at.deliver(order(at, 0), hostile, order(at, 1)) == [True] * 3
    assert len(at.sent("dead")) == 1
