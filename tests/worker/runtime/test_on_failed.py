"""A run that failed for good goes on at its flow's stage for that, once, and ends FAILED."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from flowguard.aws.services import aws_store
from flowguard.client import FlowClient
from flowguard.errors import Cancelled, Reject
from flowguard.events import EventType
from flowguard.handler import dlq_handler, lambda_handler
from flowguard.names.ids import RequestId
from flowguard.outcome import Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Claim, Commit, Committed, LeftState, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.testing import hostile
from flowguard.verdicts import ResetVerdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.worker.routing import Arrival
from flowguard.worker.unread_payload import why_unread
from tests.aws.engines import same_clients
from tests.protocol.run_items import run_item
from tests.scene import START, OrderState, Priced, Scene, record
from tests.worker.runtime.failing import Undoing, hand_over, undoing_scene, undone
from tests.worker.runtime.mishaps import Died, boom, dies_at, drop_queue, refuses, refuses_writes
from tests.worker.runtime.test_failures import carrying, claim_of
from tests.worker.runtime.test_kills import kill

pytestmark = pytest.mark.usefixtures("denied_for_minutes")

AtWork = tuple[Scene, Undoing]


@pytest.fixture
def failing() -> Iterator[AtWork]:
    """An order that was priced, and whose second stage rejects it."""
    with undoing_scene() as (at, undoing):
        at.script.closing = rejects
        at.deliver(at.message())
        at.sent("close-order")
        at.receives = 12  # denials and missing resources have had their minutes
        yield at, undoing


def rejects(step: Step[OrderState]) -> None:
    raise Reject("no such customer") from KeyError("c-9")


def status(at: Scene) -> Status:
    item = at.item()
    assert item is not None
    return item.status


def place_of(message: Any) -> dict[str, Any]:
    place: dict[str, Any] = json.loads(message["MessageAttributes"]["flowguard"]["StringValue"])
    return place


def test_the_stage_gets_the_failure_and_the_state_as_last_committed(failing: AtWork) -> None:
    at, undoing = failing
    assert at.deliver(at.second()) == [True]
    assert at.calls == ["UpdateItem", "UpdateItem"], "still two writes a stage"
    at.sent("emails")
    undoing.script = asks_and_sends
    assert hand_over(at) == [True]
    assert [one["Body"] for one in at.sent("emails")] == ['{"superseded_error":null}']
    [(failure, state)] = undoing.seen
    assert (failure.type, failure.text, failure.cause) == ("Reject", "no such customer", "KeyError: 'c-9'")
    assert (failure.stage, failure.hop, failure.attempts) == ("close-order", 2, 1)
    assert (failure.first_error, failure.payload) == ("Reject: no such customer", '{"total":7}')
    assert failure.at == datetime.fromtimestamp(START / 1000, UTC)
    assert state == OrderState(total=7)
    assert (at.priced(), undone(at)) == (0, 1)


def asks_and_sends(step: Step[OrderState]) -> None:
    step.send("emails", {"superseded_error": step.superseded_error})


def test_the_run_ends_failed_and_its_requester_is_told_after_the_undo(failing: AtWork) -> None:
    at, _ = failing
    at.deliver(at.second())
    item = at.item()
    assert item is not None
    assert (item.status, item.done, at.sent("completed")) == (Status.RUNNING, True, [])
    assert len(at.sent("dead")) == 1
    hand_over(at)
    item = at.item()
    assert item is not None
    assert (item.status, item.hop, item.error) == (Status.FAILED, 3, "Reject: no such customer")
    assert (item.state, item.own_failure is not None and item.own_failure.undone) == ('{"total":0}', True)
    [told] = at.sent("completed")
    body = json.loads(told["Body"])
    assert (body["status"], body["error"]) == ("FAILED", "Reject: no such customer")
    assert at.sent("dead") == []
    assert (at.told(EventType.FAILED), at.told(EventType.UNDONE)) == (1, 1)


def test_a_run_that_fails_at_its_first_stage_has_nothing_of_its_own_to_undo() -> None:
    with undoing_scene() as (at, undoing):
        at.script.pricing = rejects
        at.deliver(at.message())
        assert hand_over(at) == [True]
        assert [state for _, state in undoing.seen] == [OrderState()]
        assert (at.priced(), undone(at), status(at)) == (0, 1, Status.FAILED)


def test_after_a_first_stage_that_failed_it_is_handed_what_the_run_before_left() -> None:
    left: list[tuple[OrderState, OrderState | None]] = []
    with undoing_scene() as (at, undoing):
        undoing.script = lambda step: left.append((step.state.model_copy(), step.superseded))
        at.deliver(at.message())
        at.script.pricing = rejects
        at.deliver(at.newer())
        hand_over(at)
        assert left == [(OrderState(), OrderState(total=7))]


def boom_once(step: Step[OrderState]) -> None:
    if step.attempt == 1:
        raise RuntimeError("warehouse down")


def test_a_later_attempt_of_it_has_the_same(failing: AtWork) -> None:
    at, undoing = failing
    undoing.script = boom_once
    at.deliver(at.second())
    assert hand_over(at) == [True]
    assert hand_over(at) == [True]
    assert undoing.seen[0] == undoing.seen[1]
    assert (undone(at), status(at)) == (1, Status.FAILED)


def test_the_same_holds_where_a_first_hop_had_failed() -> None:
    """What the item holds is the state of the run before, at each attempt."""
    seen: list[OrderState | None] = []
    with undoing_scene() as (at, undoing):

        def script(step: Step[OrderState]) -> None:
            seen.append(step.superseded)
            boom_once(step)

        undoing.script = script
        at.deliver(at.message())
        at.script.pricing = rejects
        at.deliver(at.newer())
        hand_over(at)
        hand_over(at)
        assert seen == [OrderState(total=7), OrderState(total=7)]


@pytest.mark.parametrize("repeats", [1, 3])
def test_repeated_messages_change_nothing(failing: AtWork, repeats: int) -> None:
    at, undoing = failing
    at.deliver(at.second())
    [onward] = at.sent("undo-order")
    event = {"Messages": [{**onward, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:undo-order"}]}
    for _ in range(1 + repeats):
        at.deliver(at.second())
        assert at.handler(event) == {"batchItemFailures": []}
        at.deliver(at.second())
    assert (len(undoing.seen), undone(at), at.priced(), at.told(EventType.GIVEN_UP)) == (1, 1, 0, 0)
    assert len({place_of(letter)["redrive"] for letter in at.sent("dead")}) == 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["UpdateItem", "SendMessageBatch"])
@pytest.mark.parametrize("at_call", [1, 2])
def test_a_worker_may_die_at_any_call_of_the_hop_that_fails(
    failing: AtWork, operation: str, after: bool, at_call: int
) -> None:
    at, _ = failing
    with intercept(nth(dies_at(operation, after=after), operation, at_call)), pytest.raises(Died):
        at.deliver(at.second())
    finish(at)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("operation", "at_call"), [("UpdateItem", 1), ("TransactWriteItems", 1), ("SendMessageBatch", 1)]
)
def test_a_worker_may_die_at_any_call_of_the_hop_that_undoes(
    failing: AtWork, operation: str, after: bool, at_call: int
) -> None:
    at, _ = failing
    at.deliver(at.second())
    [onward] = at.sent("undo-order")
    event = {"Messages": [{**onward, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:undo-order"}]}
    with intercept(nth(dies_at(operation, after=after), operation, at_call)), pytest.raises(Died):
        at.handler(event)
    at.clock.advance(seconds=31)
    assert at.handler(event) == {"batchItemFailures": []}
    finish(at)


def nth(dies: Any, operation: str, number: int) -> Any:
    """Die at the n-th call of its kind."""
    seen = 0

    def interceptor(call: Any, proceed: Any) -> Any:
        nonlocal seen
        seen += call.operation == operation
        return dies(call, proceed) if call.operation == operation and seen == number else proceed()

    return interceptor


def finish(at: Scene) -> None:
    """Deliver what is there until nothing is, and look: one undo, one dead letter, one reply, each under one id."""
    at.clock.advance(seconds=31)
    assert at.deliver(at.second()) == [True]
    hand_over(at)
    assert (undone(at), at.priced(), status(at)) == (1, 0, Status.FAILED)
    assert {m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in at.sent("completed")} == {
        f"{at.second(hop=3).hop_id}.0"
    }
    letters = at.sent("dead")
    assert letters
    assert {(place_of(letter)["hop"], place_of(letter)["error"][1]) for letter in letters} == {(2, "no such customer")}


def test_the_letter_is_sent_before_the_message_that_would_clear_it(failing: AtWork) -> None:
    """The claim of the stage that undoes clears the outbox: what stands there has to be sent by then."""
    at, _ = failing
    with intercept(refuses("dead", "RequestThrottled", 400)):
        assert at.deliver(at.second()) == [False]
    assert at.sent("undo-order") == []
    assert at.deliver(at.second()) == [True]
    assert (len(at.sent("dead")), len(at.sent("undo-order"))) == (1, 1)


def test_a_stage_that_undoes_and_fails_is_a_dead_letter_of_its_own_and_ends_the_run(failing: AtWork) -> None:
    at, undoing = failing

    def reject(step: Step[OrderState]) -> None:
        raise Reject("the warehouse knows no o1")

    undoing.script = reject
    at.deliver(at.second())
    assert hand_over(at) == [True]
    item = at.item()
    both = "Reject: no such customer (and undo-order failed: Reject: the warehouse knows no o1)"
    assert item is not None
    assert (item.status, item.hop, item.error, item.state) == (Status.FAILED, 3, both, '{"total":7}')
    [told] = at.sent("completed")
    assert json.loads(told["Body"])["error"] == both
    first, own = sorted((place_of(letter) for letter in at.sent("dead")), key=lambda place: place["hop"])
    assert (first["hop"], first["error"][1]) == (2, "no such customer")
    assert (own["hop"], own["redrive"], own["error"][1]) == (3, 1, "the warehouse knows no o1")
    assert (undone(at), at.priced(), at.told(EventType.FAILED)) == (0, 1, 2)


def test_its_own_dead_letter_can_be_redriven_until_it_has_undone(failing: AtWork) -> None:
    at, undoing = failing
    undoing.script = rejects_undo
    at.deliver(at.second())
    hand_over(at)
    letters = at.sent("dead")
    [own] = [letter for letter in letters if place_of(letter)["hop"] == 3]
    undoing.script = lambda step: None
    event = {"Messages": [{**own, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:undo-order"}]}
    at.handler(event)
    assert (undone(at), at.priced(), status(at)) == (1, 0, Status.FAILED)
    at.handler(event)
    at.deliver(at.second(stage="undo-order", hop=3, redrive=7))
    assert (undone(at), len(undoing.seen)) == (1, 2)


def rejects_undo(step: Step[OrderState]) -> None:
    raise Reject("not now")


@pytest.mark.parametrize("undo_first", [False, True])
def test_a_redriven_letter_of_the_hop_that_failed_is_refused_and_lies_there_again(
    failing: AtWork, undo_first: bool
) -> None:
    at, undoing = failing
    at.deliver(at.second())
    [letter] = at.sent("dead")
    if undo_first:
        hand_over(at)
    else:
        undoing.script = lambda step: redrive(at, letter)
        hand_over(at)
    if undo_first:
        redrive(at, letter)
    assert (at.told(EventType.GIVEN_UP), undone(at), at.priced()) == (1, 1, 0)
    [again] = at.sent("dead")
    place = place_of(again)
    assert (place["redrive"], place["hop"]) == (2, 2)
    assert "the run failed here for good, and went on at undo-order" in place["error"][1]
    assert "send the request under another id" in place["error"][1]


def redrive(at: Scene, letter: Any) -> None:
    received = letter["Attributes"] | {"ApproximateReceiveCount": str(at.receives)}
    arn = "arn:aws:sqs:us-east-1:123456789012:close-order"
    at.handler({"Messages": [{**letter, "Attributes": received, "eventSourceARN": arn}]})


def test_a_letter_that_is_redriven_before_the_undo_began_sends_what_was_committed_again(failing: AtWork) -> None:
    at, undoing = failing
    at.deliver(at.second())
    [letter] = at.sent("dead")
    at.sent("undo-order")
    redrive(at, letter)
    assert (len(at.sent("dead")), at.told(EventType.GIVEN_UP)) == (1, 0)
    assert hand_over(at) == [True]
    assert (len(undoing.seen), undone(at)) == (1, 1)


def test_it_may_go_on_at_other_stages_beyond_max_hops() -> None:
    with undoing_scene(max_hops=2) as (at, undoing):
        at.script.closing = rejects
        undoing.script = lambda step: next_stage(at)
        at.deliver(at.message())
        at.sent("close-order")
        at.deliver(at.second())
        hand_over(at)
        assert status(at) is Status.RUNNING
        hand_over(at)
        item = at.item()
        assert item is not None
        assert (item.status, item.hop, item.result, item.error) == (
            Status.FAILED,
            4,
            '{"told":7}',
            "Reject: no such customer",
        )
        [told] = at.sent("completed")
        assert json.loads(told["Body"])["result"] == {"told": 7}


def next_stage(at: Scene) -> Outcome:
    tell = next(stage for stage in at.flow.stages if stage.name == "tell-support")
    return tell.message(Priced(total=7))


def test_a_message_that_sqs_gave_up_goes_the_same_way(failing: AtWork) -> None:
    at, undoing = failing
    kill(at, at.second(), 2)
    ender = dlq_handler(at.flow).using(at.handler._services)
    assert ender({"Records": [record(at.second())]}) == {"batchItemFailures": []}
    assert hand_over(at) == [True]
    [(failure, _)] = undoing.seen
    assert (failure.type, "killed 2 times" in failure.text) == ("RunFailed", True)
    assert (undone(at), status(at)) == (1, Status.FAILED)


@pytest.mark.parametrize("case", ["attempts used up", "too many kills"])
def test_whatever_ends_a_run_goes_the_same_way(failing: AtWork, case: str) -> None:
    at, undoing = failing
    at.script.closing = boom
    message = {
        "attempts used up": at.second(retry=4),
        "too many kills": at.second(),
    }[case]
    if case == "too many kills":
        kill(at, message, 5)
    assert at.deliver(message) == [True]
    assert hand_over(at) == [True]
    assert (len(undoing.seen), undone(at), status(at)) == (1, 1, Status.FAILED)


@pytest.mark.parametrize("when", ["before its claim", "before its commit"])
def test_a_newer_request_that_takes_over_first_is_told_what_was_not_undone(failing: AtWork, when: str) -> None:
    """It gets the state, and so what is to be taken back; the stage that undoes changes nothing any more."""
    at, undoing = failing
    told: list[tuple[OrderState | None, str | None]] = []
    at.script.pricing = lambda step: told.append((step.superseded, step.superseded_error))
    at.deliver(at.second())
    if when == "before its claim":
        at.deliver(at.newer())
        assert hand_over(at) == [True]
    else:
        undoing.script = lambda step: take_over(at)
        assert hand_over(at) == [True]
    assert told == [(OrderState(total=7), "Reject: no such customer")]
    assert (undone(at), at.priced()) == (0, 2)
    item = at.item()
    assert item is not None
    assert (item.request_id, item.failed) == ("run-2", None)
    assert len({json.dumps(place_of(letter)) for letter in at.sent("dead")}) == 1


def take_over(at: Scene) -> None:
    at.deliver(at.newer())


def test_an_attempt_of_the_newer_request_that_dies_loses_nothing_of_that(failing: AtWork) -> None:
    at, _ = failing
    at.deliver(at.second())

    def die(step: Step[OrderState]) -> None:
        raise Died

    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.newer())
    at.clock.advance(seconds=31)
    told: list[str | None] = []
    at.script.pricing = lambda step: told.append(step.superseded_error)
    at.deliver(at.newer())
    assert told == ["Reject: no such customer"]


@pytest.mark.parametrize("undo", ["done", "failed"])
def test_a_newer_request_after_the_end_is_told_whether_it_was_undone(failing: AtWork, undo: str) -> None:
    at, undoing = failing
    undoing.script = rejects_undo if undo == "failed" else undoing.script
    at.deliver(at.second())
    hand_over(at)
    told: list[tuple[OrderState | None, str | None]] = []
    at.script.pricing = lambda step: told.append((step.superseded, step.superseded_error))
    at.deliver(at.newer())
    expected = (OrderState(total=7), "Reject: no such customer") if undo == "failed" else (OrderState(total=0), None)
    assert told == [expected]


def test_under_ignore_the_object_is_kept_until_the_undo_is_done() -> None:
    with undoing_scene(policy=OnConflict.IGNORE) as (at, _):
        at.script.closing = rejects
        at.deliver(at.message())
        at.sent("close-order")
        at.deliver(at.second())
        at.deliver(at.newer())
        assert (at.told(EventType.IGNORED), status(at)) == (1, Status.RUNNING)
        hand_over(at)
        at.clock.advance(seconds=1)
        at.deliver(at.newer(request_id=RequestId("run-3"), requested_at=at.clock.now()))
        item = at.item()
        assert item is not None
        assert (item.request_id, item.status) == ("run-3", Status.RUNNING)


def test_a_stale_worker_of_the_failed_hop_changes_nothing(failing: AtWork) -> None:
    at, undoing = failing

    def slow(step: Step[OrderState]) -> None:
        at.script.closing = rejects
        at.clock.advance(seconds=31)
        at.deliver(at.second())
        hand_over(at)

    at.script.closing = slow
    assert at.deliver(at.second()) == [True]
    assert (undone(at), len(undoing.seen), at.priced(), status(at)) == (1, 1, 0, Status.FAILED)
    assert at.told(EventType.FENCED) == 1


def test_what_the_hop_did_early_is_handed_over(failing: AtWork) -> None:
    at, undoing = failing

    def charges(step: Step[OrderState]) -> None:
        step.once("charge", lambda: {"id": "ch-1"})
        with step.apply("note"):
            step.put("orders", {"id": "note"})
        raise Reject("sold out")

    at.script.closing = charges
    at.deliver(at.second())
    hand_over(at)
    [(failure, _)] = undoing.seen
    assert failure.remembered == {"charge": '{"id":"ch-1"}', "note": "null"}
    item = at.item()
    assert item is not None
    assert item.memo is None


def test_a_run_of_the_same_id_later_has_not_failed(failing: AtWork) -> None:
    """One id for two runs of an object, with another between them: the failure is not of the second."""
    at, _ = failing
    at.deliver(at.second())
    later = START + timedelta(minutes=1).seconds * 1000
    at.clock.advance(seconds=70)
    at.script.pricing = die_in
    with pytest.raises(Died):
        at.deliver(at.newer())
    at.script.pricing = lambda step: None
    at.deliver(at.message(requested_at=later))
    item = at.item()
    assert item is not None
    assert (item.own_failure, item.failed, item.status) == (None, None, Status.RUNNING)


def die_in(step: Step[OrderState]) -> None:
    raise Died


class Awkward(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    "error",
    [
        Reject(""),
        Reject("\0\x1b[31m\uffff\ud800" * 400),
        Reject("\N{SNOWMAN}" * 5_000),
        Awkward(),
        type("\N{SNOWMAN}" * 400, (Reject,), {})("x" * 100_000),
    ],
    ids=["empty", "surrogates", "long", "unreadable", "long type"],
)
def test_whatever_an_error_says_its_run_is_undone_once(failing: AtWork, error: Exception) -> None:
    at, undoing = failing

    def raises(step: Step[OrderState]) -> None:
        raise error from error

    at.script.closing = raises
    at.deliver(at.second(retry=9))
    assert hand_over(at) == [True]
    assert (len(undoing.seen), undone(at), status(at), len(at.sent("dead"))) == (1, 1, Status.FAILED, 1)


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        ('{"total":7,"x":"' + "a" * 32_750 + '"}', True),
        ('{"total":7,"x":"' + "a" * 32_751 + '"}', False),
    ],
    ids=["at the limit", "beyond it"],
)
def test_a_long_or_unsendable_payload_is_left_out(failing: AtWork, body: str, payload: bool) -> None:
    at, undoing = failing
    at.deliver(at.second(body=body))
    hand_over(at)
    assert [failure.payload for failure, _ in undoing.seen] == [body if payload else None]


def test_a_letter_without_room_in_the_item_is_sent_before_the_commit(failing: AtWork) -> None:
    at, undoing = failing
    body = json.dumps({"total": 7, "note": hostile.noise(420_000)})
    at.deliver(at.second(body=body))
    assert len(at.sent("dead")) == 1
    assert hand_over(at) == [True]
    assert (len(undoing.seen), undone(at), status(at)) == (1, 1, Status.FAILED)


def with_state(at: Scene, size: int) -> None:
    """Let the first hop leave a state of about this many bytes."""
    store = aws_store(Settings(), same_clients())
    first = store.claim(claim_of(at.message()))
    assert isinstance(first, Claim)
    state = json.dumps({"total": 7, "note": hostile.noise(size)})
    assert store.commit(first, Commit(Status.RUNNING, START, START + 1, None, state)) == Committed()
    at.script.closing = rejects


def test_beside_a_letter_that_has_no_room_the_payload_is_left_out() -> None:
    with undoing_scene() as (at, undoing):
        with_state(at, 517_000)
        body = json.dumps({"total": 7, "note": hostile.noise(32_000)})
        with intercept(refuses("dead", "RequestThrottled", 400)):
            assert at.deliver(at.second(body=body)) == [False]
        item = at.item()
        assert item is not None
        assert (item.done, item.failed) == (False, None), "nothing is committed before its letter is sent"
        at.clock.advance(seconds=31)
        assert at.deliver(at.second(body=body)) == [True]
        assert len(at.sent("dead")) == 1
        hand_over(at)
        assert [failure.payload for failure, _ in undoing.seen] == [None]
        assert undone(at) == 1


@pytest.mark.parametrize("is_redriven", [False, True])
def test_where_even_its_message_has_no_room_the_run_ends_failed_and_says_so(is_redriven: bool) -> None:
    """The state takes nearly all of the item, and the message's attributes are long. A redrive tries once more."""
    with undoing_scene(carry=("tenant",)) as (at, undoing):
        with_state(at, 350_000)
        carried = {"tenant": Attribute.string(hostile.noise(200_000))}
        assert at.deliver(at.second(carried=carried)) == [True]
        item = at.item()
        assert item is not None
        assert (item.status, item.failed, undoing.seen) == (Status.FAILED, None, [])
        assert item.error is not None
        assert item.error.startswith("Reject: no such customer (and undo-order was not called: the commit of orders/")
        assert len(at.sent("dead")) == 1
        if is_redriven:
            at.deliver(at.second(redrive=1))
            hand_over(at)
            assert (len(undoing.seen), undone(at), status(at)) == (1, 1, Status.FAILED)


