"""FIFO queues: what stays holds up its group, and the item counts the attempts that the record cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.destinations import Queue
from flowguard.events import EventType
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Claim, ClaimRequest, Refused, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.verdicts import Verdict
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import Message
from flowguard.worker.claimed_again import goes_on
from flowguard.worker.routing import Arrival
from tests.scene import OrderState, Scene, message_id, record
from tests.worker.runtime.mishaps import Died, die


def order(at: Scene, number: int, **changes: Any) -> Message:
    name = f"o{number}"
    fields = {"object_id": ObjectId(name), "request_id": RequestId(f"run-{name}"), "body": f'{{"order_id":"{name}"}}'}
    return at.message(**{**fields, **changes})


def fifo_record(message: Message, place: int, group: str, receives: int = 1) -> dict[str, Any]:
    found = record(message, place)
    found["eventSourceARN"] += ".fifo"
    found["attributes"] |= {"MessageGroupId": group, "ApproximateReceiveCount": str(receives)}
    return found


def deliver_fifo(at: Scene, *records: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The places that come back, and the visibility each postponed record was given."""
    waits: list[int] = []

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetQueueUrl" and call.params["QueueName"].endswith(".fifo"):
            return {"QueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/price-order.fifo"}
        if call.operation == "ChangeMessageVisibility":
            waits.append(call.params["VisibilityTimeout"])
            return {}
        return proceed()

    with intercept(watch):
        answer = at.handler({"Records": list(records)})
    back = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
    return [place for place in range(len(records)) if message_id(place) in back], waits


