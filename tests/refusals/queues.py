"""SQS's rows. ElasticMQ has words of its own for some refusals, and checks less of attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.refusals.case import Case, Places
from tests.refusals.outcome import Failed, Outcome, Refused, Simply

MOST = 1_048_576
PREFIX = "AWS.SimpleQueueService."
MQ = "elasticmq"

CONTENTS, VALUE, MISSING = "InvalidMessageContents", "InvalidParameterValue", "MissingParameter"
ITS_OWN_WORD = Refused("InvalidAttributeValue")

Act = Callable[[Any, Places], Any]
Row = tuple[str, Act, Outcome, Mapping[str, Outcome]]


def string(value: str, kind: str = "String") -> dict[str, str]:
    return {"DataType": kind, "StringValue": value}


def send(body: str = "x", to: str = "queue", **more: Any) -> Act:
    return lambda client, at: client.send_message(QueueUrl=getattr(at, to), MessageBody=body, **more)


def named(name: str) -> Act:
    return send(MessageAttributes={name: string("v")})


def valued(value: dict[str, Any]) -> Act:
    return send(MessageAttributes={"a": value})


def both(to: str = "queue", good: dict[str, Any] | None = None, **bad: Any) -> Act:
    """A batch of an entry that is fine and one that is not."""
    entries = [
        {"Id": "good", "MessageBody": "x", **(good or {})},
        {"Id": "bad", **({"MessageBody": "x"} | bad)},
    ]
    return lambda client, at: client.send_message_batch(QueueUrl=getattr(at, to), Entries=entries)


def batch(*ids: str, body: str = "x") -> Act:
    entries = [{"Id": one, "MessageBody": body} for one in ids]
    return lambda client, at: client.send_message_batch(QueueUrl=at.queue, Entries=entries)


def fifo(**more: Any) -> Act:
    return send(to="fifo", **more)


def change(seconds: int) -> Act:
    def act(client: Any, at: Places) -> Any:
        client.send_message(QueueUrl=at.queue, MessageBody="x")
        [message] = client.receive_message(QueueUrl=at.queue)["Messages"]
        return client.change_message_visibility(
            QueueUrl=at.queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
        )

    return act


def rows() -> Iterable[Row]:
    for character in ("\x00", "\x08", "\x0b", "\x1f", "\ufffe", "\uffff", "\ud800", "\udfff"):
        point = f"U+{ord(character):04X}"
        its_own = {MQ: ITS_OWN_WORD}
        yield f"{point} in a body", send(f"a{character}"), Refused(CONTENTS), its_own
        yield f"{point} in an attribute", valued(string(f"a{character}")), Refused(CONTENTS), its_own
        in_batch = {MQ: Failed("InvalidAttributeValue")}
        yield f"{point} in a batch", both(MessageBody=f"a{character}"), Failed(CONTENTS), in_batch
    for character in ("\t", "\n", "\r", " ", "\ud7ff", "\ue000", "\ufffd", "\U00010000", "\U0010ffff"):
        yield f"U+{ord(character):04X} in a body", send(f"a{character}"), Simply.TAKEN, {}
    yield (
        "a control in an attribute in a batch",
        both(MessageAttributes={"a": string("\x01")}),
        Failed(CONTENTS),
        {MQ: Failed("InvalidAttributeValue")},
    )
    yield "an empty body", send(""), Refused(MISSING), {MQ: ITS_OWN_WORD}
    yield "an empty body in a batch", both(MessageBody=""), Failed(MISSING), {MQ: Failed("InvalidAttributeValue")}
    yield from attributes()
    yield from sizes()
    yield from times()
    yield from batches()
    yield from fifos()


def attributes() -> Iterable[Row]:
    refused, unchecked = Refused(VALUE), {MQ: Simply.TAKEN}
    yield "an empty attribute value", valued(string("")), refused, {MQ: ITS_OWN_WORD}
    yield "an empty binary value", valued({"DataType": "Binary", "BinaryValue": b""}), refused, unchecked
    yield "a type of attribute that is not there", valued(string("v", "Text")), refused, {}
    yield "a type that is followed by others", valued(string("v", "String.json")), Simply.TAKEN, {}
    yield "ten attributes", send(MessageAttributes={f"a{n}": string("v") for n in range(10)}), Simply.TAKEN, {}
    eleven = {f"a{n}": string("v") for n in range(11)}
    yield "eleven attributes", send(MessageAttributes=eleven), refused, {MQ: ITS_OWN_WORD}
    yield (
        "eleven attributes in a batch",
        both(MessageAttributes=eleven),
        Failed(VALUE),
        {MQ: Failed("InvalidAttributeValue")},
    )
    yield "an attribute's name of all kinds of characters", named("Az_09-.b"), Simply.TAKEN, {}
    for name in ("a b", "é", "a:b", ".a", "a.", "a..b", "AWS.a", "aws.a", "Amazon.a", "x" * 257, ""):
        yield f"an attribute named {name[:10]!r}", named(name), refused, unchecked


def sizes() -> Iterable[Row]:
    refused, before = Refused(VALUE), {MQ: ITS_OWN_WORD}  # its limit is that of before 2025-08: 256 KiB
    whole = {"a": string("v" * 100)}
    rest = MOST - len("a" + "String") - 100
    yield "a message of 1 MiB", send("x" * MOST), Simply.TAKEN, before
    yield "a message of 1 MiB and a byte", send("x" * (MOST + 1)), refused, before
    yield "a message above 1 MiB in fewer characters", send("é" * (MOST // 2 + 1)), refused, before
    yield "1 MiB with attributes", send("x" * rest, MessageAttributes=whole), Simply.TAKEN, before
    yield "1 MiB and a byte with attributes", send("x" * (rest + 1), MessageAttributes=whole), refused, before
    yield "1,024 bytes for a queue that takes them", send("x" * 1024, to="small"), Simply.TAKEN, {}
    yield "1,025 bytes for a queue that takes 1,024", send("x" * 1025, to="small"), refused, {MQ: Simply.TAKEN}
    yield "the same in a batch", both(to="small", MessageBody="x" * 1025), Failed(VALUE), {MQ: Simply.TAKEN}


def times() -> Iterable[Row]:
    refused = Refused(VALUE)
    yield "a delay of 900 seconds", send(DelaySeconds=900), Simply.TAKEN, {}
    yield "a delay of 901 seconds", send(DelaySeconds=901), refused, {}
    yield "a delay of -1 seconds", send(DelaySeconds=-1), refused, {}
    yield "a delay of 901 seconds in a batch", both(DelaySeconds=901), Failed(VALUE), {}
    yield "a visibility of 43,100 seconds, in the time since the receive", change(43_100), Simply.TAKEN, {}
    yield "a visibility of 43,201 seconds", change(43_201), refused, {MQ: Simply.TAKEN}
    yield (
        "a receive for 43,201 seconds",
        lambda client, at: client.receive_message(QueueUrl=at.queue, VisibilityTimeout=43_201),
        refused,
        {MQ: Simply.TAKEN},
    )


def batches() -> Iterable[Row]:
    def whole(name: str) -> tuple[Outcome, Mapping[str, Outcome]]:
        """ElasticMQ leaves the prefix out."""
        return Refused(PREFIX + name), {MQ: Refused(name)}

    ten = [str(number) for number in range(10)]
    yield "ten entries", batch(*ten), Simply.TAKEN, {}
    yield "eleven entries", batch(*ten, "10"), *whole("TooManyEntriesInBatchRequest")
    yield "two entries of one id", batch("same", "same"), *whole("BatchEntryIdsNotDistinct")
    malformed = Refused(PREFIX + "InvalidBatchEntryId")
    yield "an id with a space", batch("a b"), malformed, {MQ: Simply.TAKEN}
    yield "an id of 81 characters", batch("x" * 81), malformed, {MQ: Simply.TAKEN}
    too_long = Refused(PREFIX + "BatchRequestTooLong")
    its_own = {MQ: ITS_OWN_WORD}  # above its 256 KiB, too
    yield "a batch of 1 MiB", batch("1", "2", body="x" * (MOST // 2)), Simply.TAKEN, its_own
    yield "a batch of more", batch("1", "2", body="x" * (MOST // 2 + 1)), too_long, its_own
    nowhere, without_prefix = Refused(PREFIX + "NonExistentQueue"), {MQ: Refused("QueueDoesNotExist")}
    yield (
        "a queue that is missing",
        lambda client, at: client.send_message(QueueUrl=f"{at.queue}-nowhere", MessageBody="x"),
        nowhere,
        without_prefix,
    )
    yield (
        "a queue that is missing, for a batch",
        lambda client, at: client.send_message_batch(
            QueueUrl=f"{at.queue}-nowhere", Entries=[{"Id": "1", "MessageBody": "x"}]
        ),
        nowhere,
        without_prefix,
    )
    yield "the URL of one", lambda client, _: client.get_queue_url(QueueName="nowhere"), nowhere, without_prefix


def fifos() -> Iterable[Row]:
    refused, punctuation = Refused(VALUE), "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    for name, other in (
        ("MessageGroupId", "MessageDeduplicationId"),
        ("MessageDeduplicationId", "MessageGroupId"),
    ):
        for value in ("x" * 128, punctuation):
            yield f"{name} {value[:4]!r}", fifo(**{name: value, other: f"{name}-{value[:2]}"}), Simply.TAKEN, {}
        for value in ("x" * 129, "a b", "é", "a\n", ""):
            unseen = {MQ: Simply.TAKEN} if value == "a\n" else {}
            yield f"{name} {value[:4]!r}…", fifo(**{name: value, other: "1"}), refused, unseen
    yield "a group with a space on a standard queue", send(MessageGroupId="a b"), refused, {}
    yield "no group", fifo(MessageDeduplicationId="1"), Refused(MISSING), {}
    yield "no deduplication id", fifo(MessageGroupId="g"), refused, {}
    yield "a delay on a FIFO queue", fifo(MessageGroupId="g", MessageDeduplicationId="d", DelaySeconds=1), refused, {}
    good = {"MessageGroupId": "g", "MessageDeduplicationId": "good"}
    no_group = both(to="fifo", good=good, MessageDeduplicationId="bad")
    yield "no group in a batch, which fails as a whole", no_group, refused, {MQ: Failed(MISSING)}
    no_id = both(to="fifo", good={**good, "MessageDeduplicationId": "good2"}, MessageGroupId="g")
    yield "no deduplication id in a batch, which fails as a whole", no_id, refused, {MQ: Failed(VALUE)}


def cases() -> Iterable[Case]:
    for name, act, then, but in rows():
        yield Case("sqs", name, act, then, but)