class Down:
    """DynamoDB is down from the second write of an item on, which is the commit after the claim."""

    def __init__(self) -> None:
        self.writes = 0

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self.writes += call.operation == "UpdateItem"
        if call.operation == "UpdateItem" and self.writes > 1:
            raise EndpointConnectionError(endpoint_url="https://dynamodb")
        return proceed()


def test_an_outage_at_the_end_of_an_undo_is_no_lack_of_room(failing: AtWork) -> None:
    at, undoing = failing
    at.deliver(at.second())
    assert len(at.sent("dead")) == 1
    undoing.script = rejects
    with intercept(down := Down()):
        assert hand_over(at) == [False]
    assert (down.writes, at.sent("dead"), status(at)) == (3, [], Status.RUNNING), "claim, commit, release"


@pytest.mark.parametrize("undoes", [True, False])
def test_an_outage_after_a_letter_that_has_no_room_leaves_the_run_as_it_is(undoes: bool) -> None:
    with undoing_scene() as (at, _):
        if not undoes:
            at.handler = lambda_handler(carrying(at.script)).using(at.handler._services)
        with_state(at, 517_000)
        with intercept(down := Down()):
            assert at.deliver(at.second(body=json.dumps({"total": 7, "note": hostile.noise(32_000)}))) == [False]
        assert (down.writes, len(at.sent("dead")), status(at)) == (3, 1, Status.RUNNING), "claim, commit, release"


