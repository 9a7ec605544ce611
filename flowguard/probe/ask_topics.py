"""What SNS and EventBridge do with what is published."""

from __future__ import annotations

import json
from typing import Any

from flowguard.probe.lab import Lab
from flowguard.probe.made import allow, queue, queue_arn, received, subscribe, tags, topic
from flowguard.probe.saw import Saw, asks

KIB_256 = 262_144


def _publish(lab: Lab, arn: str, message: str = "x", **params: Any) -> str:
    return lab.code_of("sns", "publish", TopicArn=arn, Message=message, **params)


@asks("sns-message-size", "sns")
def message_size(lab: Lab) -> Saw:
    """Publish 256 KiB, and a byte more."""
    arn = topic(lab)
    fits, over = _publish(lab, arn, "x" * KIB_256), _publish(lab, arn, "x" * (KIB_256 + 1))
    shown = f"256 KiB: {fits or 'taken'}; a byte more: {over or 'taken'}"
    return Saw(not fits and over.startswith("InvalidParameter"), shown)


def _batch(lab: Lab, arn: str, bodies: list[str]) -> str:
    entries = [{"Id": str(place), "Message": body} for place, body in enumerate(bodies)]
    return lab.code_of("sns", "publish_batch", TopicArn=arn, PublishBatchRequestEntries=entries)


@asks("sns-batch", "sns")
def batch(lab: Lab) -> Saw:
    """Publish batches of ten and eleven."""
    arn = topic(lab)
    ten, eleven = _batch(lab, arn, ["x"] * 10), _batch(lab, arn, ["x"] * 11)
    return Saw(not ten and eleven.startswith("TooManyEntries"), f"ten: {ten or 'taken'}; eleven: {eleven or 'taken'}")


