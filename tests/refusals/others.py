"""The rows of SNS, EventBridge, Lambda, Scheduler and S3, which only the engines of the process have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from tests.refusals.case import BUCKET, Case, Places
from tests.refusals.outcome import Failed, Outcome, Refused, Simply

KIBI = 1024
Act = Callable[[Any, Places], Any]
Row = tuple[str, Act, Outcome]


def string(value: str, kind: str = "String") -> dict[str, str]:
    return {"DataType": kind, "StringValue": value}


# -- SNS


def publish(message: str = "x", to: str = "topic", **more: Any) -> Act:
    return lambda client, at: client.publish(TopicArn=getattr(at, to), Message=message, **more)


def publish_batch(*entries: dict[str, Any], to: str = "topic") -> Act:
    return lambda client, at: client.publish_batch(TopicArn=getattr(at, to), PublishBatchRequestEntries=list(entries))


def entries(*ids: str, message: str = "x") -> list[dict[str, Any]]:
    return [{"Id": one, "Message": message} for one in ids]


def nowhere(at: Places) -> str:
    return f"{at.topic}-nowhere"


def topics() -> Iterable[Row]:
    most, wrong, attribute = 256 * KIBI, Refused("InvalidParameter"), Refused("ParameterValueInvalid")
    missing = Refused("NotFound", 404)
    yield "256 KiB", publish("x" * most), Simply.TAKEN
    yield "256 KiB and a byte", publish("x" * (most + 1)), wrong
    yield "above 256 KiB in fewer characters", publish("é" * (most // 2 + 1)), wrong
    yield "256 KiB and attributes", publish("x" * most, MessageAttributes={"a": string("v")}), wrong
    yield "an empty message", publish(""), wrong
    yield "a subject of two lines", publish(Subject="a\nb"), wrong
    yield "a subject of 100 characters", publish(Subject="a" * 100), wrong
    yield "half a surrogate pair", publish("\ud800"), Simply.UNENCODABLE
    yield "a topic that is missing", lambda client, at: client.publish(TopicArn=nowhere(at), Message="x"), missing
    for name in ("a b", ".a", "a.", "a..b", "AWS.a", "x" * 257):
        yield f"an attribute named {name[:10]!r}", publish(MessageAttributes={name: string("v")}), attribute
    yield "an empty attribute value", publish(MessageAttributes={"a": string("")}), attribute
    yield "a type that is not there", publish(MessageAttributes={"a": string("v", "Text")}), attribute
    yield "no group", publish(to="fifo_topic", MessageDeduplicationId="1"), wrong
    yield "no deduplication id", publish(to="fifo_topic", MessageGroupId="1"), wrong
    yield "a group with a space", publish(to="fifo_topic", MessageGroupId="a b", MessageDeduplicationId="1"), wrong
    yield "a batch of 256 KiB", publish_batch(*entries("1", "2", message="x" * (most // 2))), Simply.TAKEN
    too_long = Refused("BatchRequestTooLong")
    yield "a batch of more", publish_batch(*entries("1", "2", message="x" * (most // 2 + 1))), too_long
    too_many = Refused("TooManyEntriesInBatchRequest")
    yield "eleven entries", publish_batch(*entries(*(str(number) for number in range(11)))), too_many
    yield "two entries of one id", publish_batch(*entries("1", "1")), Refused("BatchEntryIdsNotDistinct")
    yield "an id with a space", publish_batch(*entries("a b")), Refused("InvalidBatchEntryId")
    bad = {"Id": "bad", "Message": "x", "MessageAttributes": {"a": string("")}}
    yield "a batch with one bad attribute, which fails as a whole", publish_batch(*entries("good"), bad), attribute
    ungrouped = [{**one, "MessageDeduplicationId": one["Id"]} for one in entries("1", "2")]
    yield "a batch without groups", publish_batch(*ungrouped, to="fifo_topic"), wrong
    yield (
        "a batch for a topic that is missing",
        lambda client, at: client.publish_batch(TopicArn=nowhere(at), PublishBatchRequestEntries=entries("1")),
        missing,
    )


# -- EventBridge


def event(detail: str = "{}", **more: Any) -> dict[str, Any]:
    return {"Source": "s", "DetailType": "t", "Detail": detail, **more}


def put(*found: dict[str, Any]) -> Act:
    return lambda client, _: client.put_events(Entries=list(found))


def padded(size: int, **more: Any) -> dict[str, Any]:
    """An entry that counts exactly so many bytes, beside those of ``more``."""
    return event(json.dumps({"a": "x" * (size - len("s" + "t" + '{"a": ""}'))}), **more)


def buses() -> Iterable[Row]:
    most, too_large = 1024 * KIBI, Refused("ValidationException")
    yield "an entry of a byte less than 1 MiB", put(padded(most - 1)), Simply.TAKEN
    yield "an entry of 1 MiB", put(padded(most)), too_large
    yield "an entry of 1 MiB at a time", put(padded(most - 14, Time=datetime(2026, 1, 1, tzinfo=UTC))), too_large
    yield "two entries of a byte less", put(padded(most // 2), padded(most // 2 - 1)), Simply.TAKEN
    yield "two entries of half a MiB", put(padded(most // 2), padded(most // 2)), too_large
    yield "eleven entries", put(*[event()] * 11), too_large
    for detail in ("[1]", '"text"', "1", "null", "{", "not JSON"):
        yield f"the detail {detail}", put(event(), event(detail)), Failed("MalformedDetail")
    yield "no source", put(event(), {"DetailType": "t", "Detail": "{}"}), Failed("InvalidArgument")
    yield "a bus that is missing, and takes all", put(event(EventBusName="nowhere")), Simply.TAKEN


# -- Lambda


def invoke(payload: bytes, kind: str = "Event", name: str = "there") -> Act:
    return lambda client, _: client.invoke(FunctionName=name, InvocationType=kind, Payload=payload)


def quoted(size: int) -> bytes:
    return b'"' + b"x" * (size - 2) + b'"'


def functions() -> Iterable[Row]:
    too_large = Refused("RequestTooLargeException", 413)
    yield "an event of 1 MiB and a byte", invoke(quoted(1024 * KIBI + 1)), too_large
    yield "a call of 6 MiB and a byte", invoke(quoted(6 * 1024 * KIBI + 1), "RequestResponse"), too_large
    yield "a payload that is not JSON", invoke(b"{"), Refused("InvalidRequestContentException")
    yield (
        "a function that is missing",
        invoke(quoted(1024 * KIBI), name="nowhere"),
        Refused("ResourceNotFoundException", 404),
    )


# -- Scheduler


def schedule(name: str, text: str = "x", group: str = "default") -> Act:
    return lambda client, _: client.create_schedule(
        Name=name,
        GroupName=group,
        ScheduleExpression="at(2030-01-01T00:00:00)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": "arn:aws:sqs:us-east-1:123456789012:queue",
            "RoleArn": "arn:aws:iam::123456789012:role/scheduler",
            "Input": text,
        },
    )


def again(act: Act) -> Act:
    def twice(client: Any, at: Places) -> Any:
        act(client, at)
        return act(client, at)

    return twice


def schedules() -> Iterable[Row]:
    yield "an input of 256 KiB", schedule("a", "x" * 256 * KIBI), Simply.TAKEN
    yield "an input of 256 KiB and a byte", schedule("b", "x" * (256 * KIBI + 1)), Refused("ValidationException")
    yield "a group that is missing", schedule("c", group="nowhere"), Refused("ResourceNotFoundException", 404)
    yield "a name that is there", again(schedule("d")), Refused("ConflictException", 409)


# -- S3


def read(key: str, bucket: str = BUCKET, how: str = "get_object") -> Act:
    return lambda client, _: getattr(client, how)(Bucket=bucket, Key=key)


def write(key: str) -> Act:
    return lambda client, _: client.put_object(Bucket=BUCKET, Key=key, Body=b"x")


def objects() -> Iterable[Row]:
    yield "an object that is missing", read("nothing"), Refused("NoSuchKey", 404)
    yield "the head of one", read("nothing", how="head_object"), Refused("404", 404)
    yield "a bucket that is missing", read("nothing", "nowhere"), Refused("NoSuchBucket", 404)
    yield "a key of 1,024 bytes", write("k" * 1024), Simply.TAKEN
    yield "a key of 1,025 bytes", write("k" * 1025), Refused("KeyTooLongError")
    yield "a key of 1,026 bytes in 513 characters", write("é" * 513), Refused("KeyTooLongError")
    yield "a key of 1,025 bytes that is read", read("k" * 1025), Refused("KeyTooLongError")


def cases() -> Iterable[Case]:
    tables = {
        "sns": topics,
        "events": buses,
        "lambda": functions,
        "scheduler": schedules,
        "s3": objects,
    }
    for service, rows in tables.items():
        for name, act, then in rows():
            yield Case(service, name, act, then)
