"""What SQS does with messages, batches and queues."""

from __future__ import annotations

import json
from typing import Any

from flowguard.probe.lab import Lab
from flowguard.probe.made import queue, queue_arn, received
from flowguard.probe.saw import Saw, asks

MIB = 1_048_576


def _send(lab: Lab, url: str, body: str = "x", **params: Any) -> str:
    """Send a message and return the code of the error, empty where it was taken."""
    return lab.code_of("sqs", "send_message", QueueUrl=url, MessageBody=body, **params)


@asks("sqs-message-size", "sqs")
def message_size(lab: Lab) -> Saw:
    """Send a message of 1 MiB with its attribute, and one of a byte more."""
    url = queue(lab)
    attribute = {"kind": {"DataType": "String", "StringValue": "v"}}
    room = MIB - len("kind") - len("String") - 1
    fits = _send(lab, url, "x" * room, MessageAttributes=attribute)
    over = _send(lab, url, "x" * (room + 1), MessageAttributes=attribute)
    return Saw(not fits and bool(over), f"1 MiB: {fits or 'taken'}; a byte more: {over or 'taken'}")


@asks("sqs-queue-size-limit", "sqs")
def queue_size_limit(lab: Lab) -> Saw:
    """Send a message that is a byte above the queue's own limit."""
    url = queue(lab, MaximumMessageSize="2048")
    fits, over = _send(lab, url, "x" * 2048), _send(lab, url, "x" * 2049)
    return Saw(not fits and bool(over), f"2,048 bytes: {fits or 'taken'}; 2,049: {over or 'taken'}")


@asks("sqs-batch-entries", "sqs")
def batch_entries(lab: Lab) -> Saw:
    """Send batches of none to eleven entries. One has an id twice."""
    url = queue(lab)

    def sent(ids: list[str]) -> str:
        entries = [{"Id": entry_id, "MessageBody": "x"} for entry_id in ids]
        return lab.code_of("sqs", "send_message_batch", QueueUrl=url, Entries=entries)

    codes = (sent([]), sent([*map(str, range(10))]), sent([*map(str, range(11))]), sent(["a", "a"]), sent(["a.b"]))
    wanted = (
        *("EmptyBatchRequest", "", "TooManyEntriesInBatchRequest"),
        *("BatchEntryIdsNotDistinct", "InvalidBatchEntryId"),
    )
    return Saw(codes == wanted, f"none, 10, 11, twice, bad id: {', '.join(code or 'taken' for code in codes)}")