def test_whoever_attached_to_the_run_is_told_after_the_undo() -> None:
    with undoing_scene(policy=OnConflict.ATTACH, reply_to=("completed",)) as (at, _):
        at.script.closing = rejects
        at.deliver(at.message())
        at.sent("close-order")
        at.deliver(at.newer(reply_to="sqs:completed"))
        at.deliver(at.second())
        assert at.sent("completed") == []
        hand_over(at)
        told = [json.loads(one["Body"]) for one in at.sent("completed")]
        ends = {(one["request_id"], one["status"], one["error"]) for one in told}
        assert ends == {(run, "FAILED", "Reject: no such customer") for run in ("run-1", "run-2")}
        assert undone(at) == 1


@pytest.mark.parametrize("when", ["before it begins", "while it is at work", "after it has failed once"])
@pytest.mark.parametrize("failing_hop", [1, 2])
def test_a_reset_leaves_a_run_that_is_undone_to_its_end(when: str, failing_hop: int) -> None:
    with undoing_scene(policy=OnConflict.ATTACH, reply_to=("completed",)) as (at, undoing):
        client = FlowClient.of(at.handler._services)
        if failing_hop == 1:
            at.script.pricing = rejects
        at.script.closing = rejects
        at.deliver(at.message())
        if failing_hop == 2:
            at.sent("close-order")
            at.deliver(at.second())
        at.clock.advance(seconds=1)

        def reset(step: Step[OrderState]) -> None:
            assert client.reset(at.flow, "o1") is ResetVerdict.NOTHING

        match when:
            case "before it begins":
                assert client.reset(at.flow, "o1") is ResetVerdict.NOTHING
            case "while it is at work":
                undoing.script = reset
            case _:
                undoing.script = boom
                hand_over(at)
                undoing.script = reset
        assert hand_over(at) == [True]
        assert (undone(at), status(at)) == (1, Status.FAILED)
        assert len(at.sent("completed")) == 1
        assert client.reset(at.flow, "o1") is ResetVerdict.NOTHING