def test_after_a_failed_record_the_rest_of_its_group_comes_back_untouched_and_other_groups_go_on(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    records = [
        fifo_record(order(at, 0), 0, "red"),
        fifo_record(order(at, 1), 1, "blue"),
        fifo_record(order(at, 2), 2, "red"),
        fifo_record(order(at, 3), 3, "blue"),
    ]
    assert deliver_fifo(at, *records) == ([0, 2], [20])
    assert at.sent("price-order") == [], "order is kept: no copy is sent"
    assert [name for name, _, _ in at.script.handled] == ["price-order"] * 3
    assert at.item("o2") is None


def test_a_fifo_record_that_comes_back_is_the_next_attempt_although_no_lease_has_ended(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=20)
    assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([], [])
    assert [attempt for _, _, attempt in at.script.handled] == [1, 2]


@pytest.mark.parametrize(("after", "rests"), [(0, 20), (1_500, 19), (19_000, 1), (19_001, None)])
def test_a_fifo_record_that_comes_before_its_delay_is_over_is_hidden_again_without_an_attempt(
    at: Scene, after: int, rests: int | None
) -> None:
    """SQS has refused to hide it for so long. It counts in seconds, so one that is a little early is in time."""
    at.script.pricing = fail_for("o0")
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    before = at.item("o0")
    at.script.pricing = lambda step: None
    at.clock.advance(ms=after)
    back = ([], []) if rests is None else ([0, 1], [rests])
    assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red"), fifo_record(order(at, 2), 1, "red")) == back
    assert at.told(EventType.BUSY) == (rests is not None)
    if rests is not None:
        assert (at.item("o0"), at.item("o2"), len(at.script.handled)) == (before, None, 1)
        at.clock.advance(seconds=rests)
        assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([], [])
    assert [attempt for name, run, attempt in at.script.handled if run == "run-o0"] == [1, 2]


def test_a_fifo_record_whose_worker_has_a_clock_ahead_of_all_others_rests_for_no_longer(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    at.clock.advance(seconds=3_600)
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=20 - 3_600)
    assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([], [])
    assert [attempt for _, _, attempt in at.script.handled] == [1, 2]


def test_a_request_in_a_fifo_queue_that_is_cancelled_ends_its_run_although_that_rests(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at.flow.stage("price-order"), "inbox", Queue("price-order.fifo"))
    at.script.pricing = fail_for("o0")
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    assert deliver_fifo(at, fifo_record(order(at, 0, cancelled="not wanted"), 1, "red")) == ([], [])
    item = at.item("o0")
    assert item is not None
    assert (item.status, len(at.script.handled)) == (Status.FAILED, 1)


def test_a_retry_in_place_says_why_sqs_does_not_hide_its_record(at: Scene) -> None:
    def throttled(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ChangeMessageVisibility":
            raise ClientError({"Error": {"Code": "RequestThrottled", "Message": "slow down"}}, call.operation)
        return proceed()

    at.script.pricing = fail_for("o0")
    at.aws.create_queue("price-order.fifo", FifoQueue="true")
    with intercept(throttled):
        at.handler({"Records": [fifo_record(order(at, 0), 0, "red")]})
    [retried] = [event.facts for event in at.tally.events if event.type is EventType.RETRIED]
    assert "RequestThrottled" in retried["not_hidden"]
    at.clock.advance(seconds=20)
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    [_, retried] = [event.facts for event in at.tally.events if event.type is EventType.RETRIED]
    assert dict(retried) == {"error": "RuntimeError", "delay": 20}


def test_what_a_fifo_record_is_counted_to_is_not_noted_since_it_comes_back(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    item = at.item("o0")
    assert item is not None
    assert (item.retry, item.called_attempt) == (1, "")


def test_the_last_attempt_of_a_fifo_record_ends_its_run_and_frees_its_group(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    for _ in range(2):
        assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([0], [20])
        at.clock.advance(seconds=20)
    records = [fifo_record(order(at, 0), 0, "red"), fifo_record(order(at, 2), 1, "red")]
    assert deliver_fifo(at, *records) == ([], [])
    item = at.item("o0")
    assert item is not None
    assert (item.status, len(at.sent("dead"))) == (Status.FAILED, 1)
    assert at.item("o2") is not None


@pytest.mark.parametrize("receives", [1, 9])
def test_how_often_a_fifo_record_was_delivered_says_nothing_about_its_attempts(at: Scene, receives: int) -> None:
    """It counts waiting behind a failing record too, and begins anew when the record is moved."""
    at.script.pricing = fail_for("o2")
    for attempt in (1, 2):
        assert deliver_fifo(at, fifo_record(order(at, 2), 0, "red", receives=receives)) == ([0], [20])
        assert at.script.handled[-1] == ("price-order", "run-o2", attempt)
        at.clock.advance(seconds=20)
    at.script.pricing = lambda step: None
    assert deliver_fifo(at, fifo_record(order(at, 2), 0, "red")) == ([], [])
    assert (at.sent("dead"), at.script.handled[-1][2]) == ([], 3)


def test_a_fifo_record_whose_worker_died_is_the_same_attempt_once_its_lease_is_over(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    at.script.pricing = die
    at.clock.advance(seconds=20)
    with pytest.raises(Died):
        deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    at.script.pricing = lambda step: None
    assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([0], [30])
    at.clock.advance(seconds=30)
    assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([], [])
    assert [attempt for _, _, attempt in at.script.handled] == [1, 2, 2]


def test_a_fifo_record_whose_attempt_fails_between_its_two_claims_is_not_acknowledged(at: Scene) -> None:
    """A second worker has the record too early. It is told DUPLICATE, asks as the attempt that is at work, and by then
    that one has failed."""
    store = aws_store(Settings(), Clients())
    at.script.pricing = fail_for("o0")
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    at.script.pricing = lambda step: None
    at_work = store.claim(claim_request(order(at, 0).at_retry(1), at.clock.now()))
    assert isinstance(at_work, Claim)
    claims = 0

    def fails_between(call: ApiCall, proceed: Proceed) -> Response:
        nonlocal claims
        claims += call.operation == "UpdateItem"
        if claims == 2:
            claims += 1
            store.release(at_work, at.clock.now(), failed=True)
        return proceed()

    with intercept(fails_between):
        assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([], [])
    item = at.item("o0")
    assert item is not None
    assert (item.done, item.retry, at.script.handled[-1][2]) == (True, 2, 3)


def claim_request(message: Message, now: int) -> ClaimRequest:
    return ClaimRequest(
        message=message,
        owner=Owner("at-work"),
        now=now,
        lease_until=now + 30_000,
        on_conflict=OnConflict.SUPERSEDE,
        abandoned_before=0,
        expires_at=2 * now,
    )


def test_a_fifo_records_messages_are_sent_before_the_next_record_is_begun(at: Scene) -> None:
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"), fifo_record(order(at, 1), 1, "red"))
    events = [h.type.value for h in at.tally.events]
    assert events == ["claimed", "committed", "sent", "sent"] * 2


def test_a_fifo_record_whose_messages_were_not_taken_holds_its_group(at: Scene) -> None:
    def throttled(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise ClientError({"Error": {"Code": "RequestThrottled", "Message": "slow down"}}, call.operation)
        return proceed()

    with intercept(throttled):
        assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red"), fifo_record(order(at, 1), 1, "red"))[0] == [0, 1]
    assert at.item("o1") is None


def fail_for(name: str) -> Callable[[Step[OrderState]], None]:
    def pricing(step: Step[OrderState]) -> None:
        if step.object_id == name:
            raise RuntimeError("down")

    return pricing


def test_where_there_is_no_item_no_attempt_is_counted_in_it(at: Scene) -> None:
    [envelope] = normalize({"Records": [fifo_record(at.second(), 1, "g")]})
    assert isinstance(envelope, Envelope)
    arrival = Arrival(envelope, at.flow, at.flow.stage("close-order"), at.second())
    assert goes_on(arrival, Refused(Verdict.GONE, None)) is None
