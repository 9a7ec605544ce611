"""What is sent arrives as it was meant, in batches that the services take, and every refusal is known by its place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.schedules import Schedules
from flowguard.aws.sender import AWSSender, queue_entry
from flowguard.clock import ManualClock
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.protocol.outbox import Kind, Send, largest
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.in_process import AWSInProcess
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE
from flowguard.worker.ports import Refusal
from tests.aws.engines import same_clients
from tests.aws.transport.in_process import LeanInProcess

ID = {"uniquerequestid": Attribute.string("r1")}


@pytest.fixture(params=["boto3", "lean"])
def sender(aws: AWSInProcess, request: pytest.FixtureRequest) -> AWSSender:
    return AWSSender(same_clients() if request.param == "boto3" else LeanInProcess())


def sends(to: Destination, bodies: Sequence[str], **more: Any) -> list[Send]:
    return [Send(Kind.SIDE, to, body, f"r1.1.{n}", ID, **more) for n, body in enumerate(bodies)]


def received(aws: AWSInProcess, queue: str) -> list[Any]:
    url = aws.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]
    answer = aws.client("sqs").receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
    )
    return list(answer.get("Messages", []))


def batches(calls: Recorder) -> list[int]:
    entries = ("Entries", "PublishBatchRequestEntries")
    return [len(call.params[name]) for call in calls.calls for name in entries if name in call.params]


# -- queues


def test_messages_for_a_queue_go_ten_at_a_time_and_its_url_is_looked_up_once(
    aws: AWSInProcess, sender: AWSSender
) -> None:
    aws.create_queue("emails")
    with intercept(Recorder()) as calls:
        assert sender.send(sends(Queue("emails"), ["x"] * 23)) == {}
    assert batches(calls) == [10, 10, 3]
    assert calls.count("sqs", "GetQueueUrl") == 1


def test_a_batch_holds_no_more_bytes_than_sqs_takes(aws: AWSInProcess, sender: AWSSender) -> None:
    aws.create_queue("emails", MaximumMessageSize="1048576")

    def accept(call: ApiCall, proceed: Proceed) -> Response:
        """moto still counts by the older limit."""
        sizes.append(sum(len(entry["MessageBody"]) for entry in call.params["Entries"]))
        return {"Successful": []}

    sizes: list[int] = []
    sender.queue_url("emails")
    with intercept(accept):
        assert sender.send(sends(Queue("emails"), ["x" * 400_000] * 5)) == {}
    assert sizes == [800_000, 800_000, 400_000]


@pytest.mark.parametrize(("first", "sizes"), [(524_288, [2]), (524_289, [1, 1])])
def test_messages_that_fill_a_batch_to_the_byte_go_together(sender: AWSSender, first: int, sizes: list[int]) -> None:
    def accept(call: ApiCall, proceed: Proceed) -> Response:
        sent.append(len(call.params["Entries"]))
        return {}

    sent: list[int] = []
    bodies = ["x" * first, "x" * (largest(Queue("carts")) // 2)]
    with intercept(accept):
        sender.send([Send(Kind.SIDE, Queue("https://emails"), body, body[:1]) for body in bodies])
    assert sent == sizes


def test_a_message_larger_than_any_batch_is_a_batch_by_itself(sender: AWSSender) -> None:
    """An outbox that was stored before a limit became smaller may hold one."""
    to = Topic("arn:aws:sns:us-east-1:123456789012:told")
    body = "x" * (largest(to) + 1)

    def accept(call: ApiCall, proceed: Proceed) -> Response:
        return {}

    with intercept(Recorder()) as calls, intercept(accept):
        assert sender.send(sends(to, [body, "x", body])) == {}
    assert batches(calls) == [1, 1, 1]


@pytest.mark.parametrize("how", ["name", "url", "arn"])
def test_a_queue_may_be_given_by_name_url_or_arn(aws: AWSInProcess, sender: AWSSender, how: str) -> None:
    url = aws.create_queue("emails")
    name = {"name": "emails", "url": url, "arn": aws.queue_arn(url)}[how]
    assert sender.send(sends(Queue(name), ["hello"])) == {}
    assert [m["Body"] for m in received(aws, "emails")] == ["hello"]


def test_a_queue_of_another_account_is_looked_up_there(sender: AWSSender) -> None:
    def there(call: ApiCall, proceed: Proceed) -> Response:
        asked.append(dict(call.params))
        return {"QueueUrl": "https://theirs"}

    asked: list[Any] = []
    with intercept(there):
        assert sender.queue_url("arn:aws:sqs:us-east-1:999999999999:theirs") == "https://theirs"
    assert asked == [{"QueueName": "theirs", "QueueOwnerAWSAccountId": "999999999999"}]


def test_attributes_of_every_type_arrive_as_they_were(aws: AWSInProcess, sender: AWSSender) -> None:
    aws.create_queue("emails")
    attributes = {
        "text": Attribute.string("täxt"),
        "count": Attribute("Number.int", "3"),
        "bytes": Attribute.binary(b"\x00\xff"),
    }
    sender.send([Send(Kind.SIDE, Queue("emails"), "{}", "r1.1.0", attributes)])
    [record] = normalize({"Messages": received(aws, "emails")})
    assert isinstance(record, Envelope)
    assert record.attributes == attributes


def test_a_delay_is_passed_on(sender: AWSSender, aws: AWSInProcess) -> None:
    aws.create_queue("emails")
    with intercept(Recorder()) as calls:
        sender.send(sends(Queue("emails"), ["x"], delay=30))
    assert calls.calls[-1].params["Entries"][0]["DelaySeconds"] == 30


def test_fifteen_minutes_are_waited_by_sqs_and_a_second_more_by_the_scheduler(aws: AWSInProcess) -> None:
    arn = aws.queue_arn(aws.create_queue("emails"))
    clients = same_clients()
    sender = AWSSender(clients, Schedules(clients, "arn:aws:iam::123456789012:role/scheduler"))
    with intercept(Recorder()) as calls:
        assert sender.send([*sends(Queue(arn), ["soon"], delay=900), *sends(Queue(arn), ["late"], delay=901)]) == {}
    [batch] = [call.params["Entries"] for call in calls.calls if call.operation == "SendMessageBatch"]
    [schedule] = [call.params["Target"] for call in calls.calls if call.operation == "CreateSchedule"]
    assert [(entry["MessageBody"], entry["DelaySeconds"]) for entry in batch] == [("soon", 900)]
    inside = json.loads(schedule["Input"])
    assert inside["Message"] == "late"
    assert set(inside["MessageAttributes"]) == {"uniquerequestid"}, "a schedule has no attributes beside its body"


def test_no_schedule_is_made_for_a_fifo_queue(aws: AWSInProcess) -> None:
    """Its queue would refuse what a schedule sends: there is no id that deduplicates."""
    arn = aws.queue_arn(aws.create_queue("emails.fifo", FifoQueue="true"))
    clients = same_clients()
    sender = AWSSender(clients, Schedules(clients, "arn:aws:iam::123456789012:role/scheduler"))
    with intercept(Recorder()) as calls:
        assert sender.send(sends(Queue(arn), ["late"], delay=901)) == {}
    assert "CreateSchedule" not in {call.operation for call in calls.calls}
    [batch] = [call.params["Entries"] for call in calls.calls if call.operation == "SendMessageBatch"]
    assert [(entry["MessageBody"], "DelaySeconds" in entry) for entry in batch] == [("late", False)]


def test_what_cannot_be_scheduled_is_named_by_its_place(aws: AWSInProcess, sender: AWSSender) -> None:
    arn = aws.queue_arn(aws.create_queue("emails"))
    failures = sender.send([*sends(Queue(arn), ["soon"]), *sends(Queue(arn), ["late"], delay=901)])
    assert {place: "FLOWGUARD_SCHEDULER_ROLE" in refusal.why for place, refusal in failures.items()} == {1: True}


def test_a_copy_of_a_fifo_message_is_dropped_by_the_queue(aws: AWSInProcess, sender: AWSSender) -> None:
    aws.create_queue("orders.fifo", FifoQueue="true")
    for _ in range(2):
        assert sender.send(sends(Queue("orders.fifo"), ["x"], group="o1")) == {}
    [message] = received(aws, "orders.fifo")
    assert message["Attributes"]["MessageGroupId"] == "o1"


def test_a_fifo_message_of_no_group_is_a_group_by_itself(aws: AWSInProcess, sender: AWSSender) -> None:
    aws.create_queue("orders.fifo", FifoQueue="true")
    assert sender.send(sends(Queue("orders.fifo"), ["x", "y"])) == {}
    assert [m["Attributes"]["MessageGroupId"] for m in received(aws, "orders.fifo")] == ["r1.1.0", "r1.1.1"]


def test_a_group_that_fifo_would_refuse_becomes_the_same_digest_every_time(
    aws: AWSInProcess, sender: AWSSender
) -> None:
    aws.create_queue("orders.fifo", FifoQueue="true")
    with intercept(Recorder()) as calls:
        for _ in range(2):
            sender.send(sends(Queue("orders.fifo"), ["x"], group="ö" * 200))
    groups = {call.params["Entries"][0]["MessageGroupId"] for call in calls.calls if "Entries" in call.params}
    assert len(groups) == 1
    assert len(groups.pop()) == 64


# -- topics, buses, functions


def test_messages_for_a_topic_keep_their_attributes(aws: AWSInProcess, sender: AWSSender) -> None:
    topic = aws.create_topic("carts")
    aws.subscribe(topic, aws.create_queue("listeners"))
    assert sender.send(sends(Topic(topic), ["hello"])) == {}
    [record] = normalize({"Messages": received(aws, "listeners")})
    assert isinstance(record, Envelope)
    assert (record.message, record.attributes) == ("hello", ID)


@pytest.mark.parametrize(("topic", "group"), [("carts.fifo", "c1"), ("carts", None)])
def test_a_group_is_told_to_a_fifo_topic_and_to_no_other(sender: AWSSender, topic: str, group: str | None) -> None:
    def published(call: ApiCall, proceed: Proceed) -> Response:
        entries.extend(call.params["PublishBatchRequestEntries"])
        return {}

    entries: list[Any] = []
    with intercept(published):
        assert sender.send(sends(Topic(f"arn:aws:sns:us-east-1:123456789012:{topic}"), ["x"], group="c1")) == {}
    assert [entry.get("MessageGroupId") for entry in entries] == [group]
    assert [entry.get("MessageDeduplicationId") for entry in entries] == [group and "r1.1.0"]


def test_messages_for_a_bus_carry_their_attributes_in_the_detail(aws: AWSInProcess, sender: AWSSender) -> None:
    with intercept(Recorder()) as calls:
        bus = Bus("default", "shop", "CartPriced")
        assert sender.send(sends(bus, ['{"cart":"c1"}', "no json"])) == {}
    entries = calls.calls[-1].params["Entries"]
    assert [(e["EventBusName"], e["Source"], e["DetailType"]) for e in entries] == [
        ("default", "shop", "CartPriced")
    ] * 2
    assert [json.loads(e["Detail"]) for e in entries] == [
        {"cart": "c1", "flowguard": {"uniquerequestid": "r1"}},
        {"payload": "no json", "flowguard": {"uniquerequestid": "r1"}},
    ]


def test_json_too_deep_to_be_read_goes_to_a_bus_as_text(sender: AWSSender) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    with intercept(Recorder()) as calls:
        assert sender.send(sends(Bus("default", "shop", "CartPriced"), [deep])) == {}
    [entry] = calls.calls[-1].params["Entries"]
    assert json.loads(entry["Detail"])["payload"] == deep


def test_a_function_is_invoked_with_a_record_that_the_envelope_reads(sender: AWSSender) -> None:
    events: list[Any] = []

    def invoked(call: ApiCall, proceed: Proceed) -> Response:
        events.append((call.params["FunctionName"], call.params["InvocationType"], json.loads(call.params["Payload"])))
        return {"StatusCode": 202}

    with intercept(invoked):
        assert sender.send(sends(Function("price-cart"), ["hello"])) == {}
    [(name, kind, event)] = events
    [sent] = event["Records"]
    assert (sent["messageId"], sent["attributes"], sent["eventSource"]) == ("r1.1.0", {}, "aws:lambda")
    [record] = normalize(event)
    assert isinstance(record, Envelope)
    assert (name, kind, record.message, record.attributes) == ("price-cart", "Event", "hello", ID)


# -- refusals


def test_the_refused_entries_of_a_batch_are_named_by_their_place(aws: AWSInProcess, sender: AWSSender) -> None:
    aws.create_queue("emails")

    def one_refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "SendMessageBatch":
            return proceed()
        last = call.params["Entries"][-1]["Id"]
        return {"Failed": [{"Id": last, "Code": "Throttled", "Message": "slow down", "SenderFault": False}]}

    with intercept(one_refused):
        failures = sender.send(sends(Queue("emails"), ["x"] * 12))
    assert failures == {9: Refusal("Throttled: slow down"), 11: Refusal("Throttled: slow down")}


def test_a_destination_that_is_missing_fails_its_own_messages_alone(aws: AWSInProcess, sender: AWSSender) -> None:
    aws.create_queue("emails")
    failures = sender.send([*sends(Queue("missing"), ["x"]), *sends(Queue("emails"), ["y"])])
    assert set(failures) == {0}
    assert "missing" in failures[0].why or "exist" in failures[0].why
    assert (failures[0].final, failures[0].for_minutes) == (False, True)
    assert [m["Body"] for m in received(aws, "emails")] == ["y"]


@pytest.mark.parametrize(
    ("to", "operation"),
    [
        (Topic("arn:aws:sns:us-east-1:1:t"), "PublishBatch"),
        (Bus("b", "s", "t"), "PutEvents"),
        (Function("f"), "Invoke"),
    ],
)
def test_a_service_that_is_down_refuses_the_whole_batch(sender: AWSSender, to: Destination, operation: str) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        assert call.operation == operation
        raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": "down"}}, operation)

    with intercept(Recorder()) as calls, intercept(down):
        failures = sender.send(sends(to, ["x", "y"]))
    assert set(failures) == {0, 1}
    assert not any(refusal.final for refusal in failures.values())
    assert batches(calls) in ([2], []), "it is not asked for each message by itself"


def test_a_batch_that_is_refused_for_good_is_sent_one_by_one(sender: AWSSender) -> None:
    """A single message may have spoilt it for all."""

    def spoilt(call: ApiCall, proceed: Proceed) -> Response:
        if "y" in {entry["Message"] for entry in call.params["PublishBatchRequestEntries"]}:
            response: Any = {"Error": {"Code": "InvalidParameter"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(response, call.operation)
        return {}

    with intercept(Recorder()) as calls, intercept(spoilt):
        failures = sender.send(sends(Topic("arn:aws:sns:us-east-1:123456789012:told"), ["x", "y", "z"]))
    assert {place: refusal.final for place, refusal in failures.items()} == {1: True}
    assert batches(calls) == [3, 1, 1, 1]


def test_a_destination_that_no_request_can_name_is_refused_for_good(sender: AWSSender) -> None:
    def written(call: ApiCall, proceed: Proceed) -> Response:
        """As botocore writes the name into the text of its request; the AWS in memory reads no text."""
        return {"TopicArn": call.params["TopicArn"].encode()}

    with intercept(written):
        failures = sender.send(sends(Topic("arn:aws:sns:us-east-1:123456789012:\ud800"), ["x"]))
    assert failures == {0: Refusal("its destination has half a surrogate pair", final=True)}


@pytest.mark.parametrize(
    ("code", "fault", "final"),
    [
        ("InvalidMessageContents", True, True),
        ("InvalidMessageContents", False, False),
        ("RequestThrottled", True, False),
        ("InternalError", False, False),
    ],
)
def test_a_refused_entry_is_final_where_it_is_its_senders_fault_and_no_throttling(
    sender: AWSSender, code: str, fault: bool, final: bool
) -> None:
    def refused(call: ApiCall, proceed: Proceed) -> Response:
        return {"Failed": [{"Id": "0", "Code": code, "Message": "no", "SenderFault": fault}]}

    with intercept(refused):
        assert sender.send(sends(Queue("https://emails"), ["x"])) == {0: Refusal(f"{code}: no", final)}


def test_one_refused_invocation_leaves_the_others_sent(sender: AWSSender) -> None:
    def first_refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.number == 1:
            raise ClientError({"Error": {"Code": "TooManyRequestsException", "Message": "slow down"}}, "Invoke")
        return {"StatusCode": 202}

    with intercept(Recorder()) as calls, intercept(first_refused):
        failures = sender.send(sends(Function("f"), ["x", "y", "z"]))
    assert (set(failures), calls.count("lambda", "Invoke")) == ({0}, 3)


@pytest.mark.parametrize("to", [Queue("q"), Topic("arn:aws:sns:us-east-1:1:t"), Bus("b", "s", "t"), Function("f")])
def test_a_mistake_in_the_code_is_not_taken_for_a_refusal(sender: AWSSender, to: Destination) -> None:
    def broken(call: ApiCall, proceed: Proceed) -> Response:
        raise TypeError("a mistake")

    with intercept(broken), pytest.raises(TypeError, match="a mistake"):
        sender.send(sends(to, ["x"]))


def test_a_refused_event_is_named_by_its_place(sender: AWSSender) -> None:
    def refused(call: ApiCall, proceed: Proceed) -> Response:
        return {"FailedEntryCount": 1, "Entries": [{"EventId": "1"}, {"ErrorCode": "ThrottlingException"}]}

    with intercept(refused):
        assert sender.send(sends(Bus("b", "s", "t"), ["x", "y"])) == {1: Refusal("ThrottlingException: ")}


# -- deadlines


def test_a_deadline_that_cannot_be_scheduled_goes_a_quarter_of_an_hour_by_sqs_and_nothing_else_does(
    aws: AWSInProcess,
) -> None:
    aws.create_queue("emails")
    sender = AWSSender(same_clients(), Schedules(same_clients(), clock=ManualClock(0)))
    [retry] = sends(Queue("emails"), ["retry"], delay=3_600)
    deadline = Send(Kind.DEADLINE, Queue("emails"), '{"deadline":3600000}', "r1.1.deadline", ID, delay=3_600)
    with intercept(Recorder()) as calls:
        assert set(sender.send([deadline, retry])) == {1}
    [entry] = calls.calls[-1].params["Entries"]
    assert (entry["MessageBody"], entry["DelaySeconds"]) == (deadline.body, 900)


# -- visibility


def test_a_record_is_postponed_by_its_visibility(aws: AWSInProcess, sender: AWSSender) -> None:
    url = aws.create_queue("emails")
    sender.send(sends(Queue("emails"), ["x"]))
    [message] = received(aws, "emails")
    [record] = normalize({"Messages": [message]})
    assert isinstance(record, Envelope)
    sender.postpone(record, 30)  # a pasted message tells no queue, so there is nothing to postpone
    event = {"Records": [{**record.received, "eventSource": "aws:sqs", "eventSourceARN": aws.queue_arn(url)}]}
    [delivered] = normalize(event)
    assert isinstance(delivered, Envelope)
    with intercept(Recorder()) as calls:
        assert sender.postpone(delivered, 90) is None
    assert calls.calls[-1].params["VisibilityTimeout"] == 90
    assert received(aws, "emails") == []


def test_a_record_without_a_receipt_has_nothing_to_postpone(sender: AWSSender) -> None:
    """Such as one that somebody wrote to try a function."""
    record = {"messageId": "m", "body": "x", "attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs"}
    event = {"Records": [{**record, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:emails"}]}
    [written] = normalize(event)
    assert isinstance(written, Envelope)
    with intercept(Recorder()) as calls:
        sender.postpone(written, 30)
    assert calls.calls == []


def delivered_record(aws: AWSInProcess, sender: AWSSender) -> Envelope:
    url = aws.create_queue("emails")
    sender.send(sends(Queue("emails"), ["x"]))
    [message] = received(aws, "emails")
    [found] = normalize({"Messages": [{**message, "EventSourceARN": aws.queue_arn(url)}]})
    assert isinstance(found, Envelope)
    return found


def test_a_record_is_hidden_for_no_longer_than_sqs_allows(aws: AWSInProcess, sender: AWSSender) -> None:
    record = delivered_record(aws, sender)
    with intercept(Recorder()) as calls:
        sender.postpone(record, 50_000)
    assert calls.calls[-1].params["VisibilityTimeout"] == 42_000


def test_a_record_that_cannot_be_postponed_comes_back_at_its_queues_own_pace(
    aws: AWSInProcess, sender: AWSSender
) -> None:
    record = delivered_record(aws, sender)

    def gone(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "ReceiptHandleIsInvalid", "Message": "no"}}, call.operation)

    with intercept(gone):
        assert "ReceiptHandleIsInvalid" in str(sender.postpone(record, 30))


def test_records_are_handed_back_ten_of_a_queue_in_a_call(aws: AWSInProcess, sender: AWSSender) -> None:
    url = aws.create_queue("emails")
    for texts in (range(10), range(10, 12)):
        sender.send(sends(Queue("emails"), [str(one) for one in texts]))
    messages = [message for _ in range(2) for message in received(aws, "emails")]
    event = {"Messages": [{**one, "EventSourceARN": aws.queue_arn(url)} for one in messages]}
    records = [one for one in normalize(event) if isinstance(one, Envelope)]
    [pasted] = normalize({"Messages": messages[:1]})
    [nameless] = normalize({"Messages": [{**messages[0], "ReceiptHandle": None, "EventSourceARN": aws.queue_arn(url)}]})
    assert isinstance(pasted, Envelope)
    assert isinstance(nameless, Envelope)
    waits = {record.message_id: 0 if place else 30 for place, record in enumerate(records)}
    with intercept(Recorder()) as calls:
        sender.hand_back([(record, waits[record.message_id]) for record in (*records, pasted, nameless)])
    entries = [one.params["Entries"] for one in calls.calls if one.operation == "ChangeMessageVisibilityBatch"]
    assert [len(some) for some in entries] == [10, 2]
    assert [one["VisibilityTimeout"] for one in entries[0]] == [30, *[0] * 9]
    again = [message["MessageId"] for _ in range(2) for message in received(aws, "emails")]
    assert sorted(again) == sorted(waits.keys() - {records[0].message_id})


def test_records_that_cannot_be_handed_back_come_at_their_queues_own_pace(aws: AWSInProcess, sender: AWSSender) -> None:
    record = delivered_record(aws, sender)

    def gone(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "QueueDoesNotExist", "Message": "no"}}, call.operation)

    with intercept(gone):
        sender.hand_back([(record, 0)])


@pytest.mark.parametrize("texts", [["small", "x" * 2_000, "small too"], ["x" * 2_000]])
def test_a_message_that_is_too_long_for_its_queue_is_refused_for_good_and_holds_up_no_other(
    texts: list[str], aws: AWSInProcess, sender: AWSSender
) -> None:
    """The queue of another team may take less than SQS does."""
    url = aws.create_queue("theirs")
    aws.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"MaximumMessageSize": "1024"})
    refusals = sender.send(sends(Queue("theirs"), texts))
    long = [place for place, text in enumerate(texts) if len(text) > 1_024]
    assert ([*refusals], [one.final for one in refusals.values()]) == (long, [True])
    assert [one["Body"] for one in received(aws, "theirs")] == [text for text in texts if len(text) <= 1_024]


def test_an_answer_that_says_nothing_of_what_it_is_for_has_its_own_id_in_a_fifo_queue() -> None:
    plain = Send(Kind.COMPLETE, Queue("told.fifo"), "{}", "id-1", {})
    assert queue_entry(0, plain, fifo=True)["MessageDeduplicationId"] == "id-1"
    placed = plain._replace(attributes={PLACE: Attribute.string('{"depth":1}')})
    assert queue_entry(0, placed, fifo=True)["MessageDeduplicationId"] != "id-1"
    other = plain._replace(kind=Kind.SIDE, attributes=placed.attributes)
    assert queue_entry(0, other, fifo=True)["MessageDeduplicationId"] == "id-1"