def test_a_reset_before_the_hop_has_failed_begins_the_work_anew_and_that_run_is_undone() -> None:
    with undoing_scene(policy=OnConflict.ATTACH) as (at, _):
        at.deliver(at.message())
        at.sent("close-order")
        client = FlowClient.of(at.handler._services)

        def resets(step: Step[OrderState]) -> None:
            at.clock.advance(seconds=1)
            assert client.reset(at.flow, "o1") is ResetVerdict.RESTARTED
            raise Reject("no such customer")

        at.script.closing = resets
        assert at.deliver(at.second()) == [False], "its worker is fenced, and its failure is not committed"
        assert undone(at) == 0
        at.script.closing = rejects
        for queue in ("price-order", "close-order", "undo-order"):
            assert hand_over(at, queue) == [True]
        assert (undone(at), status(at)) == (1, Status.FAILED)


# -- an inbox of the stage that refuses for good ----------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["denied", "deleted"])
def test_an_undo_whose_inbox_refuses_is_parked_and_the_run_waits_there_for_its_redrive(
    failing: AtWork, gone: str
) -> None:
    at, undoing = failing
    if gone == "deleted":
        drop_queue(at, "undo-order")
    with intercept(refuses("undo-order") if gone == "denied" else passes):
        assert at.deliver(at.second()) == [True]
    failed, undo = at.sent("dead")
    assert [stage_of(one) for one in (failed, undo)] == ["orders/close-order", "orders/undo-order"]
    place = place_of(undo)
    assert (place["hop"], place["redrive"], place["to"]) == (3, 1, "sqs:undo-order")
    assert (status(at), undone(at), at.sent("completed")) == (Status.RUNNING, 0, [])
    assert at.told(EventType.PARKED) == 1
    assert not FlowClient.of(at.handler._services).cancel(at.flow, "o1", why="it hangs")
    arn = "arn:aws:sqs:us-east-1:123456789012:undo-order"
    for _ in range(2):
        assert at.handler({"Messages": [{**undo, "eventSourceARN": arn}]}) == {"batchItemFailures": []}
    assert (status(at), undone(at), len(undoing.seen), at.priced()) == (Status.FAILED, 1, 1, 0)
    assert {one["Body"] for one in at.sent("completed")}, "who asked is told, after the undo"