@asks("sns-batch-size", "sns")
def batch_size(lab: Lab) -> Saw:
    """Publish two messages of 128 KiB, and two with a byte more."""
    arn = topic(lab)
    half = "x" * (KIB_256 // 2)
    fits, over = _batch(lab, arn, [half, half]), _batch(lab, arn, [half, f"{half}x"])
    return Saw(not fits and over.startswith("BatchRequestTooLong"), f"fits: {fits or 'taken'}; over: {over or 'taken'}")


@asks("sns-subject", "sns")
def subject(lab: Lab) -> Saw:
    """Publish with subjects of 99 and 100 characters, and one with a line break."""
    arn = topic(lab)
    fits, over, broken = (_publish(lab, arn, Subject=text) for text in ("s" * 99, "s" * 101, "a\nb"))
    shown = f"99: {fits or 'taken'}; 101: {over or 'taken'}; line break: {broken or 'taken'}"
    return Saw(not fits and bool(over) and bool(broken), shown)


@asks("sns-attributes", "sns")
def attributes(lab: Lab) -> Saw:
    """Publish with an attribute that is empty."""
    arn = topic(lab)
    code = _publish(lab, arn, MessageAttributes={"a": {"DataType": "String", "StringValue": ""}})
    return Saw(code.startswith("ParameterValueInvalid") or code.startswith("InvalidParameterValue"), code or "taken")


@asks("sns-notification-form", "sns", "sqs", seconds=15)
def notification_form(lab: Lab) -> Saw:
    """Publish to a topic with a queue, and read what arrives."""
    url, arn = queue(lab), topic(lab)
    subscribe(lab, arn, url)
    _publish(lab, arn, "hello", MessageAttributes={"a": {"DataType": "String", "StringValue": "v"}})
    (message,) = received(lab, url, seconds=20)
    body = json.loads(message["Body"])
    names = {"Type", "MessageId", "TopicArn", "Message", "Timestamp", "MessageAttributes"}
    right = names <= body.keys() and body["Message"] == "hello" and body["MessageAttributes"]["a"]["Value"] == "v"
    return Saw(right and not message.get("MessageAttributes"), f"the body has {sorted(body)}")


@asks("sns-fair-queues", "sns", "sqs", seconds=15)
def fair_queues(lab: Lab) -> Saw:
    """Publish with a group to a topic with a queue, both standard."""
    url, arn = queue(lab), topic(lab)
    subscribe(lab, arn, url)
    code = _publish(lab, arn, MessageGroupId="tenant")
    groups = [message["Attributes"].get("MessageGroupId") for message in received(lab, url)] if not code else []
    return Saw(groups == ["tenant"], code or f"the message has the group {groups}")


@asks("sns-raw-delivery", "sns", "sqs", seconds=25)
def raw_delivery(lab: Lab) -> Saw:
    """Publish with ten and with eleven attributes to a queue that gets messages raw."""
    url, arn = queue(lab), topic(lab)
    subscribe(lab, arn, url, RawMessageDelivery="true")
    for count in (11, 10):
        given = {f"a{n}": {"DataType": "String", "StringValue": "v"} for n in range(count)}
        _publish(lab, arn, str(count), MessageAttributes=given)
    arrived = [
        (message["Body"], len(message.get("MessageAttributes", {}))) for message in received(lab, url, seconds=15)
    ]
    arrived += [
        (message["Body"], len(message.get("MessageAttributes", {}))) for message in received(lab, url, seconds=3)
    ]
    return Saw(arrived == [("10", 10)], f"arrived, with attributes: {arrived}")


@asks("sns-client-errors", "sns", "sqs", seconds=40)
def client_errors(lab: Lab) -> Saw:
    """Publish to a queue whose policy does not allow it, with a dead-letter queue at the subscription."""
    url, dead, arn = queue(lab), queue(lab), topic(lab)
    allow(lab, dead, "sns.amazonaws.com")
    policy = json.dumps({"deadLetterTargetArn": queue_arn(lab, dead)})
    subscribe(lab, arn, url, allowed=False, RedrivePolicy=policy)
    _publish(lab, arn, "lost?")
    letters = received(lab, dead, seconds=20)
    return Saw(len(letters) == 1, f"in the subscription's dead-letter queue: {len(letters)}")


@asks("sns-missing-topic", "sns")
def missing_topic(lab: Lab) -> Saw:
    """Publish to a topic that was deleted."""
    arn = topic(lab)
    lab.ask("sns", "delete_topic", TopicArn=arn)
    code = _publish(lab, arn)
    return Saw(code.startswith("NotFound"), code or "taken")


# -- EventBridge


def _entry(lab: Lab, **changed: Any) -> dict[str, Any]:
    return {"Source": lab.namespace, "DetailType": "probe", "Detail": "{}", **changed}


def _put(lab: Lab, entries: list[Any]) -> str:
    return lab.code_of("events", "put_events", Entries=entries)


@asks("events-entries", "events")
def entries(lab: Lab) -> Saw:
    """Put ten and eleven events on the default bus, which no rule reads."""
    ten, eleven = _put(lab, [_entry(lab)] * 10), _put(lab, [_entry(lab)] * 11)
    return Saw(not ten and bool(eleven), f"ten: {ten or 'taken'}; eleven: {eleven or 'taken'}")


@asks("events-size", "events", cents=0.02)
def events_size(lab: Lab) -> Saw:
    """Put an event just below 1 MB, and one of exactly that."""
    room = 1_048_576 - len(lab.namespace) - len("probe") - len('{"a":""}')

    def put(size: int) -> str:
        return _put(lab, [_entry(lab, Detail=json.dumps({"a": "x" * size}, separators=(",", ":")))])

    fits, over = put(room - 1), put(room)
    return Saw(not fits and bool(over), f"below 1 MB: {fits or 'taken'}; 1 MB: {over or 'taken'}")


@asks("events-partial-failure", "events")
def partial_failure(lab: Lab) -> Saw:
    """Put two events of which one has a detail that is no JSON."""
    answer = lab.ask("events", "put_events", Entries=[_entry(lab), _entry(lab, Detail="{")])
    codes = [entry.get("ErrorCode") for entry in answer["Entries"]]
    return Saw(answer["FailedEntryCount"] == 1 and codes == [None, "MalformedDetail"], f"codes: {codes}")


@asks("events-required", "events")
def required(lab: Lab) -> Saw:
    """Put events without a detail type, and with a detail that is a list."""
    empty = _entry(lab, DetailType="")
    listed = _entry(lab, Detail="[]")
    answer = lab.ask("events", "put_events", Entries=[empty, listed])
    codes = [entry.get("ErrorCode") for entry in answer["Entries"]]
    return Saw(codes == ["InvalidArgument", "MalformedDetail"], f"codes: {codes}")


@asks("events-missing-bus", "events")
def missing_bus(lab: Lab) -> Saw:
    """Put an event on a bus that does not exist."""
    answer = lab.ask("events", "put_events", Entries=[_entry(lab, EventBusName=lab.name())])
    entry = answer["Entries"][0]
    return Saw(answer["FailedEntryCount"] == 0 and "EventId" in entry, f"the answer: {sorted(entry)}")


@asks("events-form", "events", "sqs", seconds=30)
def events_form(lab: Lab) -> Saw:
    """Let a rule send events of this namespace to a queue, and read what arrives."""
    url, name = queue(lab), lab.name()
    allow(lab, url, "events.amazonaws.com")
    lab.undo(f"rule {name}", lambda: lab.clean("events", "delete_rule", Name=name))
    lab.ask("events", "put_rule", Name=name, EventPattern=json.dumps({"source": [lab.namespace]}), Tags=tags(lab))
    lab.undo(f"targets of {name}", lambda: lab.clean("events", "remove_targets", Rule=name, Ids=["queue"]))
    lab.ask("events", "put_targets", Rule=name, Targets=[{"Id": "queue", "Arn": queue_arn(lab, url)}])

    def arrived() -> list[Any]:
        _put(lab, [_entry(lab, Detail='{"a": 1}')])
        return received(lab, url, seconds=4)

    messages = lab.until(arrived, 40)
    if not messages:
        return Saw(False, "nothing arrived")
    event = json.loads(messages[0]["Body"])
    names = {"version", "id", "detail-type", "source", "account", "time", "region", "resources", "detail"}
    return Saw(names == event.keys() and event["detail"] == {"a": 1}, f"the event has {sorted(event)}")
