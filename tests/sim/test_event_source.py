"""The event source mapping alone: visibility, receive counts, redrive and FIFO order, on no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from flowguard.sim.calls import ApiCall, Response
from flowguard.sim.event_source import EventSource, failures_of
from flowguard.sim.functions import Functions, ServedFunction
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.waiting_records import Delivery
from flowguard.testing import sqs_event
from flowguard.worker.patience import MANY_RECEIVES

VISIBILITY = 30_000


class Nothing:
    """No record comes from elsewhere."""

    def arrive(self, now: int) -> None:
        pass

    def moments(self) -> list[int]:
        return []


class Later:
    """A record comes when its time has come, and only then."""

    def __init__(self, source: EventSource, at: int) -> None:
        self._source, self._at = source, [at]

    def arrive(self, now: int) -> None:
        while self._at and self._at[0] <= now:
            self._at.pop()
            put(self._source, "late", at=now)

    def moments(self) -> list[int]:
        return self._at


@pytest.fixture
def source() -> EventSource:
    """Of two functions that know nothing of flowguard."""
    found, no_services = EventSource(most_receives=2), object()
    served = {
        queue: ServedFunction(queue, lambda event: None, VISIBILITY, plain=True) for queue in ("orders", "orders.fifo")
    }
    found.functions = Functions((), no_services, served)  # type: ignore[arg-type]  # no flow needs any
    return found


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with VirtualTime(0) as found:
        yield found


def put(source: EventSource, body: str, queue: str = "orders", at: int = 0, group: str = "g") -> Delivery:
    event = sqs_event(queue, body, message_id=body, group=group if queue.endswith(".fifo") else None)
    (record,) = read_recording(event)
    assert isinstance(record, RecordedRecord)
    return source.put(record.envelope, record.raw, queue, at)


def take(source: EventSource, time: VirtualTime, **about: Any) -> Delivery | None:
    delivery = source.next(time, Nothing(), **about)
    if delivery is not None:
        source.begin(delivery, time.now())
    return delivery


def test_the_time_goes_to_what_is_due_next(source: EventSource, time: VirtualTime) -> None:
    later, sooner = put(source, "later", at=500), put(source, "sooner", at=200)
    assert [source.next(time, Nothing()), time.now()] == [sooner, 200]
    source.end(sooner, acked=True)
    assert source.next(time, Nothing(), until=499) is None
    assert time.now() == 200, "nobody waits for what is due too late"
    assert source.next(time, Nothing(), until=500) is later


def test_what_comes_from_elsewhere_is_waited_for(source: EventSource, time: VirtualTime) -> None:
    delivery = source.next(time, Later(source, 700))
    assert delivery is not None
    assert (delivery.message_id, time.now()) == ("late", 700)


def test_before_the_time_goes_on_something_else_may_happen(source: EventSource, time: VirtualTime) -> None:
    first, asked = put(source, "first", at=900), []

    def meanwhile(moments: list[int]) -> bool:
        asked.append(moments)
        if len(asked) == 1:
            source.copy(first, 0)
            return True
        return False

    copy = source.next(time, Nothing(), meanwhile=meanwhile)
    assert (copy is not first, time.now(), asked) == (True, 0, [[900]])


def test_a_record_is_seen_again_after_its_visibility_with_its_count(source: EventSource, time: VirtualTime) -> None:
    delivery = put(source, "a")
    assert take(source, time) is delivery
    assert delivery.event()["Records"][0]["attributes"]["ApproximateReceiveCount"] == "1"
    assert not source.end(delivery, acked=False)
    assert take(source, time) is delivery
    assert time.now() == VISIBILITY
    assert delivery.event()["Records"][0]["attributes"]["ApproximateReceiveCount"] == "2"


def test_a_record_that_came_too_early_has_as_many_receives_as_the_queues_of_templates(
    source: EventSource, time: VirtualTime
) -> None:
    delivery = put(source, "a")
    for receive in range(1, MANY_RECEIVES):
        assert take(source, time) is delivery
        assert not source.end(delivery, acked=False, too_early=True), receive
    assert take(source, time) is delivery
    assert source.end(delivery, acked=False, too_early=True)
    assert delivery.from_dlq


def test_a_record_that_was_given_up_says_which_queue_it_was_moved_from(source: EventSource, time: VirtualTime) -> None:
    delivery = put(source, "a")
    for given_up in (False, True):
        assert take(source, time) is delivery
        assert "DeadLetterQueueSourceArn" not in delivery.event()["Records"][0]["attributes"]
        assert source.end(delivery, acked=False) is given_up
    assert take(source, time) is delivery
    attributes = delivery.event()["Records"][0]["attributes"]
    assert attributes["DeadLetterQueueSourceArn"] == delivery.envelope.queue_arn
    assert attributes["ApproximateReceiveCount"] == "1"


def test_what_fails_after_it_came_too_early_is_given_up_as_soon_as_any_other(
    source: EventSource, time: VirtualTime
) -> None:
    delivery = put(source, "a")
    ends = []
    for too_early in (True, True, True, False, False):
        assert take(source, time) is delivery
        ends.append(source.end(delivery, acked=False, too_early=too_early))
    assert ends == [False, False, False, False, True]
    for end in (False, True):
        assert take(source, time) is delivery
        assert source.end(delivery, acked=False) is end, "it is counted anew"


def test_a_record_that_was_written_without_its_count_is_counted_too(source: EventSource, time: VirtualTime) -> None:
    raw = {"messageId": "a", "body": "{}", "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:r:1:orders"}
    (record,) = read_recording({"Records": [raw]})
    assert isinstance(record, RecordedRecord)
    delivery = source.put(record.envelope, record.raw, "orders", 0)
    take(source, time)
    source.end(delivery, acked=False)
    take(source, time)
    assert delivery.event()["Records"][0]["attributes"] == {"ApproximateReceiveCount": "2"}


def test_after_its_last_receive_it_goes_to_the_dead_letters_and_then_nowhere(
    source: EventSource, time: VirtualTime
) -> None:
    delivery, ends = put(source, "a"), []
    while take(source, time) is not None:
        ends.append((source.end(delivery, acked=False), delivery.from_dlq))
    assert ends == [(False, False), (True, True), (False, True), (True, True)]
    assert not source.is_waiting(delivery)


@pytest.mark.parametrize("how", [{"acked": True}, {"acked": False, "left": True}])
def test_what_is_done_or_would_always_be_answered_alike_is_deleted(
    how: dict[str, bool], source: EventSource, time: VirtualTime
) -> None:
    delivery = put(source, "a")
    take(source, time)
    assert not source.end(delivery, **how)
    assert not source.is_waiting(delivery)


def test_a_last_receive_may_be_the_first_but_not_of_a_dead_letter(source: EventSource, time: VirtualTime) -> None:
    delivery = put(source, "a")
    take(source, time)
    assert source.end(delivery, acked=False, last=True)
    take(source, time)
    assert not source.end(delivery, acked=False, last=True)
    assert source.is_waiting(delivery)


def test_a_group_waits_behind_its_first_record(source: EventSource, time: VirtualTime) -> None:
    first, second = put(source, "1", "orders.fifo"), put(source, "2", "orders.fifo")
    other = put(source, "3", "orders.fifo", group="h")
    assert take(source, time) is first
    assert take(source, time) is other
    source.end(other, acked=True)
    assert source.next(time, Nothing(), until=VISIBILITY - 1) is None, "the group's first is in a worker's hands"
    assert source.others(second) == [], "which has been received"
    source.end(first, acked=True)
    assert take(source, time) is second


def test_a_fifo_group_gives_nothing_out_while_any_of_its_messages_is_in_flight(
    source: EventSource, time: VirtualTime
) -> None:
    """As https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagegroupid-property.html
    says: a worker that has failed at the first, and still holds the second, holds up both."""
    first, second = put(source, "a", "orders.fifo"), put(source, "b", "orders.fifo")
    other = put(source, "c", "orders.fifo", group="h")
    assert take(source, time) is first
    assert source.with_it(first, 2, time.now()) == [second]
    postpone(source, first, 2)
    assert take(source, time) is other, "which is of another group"
    hand_back(source, second)
    assert take(source, time) is first
    assert time.now() == 2_000


@pytest.mark.parametrize(
    ("hide", "due"), [(lambda source, one: postpone(source, one, 100), 100_000), (EventSource.show_early, 0)]
)
def test_a_record_in_hand_is_hidden_for_longer_or_shown_early(
    hide: Callable[..., Any], due: int, source: EventSource, time: VirtualTime
) -> None:
    delivery = put(source, "a")
    take(source, time)
    hide(source, delivery) if due else hide(source, delivery, 0)
    assert take(source, time) is delivery
    assert time.now() == due


def postpone(source: EventSource, delivery: Delivery, seconds: int) -> bool:
    params = {"ReceiptHandle": delivery.envelope.receipt_handle, "VisibilityTimeout": seconds}
    client: Any = None
    return source.postponed(ApiCall("sqs", "ChangeMessageVisibility", params, 1, client), 0)


def hand_back(source: EventSource, *deliveries: Delivery) -> bool:
    entries = [
        {"Id": str(place), "ReceiptHandle": one.envelope.receipt_handle, "VisibilityTimeout": 0}
        for place, one in enumerate(deliveries)
    ]
    client: Any = None
    return source.postponed(ApiCall("sqs", "ChangeMessageVisibilityBatch", {"Entries": entries}, 1, client), 0)


def test_several_records_are_handed_back_in_one_call(source: EventSource, time: VirtualTime) -> None:
    first, second, elsewhere = put(source, "a"), put(source, "b"), put(source, "c")
    assert [take(source, time), take(source, time)] == [first, second]
    assert hand_back(source, elsewhere, first, second)
    assert not hand_back(source, elsewhere)
    assert (first.visible_at, second.visible_at) == (0, 0)


def test_a_record_of_elsewhere_is_not_postponed_here(source: EventSource) -> None:
    assert not postpone(source, put(source, "never received"), 5)


DELETED: Final = {"ResponseMetadata": {"HTTPStatusCode": 200}}


def delete(
    source: EventSource, operation: str = "DeleteMessage", /, queue: str = "orders", **params: Any
) -> Response | None:
    client: Any = None
    url = f"https://sqs.us-east-1.amazonaws.com/123456789012/{queue}"
    return source.deleted(ApiCall("sqs", operation, {"QueueUrl": url, **params}, 1, client))


def test_a_record_that_its_function_deletes_does_not_come_again(source: EventSource, time: VirtualTime) -> None:
    handle = put(source, "a").envelope.receipt_handle
    delivery = take(source, time)
    assert delete(source, queue="others", ReceiptHandle=handle) is None, "it came from another queue"
    assert delivery is not None
    assert source.is_waiting(delivery)
    assert delete(source, ReceiptHandle=handle) == DELETED
    assert not source.is_waiting(delivery)
    assert delete(source, ReceiptHandle=handle) == DELETED, "what is gone is deleted once more"


def test_several_records_are_deleted_in_one_call(source: EventSource, time: VirtualTime) -> None:
    handles = [put(source, body).envelope.receipt_handle for body in ("a", "b", "c")]
    taken = [take(source, time), take(source, time)]
    entries = [{"Id": f"n{place}", "ReceiptHandle": handle} for place, handle in enumerate(handles)]
    twice = [{**entry, "Id": "n0"} for entry in entries[:2]]
    assert delete(source, "DeleteMessageBatch", Entries=twice) is None, "ids of one batch differ"
    many = [{"Id": f"n{place}", "ReceiptHandle": handles[0]} for place in range(11)]
    assert delete(source, "DeleteMessageBatch", Entries=many) is None, "a batch has ten entries at most"
    assert delete(source, "DeleteMessageBatch", Entries=many[:10]) is not None
    answer = delete(source, "DeleteMessageBatch", Entries=entries[:2])
    assert answer == {**DELETED, "Successful": [{"Id": "n0"}, {"Id": "n1"}]}
    assert [one is not None and source.is_waiting(one) for one in taken] == [False, False]
    assert delete(source, "DeleteMessageBatch", Entries=entries) is None, "the third one was never received"


def test_what_is_no_deletion_of_a_record_from_here_is_the_engines(source: EventSource, time: VirtualTime) -> None:
    handle = put(source, "a").envelope.receipt_handle
    delivery = take(source, time)
    assert delete(source, ReceiptHandle="elsewhere") is None
    assert delete(source, "ReceiveMessage", ReceiptHandle=handle) is None
    assert delivery is not None
    assert source.is_waiting(delivery)


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (None, ()),
        ({}, ()),
        ({"batchItemFailures": []}, ()),
        ({"batchItemFailures": None}, ()),
        ({"batchItemFailures": [{"itemIdentifier": "a"}]}, ("a",)),
        ("text", ()),
    ],
)
def test_an_answer_names_what_is_delivered_again(answer: Any, failed: tuple[str, ...]) -> None:
    assert failures_of(answer) == failed


# -- several at once


def fellows(source: EventSource, time: VirtualTime, batch: int = 10) -> list[str]:
    first = take(source, time)
    assert first is not None
    return [first.message_id, *(one.message_id for one in source.with_it(first, batch, time.now()))]


def test_a_function_gets_what_its_queue_shows_and_no_more_than_its_batch(
    source: EventSource, time: VirtualTime
) -> None:
    for body in ("a", "b", "c"):
        put(source, body)
    put(source, "of another queue", queue="orders.fifo")
    put(source, "later", at=500)
    assert fellows(source, time, 2) == ["a", "b"]
    assert fellows(source, time) == ["c"]
    assert fellows(source, time) == ["of another queue"]


def test_no_event_has_two_copies_of_one_record(source: EventSource, time: VirtualTime) -> None:
    source.copy(put(source, "a"), 0)
    assert [fellows(source, time), fellows(source, time)] == [["a"], ["a"]]


def test_of_a_fifo_group_an_event_has_the_next_ones_in_their_order(source: EventSource, time: VirtualTime) -> None:
    for body, group, at in (("a1", "a", 0), ("b1", "b", 900), ("a2", "a", 0), ("b2", "b", 0), ("a3", "a", 0)):
        put(source, body, queue="orders.fifo", group=group, at=at)
    assert fellows(source, time, 3) == ["a1", "a2", "a3"], "b2 waits behind b1, which is not to be seen yet"


def test_what_no_queue_delivers_comes_alone(source: EventSource, time: VirtualTime) -> None:
    for body in ("a", "b"):
        [record] = read_recording(sqs_event("orders", body, message_id=body))
        assert isinstance(record, RecordedRecord)
        source.put(record.envelope, record.raw, None, 0)
    first = source.next(time, Nothing())
    assert first is not None
    assert source.with_it(first, 10, 0) == []