def test_a_redriven_letter_of_the_failed_hop_parks_the_undo_once_more(failing: AtWork) -> None:
    at, undoing = failing
    with intercept(refuses("undo-order")):
        at.deliver(at.second())
        failed, undo = at.sent("dead")
        redrive(at, failed)
    again = at.sent("dead")
    assert [one["Body"] for one in again] == [failed["Body"], undo["Body"]]
    redrive(at, failed)
    assert hand_over(at) == [True], "the queue is there again, and gets the message"
    assert (undone(at), len(undoing.seen)) == (1, 1)


def test_a_newer_request_takes_a_run_over_whose_undo_is_parked_and_gets_its_state(failing: AtWork) -> None:
    at, undoing = failing
    with intercept(refuses("undo-order")):
        at.deliver(at.second())
    _, undo = at.sent("dead")
    seen: list[tuple[Any, Any]] = []
    at.script.pricing = lambda step: seen.append((step.superseded, step.superseded_error))
    at.deliver(at.newer())
    assert seen == [(OrderState(total=7), "Reject: no such customer")]
    at.handler({"Messages": [{**undo, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:undo-order"}]})
    assert (undone(at), undoing.seen, at.told(EventType.SUPERSEDED)) == (0, [], 1)


def test_a_request_that_this_code_cannot_read_fails_and_undoes_nothing(failing: AtWork) -> None:
    at, _ = failing
    assert at.deliver(at.order("o2", request_id="run-2")._replace(body="[]")) == [True]
    [letter] = at.sent("dead")
    assert (place_of(letter)["hop"], place_of(letter)["object"], at.sent("undo-order")) == (1, "o2", [])


@pytest.mark.parametrize(
    ("code", "compensates"),
    [("AccessDeniedException", False), ("ResourceNotFoundException", False), ("ValidationException", True)],
)
def test_a_table_that_is_denied_or_missing_undoes_nothing_and_the_run_goes_on_after_a_redrive(
    failing: AtWork, code: str, compensates: bool
) -> None:
    at, _ = failing
    with intercept(refuses_writes(code)):
        assert at.deliver(at.newer()) == [True]
    [letter] = at.sent("dead")
    assert (status(at), len(at.sent("undo-order"))) == (Status.RUNNING, compensates)
    if compensates:
        return
    at.handler({"Messages": [{**letter, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:price-order"}]})
    assert (at.priced(), len(at.sent("close-order"))) == (2, 1)


@pytest.mark.parametrize(
    ("about", "item", "is_unread"),
    [
        ({}, {}, True),
        ({"hop": 2}, {}, True),
        ({"hop": 2, "resumed": True}, {}, False),
        ({"body": '{"order_id":"o1"}'}, {}, False),
        ({}, {"kills": 1}, False),
        ({}, {"left": LeftState(str, 0)}, True),
    ],
)
def test_a_payload_that_cannot_be_read_is_told_from_one_that_kills_its_function(
    failing: AtWork, about: dict[str, Any], item: dict[str, Any], is_unread: bool
) -> None:
    at, _ = failing
    [envelope] = normalize({"Records": [record(at.message())]})
    assert isinstance(envelope, Envelope)
    message = at.message(**{"body": "[]", **about})
    arrival = Arrival(envelope, at.flow, at.flow.stage("price-order"), message)
    assert (why_unread(arrival, run_item(**item), Reject("no")) is not None) is is_unread
    assert why_unread(arrival, run_item(**item), Cancelled("the customer called")) is None, (
        "that is carried out in any case"
    )


def test_a_request_that_cannot_be_read_undoes_nothing_and_the_next_one_gets_what_the_run_before_left() -> None:
    seen: list[tuple[OrderState | None, str | None]] = []
    with undoing_scene() as (at, _):
        at.script.closing = rejects
        at.deliver(at.message())
        at.deliver(at.second())
        assert at.deliver(at.newer(body="[]")) == [True]
        assert (status(at), len(at.sent("undo-order"))) == (Status.FAILED, 1), "that of the run before"
        at.script.pricing = lambda step: seen.append((step.superseded, step.superseded_error))
        at.deliver(at.newer(request_id=RequestId("run-3"), requested_at=at.message().requested_at + 2_000))
    assert seen == [(OrderState(total=7), "Reject: no such customer")]


def test_an_undo_whose_tables_are_denied_ends_its_run_with_a_letter_of_its_own(failing: AtWork) -> None:
    at, _ = failing
    at.deliver(at.second())
    at.sent("dead")
    with intercept(refuses_writes("AccessDeniedException")):
        assert hand_over(at) == [True]
    [letter] = at.sent("dead")
    assert (place_of(letter)["hop"], place_of(letter)["error"][0], status(at)) == (3, "WriteDenied", Status.FAILED)


def test_an_undo_whose_retry_cannot_be_sent_is_a_dead_letter_of_its_own_and_the_run_has_failed(failing: AtWork) -> None:
    at, undoing = failing
    at.deliver(at.second())
    at.sent("dead")
    undoing.script = boom
    with intercept(refuses("undo-order")):
        assert hand_over(at) == [True]
    [letter] = at.sent("dead")
    assert (place_of(letter)["hop"], status(at), undone(at)) == (3, Status.FAILED, 0)
    undoing.script = lambda step: None
    at.handler({"Messages": [{**letter, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:undo-order"}]})
    assert (status(at), undone(at)) == (Status.FAILED, 1)


def stage_of(letter: Any) -> str:
    stage: str = letter["MessageAttributes"]["flowstage"]["StringValue"]
    return stage


def passes(call: ApiCall, proceed: Proceed) -> Response:
    return proceed()
