"""Hostile messages on their way out: refused by name before they are sent, or taken by their service as they are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import pytest

from flowguard.aws.sender import AWSSender
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.errors import Reject, RunFailed, TooLarge
from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.sim.in_process import AWSInProcess
from flowguard.testing import hostile
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from tests.aws.engines import same_clients
from tests.proofs.soak.sandbox import Sandbox

ID = {"uniquerequestid": Attribute.string("r1")}


def candidates(to: Destination) -> Iterator[Send]:
    """A message for each hostile text: as its body, as an attribute, as its id and group; and for each attribute."""
    for name in hostile.TEXTS:
        text = hostile.TEXTS[name]
        yield Send(Kind.SIDE, to, text, "r1.1.0", ID)
        yield Send(Kind.SIDE, to, "{}", "r1.1.0", {"a": Attribute.string(text)})
        yield Send(Kind.SIDE, to, "{}", text or "r1", {}, group=text or None)
    for name in hostile.ATTRIBUTES:
        yield Send(Kind.SIDE, to, "{}", "r1.1.0", hostile.ATTRIBUTES[name])


def accepted(to: Destination) -> list[Send]:
    """Those that pass; the others are refused by a short text that names the destination."""
    return [send for send in candidates(to) if not _refused(send)]


def _refused(send: Send) -> bool:
    why = None
    try:
        send.checked()
    except Reject as error:
        why = str(error)
    assert why is None or (str(send.to) in why and len(why) < 400)
    return why is not None


def test_what_sqs_and_sns_refuse_is_refused_here_and_nothing_else() -> None:
    refused = [send for send in candidates(Queue("q")) if _refused(send)]
    bodies = {send.body for send in refused if send.body != "{}"}
    assert bodies == {*(hostile.UNSENDABLE[name] for name in hostile.UNSENDABLE), ""}
    texts = {attribute.value for send in refused for name, attribute in send.attributes.items() if name == "a"}
    assert texts >= bodies
    names = [name for name in hostile.ATTRIBUTES if _passes(hostile.ATTRIBUTES[name])]
    assert names == [
        "none",
        "ten",
        "a name of 256 characters",
        "a type with a label",
        "a number of 38 digits",
        "a zero byte",
        "an array",
    ]


def _passes(attributes: Mapping[str, Attribute]) -> bool:
    try:
        Send(Kind.SIDE, Queue("q"), "{}", "own", attributes).checked()
    except RunFailed:
        return False
    return True


@pytest.mark.parametrize("name", [name for name in hostile.HUGE if "compresses" not in name])
def test_a_huge_body_is_taken_to_the_byte(name: str) -> None:
    send = Send(Kind.SIDE, Queue("q"), hostile.HUGE[name], "own")
    if name == "1 MiB and one":
        with pytest.raises(TooLarge):
            send.checked()
    else:
        assert send.checked() is send


# -- the services judge ------------------------------------------------------------------------------------------------


@pytest.mark.proof("starts ElasticMQ")
@pytest.mark.parametrize("queue", ["hostile", "hostile.fifo"])
def test_elasticmq_takes_what_passes_and_hands_it_out_as_it_was(elasticmq_url: str, queue: str) -> None:
    """Ids and groups of FIFO queues too: an id that it has no place for goes as a digest."""
    sandbox = Sandbox("http://unused", elasticmq_url)
    sandbox.create_queue(queue)
    sends = accepted(Queue(queue))
    told = [Send(s.kind, s.to, s.body, f"{place}.{s.id}", s.attributes, 0, s.group) for place, s in enumerate(sends)]
    assert AWSSender(sandbox.clients).send(told) == {}
    found = _received(sandbox, queue, len(told))
    assert Counter(found) == Counter(_told(send) for send in told), "see which by their lengths"


def _received(sandbox: Sandbox, queue: str, number: int) -> list[str]:
    """Grouped messages come one after the other, each when the one before it is deleted."""
    found: list[Any] = []
    while more := sandbox.take(queue):
        found += more
        assert len(found) <= number
    read = normalize({"Messages": found})
    seen = []
    for each, message in zip(read, found, strict=True):
        own = {name: a["StringValue"] for name, a in message.get("MessageAttributes", {}).items() if "StringValue" in a}
        assert isinstance(each, Envelope) or own
        seen.append(_digest(message["Body"], own))
    return seen


def _told(send: Send) -> str:
    return _digest(send.body, {name: a.value for name, a in send.attributes.items() if not a.is_binary})


def _digest(body: str, attributes: Mapping[str, str]) -> str:
    """Short enough to be shown where it is missing."""
    text = json.dumps([body, attributes], sort_keys=True)
    return text if len(text) < 100 else sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "to",
    [
        Queue("emails"),
        Topic("arn:aws:sns:us-east-1:123456789012:told"),
        Bus("default", "shop", "told"),
    ],
    ids=["queue", "topic", "bus"],
)
def test_each_message_that_passes_is_taken(aws: AWSInProcess, to: Destination) -> None:
    aws.create_queue("emails")
    aws.client("sns").create_topic(Name="told")
    sends = accepted(to)[::4]
    refusals = AWSSender(same_clients()).send(sends)
    assert refusals == {}


UNNAMEABLE = [
    Queue("\ud800"),
    Queue("https://\ud800"),
    Queue("arn:aws:sqs:us-east-1:123456789012:\0"),
    Topic("arn:aws:sns:us-east-1:123456789012:\ud800"),
    Function("\ud800"),
    Bus("\ud800", "\ud800", "\0"),
]


@pytest.mark.parametrize("to", UNNAMEABLE, ids=ascii)
def test_a_destination_of_hostile_text_is_a_refusal_and_no_other_message_pays_for_it(
    aws: AWSInProcess, to: Destination
) -> None:
    """A sender names where it wants to be told."""
    clients = same_clients()
    sender = AWSSender(clients)
    queue = aws.create_queue("emails")
    refusals = sender.send(
        [Send(Kind.COMPLETE, to, "{}", "r1.1.0", ID), Send(Kind.SIDE, Queue("emails"), "{}", "r1.1.1")]
    )
    assert set(refusals) <= {0}, "the AWS in memory knows every function and bus"
    refused = [refusal for refusal in refusals.values() if refusal.final or refusal.for_minutes]
    assert [len(refusal.why) < 600 for refusal in refused] == [True] * len(refusals)
    received = clients.sqs.receive_message(QueueUrl=queue)
    assert len(received["Messages"]) == 1


def test_an_outbox_of_hostile_messages_comes_back_from_its_text_as_it_was() -> None:
    for to in (Queue("q"), Function("f")):
        sends: Sequence[Send] = list(candidates(to))
        outbox = Outbox(RequestId("\ud800"), 0, tuple(sends))
        assert Outbox.from_text(outbox.to_text().encode().decode()) == outbox