@asks("sqs-batch-size", "sqs")
def batch_size(lab: Lab) -> Saw:
    """Send two messages of 512 KiB, and two with a byte more."""
    url = queue(lab)

    def sent(size: int) -> str:
        entries = [{"Id": "a", "MessageBody": "x" * size}, {"Id": "b", "MessageBody": "x" * (MIB // 2)}]
        return lab.code_of("sqs", "send_message_batch", QueueUrl=url, Entries=entries)

    fits, over = sent(MIB // 2), sent(MIB // 2 + 1)
    return Saw(not fits and over == "BatchRequestTooLong", f"1 MiB: {fits or 'taken'}; a byte more: {over or 'taken'}")


@asks("sqs-batch-partial-failure", "sqs")
def batch_partial_failure(lab: Lab) -> Saw:
    """Send a batch of which one entry has a delay that is too long."""
    url = queue(lab)
    entries = [{"Id": "good", "MessageBody": "x"}, {"Id": "bad", "MessageBody": "x", "DelaySeconds": 901}]
    answer = lab.ask("sqs", "send_message_batch", QueueUrl=url, Entries=entries)
    failed = [(failure["Id"], failure["SenderFault"]) for failure in answer.get("Failed", [])]
    sent = [entry["Id"] for entry in answer.get("Successful", [])]
    return Saw(failed == [("bad", True)] and sent == ["good"], f"sent {sent}, failed {failed}")


@asks("sqs-attributes", "sqs")
def attributes(lab: Lab) -> Saw:
    """Send messages with ten and eleven attributes."""
    url = queue(lab)

    def sent(count: int) -> str:
        given = {f"a{n}": {"DataType": "String", "StringValue": "v"} for n in range(count)}
        return _send(lab, url, MessageAttributes=given)

    ten, eleven = sent(10), sent(11)
    return Saw(not ten and bool(eleven), f"ten: {ten or 'taken'}; eleven: {eleven or 'taken'}")


@asks("sqs-attribute-names", "sqs")
def attribute_names(lab: Lab) -> Saw:
    """Send attributes whose names SQS does not take."""
    url = queue(lab)

    def sent(name: str) -> str:
        return _send(lab, url, MessageAttributes={name: {"DataType": "String", "StringValue": "v"}})

    good = {name: sent(name) for name in ("a" * 256, "a-b_c.d")}
    bad = {name: sent(name) for name in ("a" * 257, "AWS.a", "a b", ".a")}
    shown = ", ".join(f"{name[:5]}({len(name)}): {answer or 'taken'}" for name, answer in {**good, **bad}.items())
    return Saw(not any(good.values()) and all(bad.values()), shown)


@asks("sqs-characters", "sqs")
def characters(lab: Lab) -> Saw:
    """Send a body with a control character, and one with all that XML knows."""
    url = queue(lab)
    good, bad = _send(lab, url, "\t\n\r é 😀"), _send(lab, url, "a\x01b")
    return Saw(not good and bad == "InvalidMessageContents", f"é and 😀: {good or 'taken'}; U+0001: {bad or 'taken'}")


@asks("sqs-empty-body", "sqs")
def empty_body(lab: Lab) -> Saw:
    """Send a message without a character."""
    code = _send(lab, queue(lab), "")
    return Saw(bool(code), code or "taken")


@asks("sqs-delay", "sqs")
def delay(lab: Lab) -> Saw:
    """Send messages delayed by 900 and 901 seconds, and a delayed one to a FIFO queue."""
    url, fifo = queue(lab), queue(lab, fifo=True)
    longest, over = _send(lab, url, DelaySeconds=900), _send(lab, url, DelaySeconds=901)
    grouped = _send(lab, fifo, DelaySeconds=1, MessageGroupId="g", MessageDeduplicationId="d")
    shown = f"900 s: {longest or 'taken'}; 901 s: {over or 'taken'}; FIFO: {grouped or 'taken'}"
    return Saw(not longest and bool(over) and bool(grouped), shown)


@asks("sqs-visibility", "sqs", seconds=10)
def visibility(lab: Lab) -> Saw:
    """Receive a message some seconds after it was sent and hide it for twelve hours. It is asked at once and later."""
    url = queue(lab)
    _send(lab, url)
    lab.pause(4)
    (message,) = received(lab, url)

    def hidden(seconds: int) -> str:
        receipt = message["ReceiptHandle"]
        given = {"QueueUrl": url, "ReceiptHandle": receipt, "VisibilityTimeout": seconds}
        return lab.code_of("sqs", "change_message_visibility", **given)

    at_once = hidden(43_198)
    lab.pause(4)
    over, left = hidden(43_200), hidden(43_190)
    shown = f"at once: {at_once or 'taken'}; 4 s later: {over or 'taken'}; ten seconds less: {left or 'taken'}"
    return Saw(not at_once and bool(over) and not left, shown)


@asks("sqs-visibility-default", "sqs")
def visibility_default(lab: Lab) -> Saw:
    """Ask a new queue for its visibility timeout."""
    answer = lab.ask("sqs", "get_queue_attributes", QueueUrl=queue(lab), AttributeNames=["VisibilityTimeout"])
    seconds = answer["Attributes"]["VisibilityTimeout"]
    return Saw(seconds == "30", f"{seconds} s")


@asks("sqs-visibility-zero", "sqs")
def visibility_zero(lab: Lab) -> Saw:
    """Receive a message and make it visible at once."""
    url = queue(lab)
    _send(lab, url)
    (message,) = received(lab, url)
    receipt = message["ReceiptHandle"]
    lab.ask("sqs", "change_message_visibility", QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
    counts = [message["Attributes"]["ApproximateReceiveCount"] for message in received(lab, url)]
    return Saw(counts == ["2"], f"receives counted: {counts}")


@asks("sqs-receive-count", "sqs", seconds=10)
def receive_count(lab: Lab) -> Saw:
    """Let the visibility of a message run out twice, and look at its count."""
    url = queue(lab, VisibilityTimeout="2")
    _send(lab, url)
    counts = []
    for _ in range(3):
        (message,) = received(lab, url)
        counts.append(message["Attributes"]["ApproximateReceiveCount"])
        lab.pause(2.5)
    return Saw(counts == ["1", "2", "3"], f"receives counted: {counts}")


@asks("sqs-not-in-flight", "sqs", seconds=10)
def not_in_flight(lab: Lab) -> Saw:
    """Change the visibility of a message whose visibility has run out."""
    url = queue(lab, VisibilityTimeout="1")
    _send(lab, url)
    (message,) = received(lab, url)
    lab.pause(3)
    receipt = message["ReceiptHandle"]
    given = {"QueueUrl": url, "ReceiptHandle": receipt, "VisibilityTimeout": 10}
    code = lab.code_of("sqs", "change_message_visibility", **given)
    return Saw(code == "MessageNotInflight", code or "taken")


def _with_dead_letters(lab: Lab, *, fifo: bool = False, **dead_attributes: str) -> tuple[str, str]:
    dead = queue(lab, fifo=fifo, **dead_attributes)
    policy = json.dumps({"deadLetterTargetArn": queue_arn(lab, dead), "maxReceiveCount": "1"})
    return queue(lab, fifo=fifo, VisibilityTimeout="1", RedrivePolicy=policy), dead


def _given_up(lab: Lab, url: str) -> None:
    """Receive the message once, and again when its receives are used up."""
    received(lab, url)
    lab.pause(2)
    received(lab, url, seconds=0)
    lab.pause(1)


@asks("sqs-redrive-policy", "sqs", seconds=15)
def redrive_policy(lab: Lab) -> Saw:
    """Receive a message more often than its queue allows. It should be in the dead-letter queue."""
    url, dead = _with_dead_letters(lab)
    _send(lab, url, "kept", MessageAttributes={"a": {"DataType": "String", "StringValue": "v"}})
    _given_up(lab, url)
    arrived = [
        (message["Body"], message.get("MessageAttributes", {}).get("a", {}).get("StringValue"))
        for message in received(lab, dead)
    ]
    return Saw(arrived == [("kept", "v")], f"in the dead-letter queue: {arrived}")


@asks("sqs-receive-count-on-redrive", "sqs", seconds=15)
def receive_count_on_redrive(lab: Lab) -> Saw:
    """Let a message be moved after one receive, into a queue that gives it up after two, and receive it there."""
    last = json.dumps({"deadLetterTargetArn": queue_arn(lab, queue(lab)), "maxReceiveCount": "2"})
    url, dead = _with_dead_letters(lab, RedrivePolicy=last, VisibilityTimeout="1")
    _send(lab, url)
    _given_up(lab, url)
    counts = [message["Attributes"]["ApproximateReceiveCount"] for message in received(lab, dead)]
    lab.pause(2)
    again = received(lab, dead, seconds=0)
    moved = f"{'a second receive there' if again else 'moved on'}"
    return Saw(counts != ["1"], f"receives counted: {counts}; then {moved}")


@asks("sqs-redrive-same-type", "sqs")
def redrive_same_type(lab: Lab) -> Saw:
    """Give a FIFO queue a standard dead-letter queue."""
    policy = json.dumps({"deadLetterTargetArn": queue_arn(lab, queue(lab)), "maxReceiveCount": "3"})
    url = queue(lab, fifo=True)
    code = lab.code_of("sqs", "set_queue_attributes", QueueUrl=url, Attributes={"RedrivePolicy": policy})
    return Saw(bool(code), code or "taken")


@asks("sqs-most-receives", "sqs")
def most_receives(lab: Lab) -> Saw:
    """Give queues redrive policies of 1,000 and 1,001 receives."""
    dead = queue_arn(lab, queue(lab))
    url = queue(lab)

    def given(count: int) -> str:
        policy = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": str(count)})
        return lab.code_of("sqs", "set_queue_attributes", QueueUrl=url, Attributes={"RedrivePolicy": policy})

    most, over = given(1_000), given(1_001)
    return Saw(not most and bool(over), f"1,000: {most or 'taken'}; 1,001: {over or 'taken'}")


@asks("sqs-retention-on-redrive-standard", "sqs", seconds=90)
def retention_on_redrive(lab: Lab) -> Saw:
    """Move an older message to a standard dead-letter queue that keeps it for 60 seconds, and look for it."""
    url, dead = _with_dead_letters(lab, MessageRetentionPeriod="60")
    _send(lab, url)
    lab.pause(35)
    _given_up(lab, url)
    lab.pause(32)
    left = received(lab, dead, seconds=0)
    return Saw(not left, f"70 s after it was sent, 32 s after it was moved: {'gone' if not left else 'still there'}")


@asks("sqs-retention-on-redrive-fifo", "sqs", seconds=90)
def retention_on_redrive_fifo(lab: Lab) -> Saw:
    """Move an older message to a FIFO dead-letter queue that keeps it for 60 seconds, and look for it."""
    url, dead = _with_dead_letters(lab, fifo=True, MessageRetentionPeriod="60")
    _send(lab, url, MessageGroupId="g", MessageDeduplicationId="d")
    lab.pause(35)
    _given_up(lab, url)
    lab.pause(32)
    left = received(lab, dead, seconds=0)
    return Saw(bool(left), f"70 s after it was sent, 32 s after it was moved: {'gone' if not left else 'still there'}")


@asks("sqs-sent-timestamp-on-redrive", "sqs", seconds=15)
def sent_timestamp_on_redrive(lab: Lab) -> Saw:
    """Let messages be moved to a standard and to a FIFO dead-letter queue, and compare their times of sending."""
    seen = []
    for fifo, group in ((False, {}), (True, {"MessageGroupId": "g", "MessageDeduplicationId": "d"})):
        url, dead = _with_dead_letters(lab, fifo=fifo, VisibilityTimeout="1")
        _send(lab, url, **group)
        sent = [message["Attributes"]["SentTimestamp"] for message in received(lab, url)]
        lab.pause(2)
        received(lab, url, seconds=0)
        moved = [message["Attributes"]["SentTimestamp"] for message in received(lab, dead)]
        seen.append(bool(sent) and sent == moved)
    standard, in_groups = ("the same" if kept else "another, or none" for kept in seen)
    return Saw(all(seen), f"after the move: standard {standard}; FIFO {in_groups}")


@asks("sqs-move-task", "sqs", seconds=40)
def move_task(lab: Lab) -> Saw:
    """Move a dead letter back, and compare its id and its time of sending."""
    url, dead = _with_dead_letters(lab)
    _send(lab, url)
    _given_up(lab, url)
    (letter,) = received(lab, dead, VisibilityTimeout=1) or [None]
    if letter is None:
        return Saw(False, "nothing came to the dead-letter queue")
    lab.pause(2)
    lab.ask("sqs", "start_message_move_task", SourceArn=queue_arn(lab, dead))
    moved = received(lab, url, seconds=20)
    ids = {message["MessageId"] for message in moved}
    later = [
        int(message["Attributes"]["SentTimestamp"]) > int(letter["Attributes"]["SentTimestamp"]) for message in moved
    ]
    shown = f"moved: {len(moved)}; new id: {letter['MessageId'] not in ids}; sent later: {later}"
    return Saw(bool(moved) and letter["MessageId"] not in ids and all(later), shown)


@asks("sqs-long-poll", "sqs")
def long_poll(lab: Lab) -> Saw:
    """Ask for longer polls and more messages than there may be."""
    url = queue(lab)
    waiting = lab.code_of("sqs", "receive_message", QueueUrl=url, WaitTimeSeconds=21)
    many = lab.code_of("sqs", "receive_message", QueueUrl=url, MaxNumberOfMessages=11)
    return Saw(bool(waiting) and bool(many), f"21 s: {waiting or 'taken'}; 11 messages: {many or 'taken'}")


@asks("sqs-queue-name", "sqs")
def queue_name(lab: Lab) -> Saw:
    """Make queues with names of 80 and 81 characters."""

    def made(length: int) -> str:
        name = lab.name("-").ljust(length, "x")
        lab.undo(f"queue {name}", lambda: _delete_named(lab, name))
        return lab.code_of("sqs", "create_queue", QueueName=name, tags=dict(lab.tags))

    fits, over = made(80), made(81)
    return Saw(not fits and bool(over), f"80: {fits or 'taken'}; 81: {over or 'taken'}")


def _delete_named(lab: Lab, name: str) -> None:
    lab.clean("sqs", "delete_queue", QueueUrl=lab.clean("sqs", "get_queue_url", QueueName=name)["QueueUrl"])


@asks("sqs-missing-queue", "sqs")
def missing_queue(lab: Lab) -> Saw:
    """Ask for a queue that does not exist."""
    code = lab.code_of("sqs", "get_queue_url", QueueName=lab.name())
    return Saw(code in ("QueueDoesNotExist", "NonExistentQueue"), code or "found")


@asks("sqs-deleted-queue", "sqs", seconds=10)
def deleted_queue(lab: Lab) -> Saw:
    """Delete a queue and make it again at once."""
    url = queue(lab)
    name = url.rpartition("/")[2]
    lab.ask("sqs", "delete_queue", QueueUrl=url)
    code = lab.code_of("sqs", "create_queue", QueueName=name, tags=dict(lab.tags))
    return Saw(bool(code), code or "it was made again at once")


@asks("sqs-fair-queues", "sqs")
def fair_queues(lab: Lab) -> Saw:
    """Send a message with a group to a standard queue."""
    url = queue(lab)
    sent = _send(lab, url, MessageGroupId="tenant")
    groups = [message["Attributes"].get("MessageGroupId") for message in received(lab, url)] if not sent else []
    return Saw(not sent and groups == ["tenant"], sent or f"the message has the group {groups}")


@asks("sqs-trace-header", "sqs")
def trace_header(lab: Lab) -> Saw:
    """Send a message with ten attributes and a trace header."""
    url = queue(lab)
    header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0"
    given = {f"a{n}": {"DataType": "String", "StringValue": "v"} for n in range(10)}
    system = {"AWSTraceHeader": {"DataType": "String", "StringValue": header}}
    sent = _send(lab, url, MessageAttributes=given, MessageSystemAttributes=system)
    headers = [message["Attributes"].get("AWSTraceHeader") for message in received(lab, url)] if not sent else []
    return Saw(headers == [header], sent or f"arrived: {headers}")


@asks("sqs-age-metric", "sqs", "cloudwatch", cents=0.1, seconds=900)
def age_metric(lab: Lab) -> Saw:
    """Receive a message four times and wait. The age of the oldest message should leave it out."""
    url = queue(lab, VisibilityTimeout="1")
    _send(lab, url)
    for _ in range(4):
        received(lab, url)
        lab.pause(2)
    lab.pause(600)
    name = url.rpartition("/")[2]
    query = {
        "Id": "age",
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/SQS",
                "MetricName": "ApproximateAgeOfOldestMessage",
                "Dimensions": [{"Name": "QueueName", "Value": name}],
            },
            "Period": 60,
            "Stat": "Maximum",
        },
    }
    clock = lab.ask("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["CreatedTimestamp"])
    begun = int(clock["Attributes"]["CreatedTimestamp"])
    values = lab.ask(
        "cloudwatch", "get_metric_data", MetricDataQueries=[query], StartTime=begun, EndTime=begun + 1_200
    )["MetricDataResults"][0]["Values"]
    latest = max(values[:3], default=None)
    return Saw(latest is not None and latest < 300, f"the metric after ten minutes: {latest} s")
