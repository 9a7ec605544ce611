"""The trace of a request: who gives it, what is passed over, and how the two forms are written in each other."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from flowguard.aws.sender import queue_entry
from flowguard.destinations import Queue
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.waiting import Child, WaitPlan
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE, ErrorNote, Message, Place
from flowguard.wire.trace_context import HEADER, LONGEST, made_in, read_trace, traceparent, xray_header
from flowguard.worker.undeliverable import park
from tests.scene import Scene, record, scene

ROOT: Final = "5759e988bd862e3fe1be46a994272793"
PARENT: Final = "53995c3f42cd8ad8"
W3C: Final = f"00-{ROOT}-{PARENT}-01"
XRAY: Final = f"Root=1-{ROOT[:8]}-{ROOT[8:]};Parent={PARENT};Sampled=1"


@pytest.mark.parametrize("text", [W3C, XRAY, XRAY + ";Lineage=1:a87bd80c:0", f"Root=1-{ROOT[:8]}-{ROOT[8:]}"])
def test_a_context_is_read_as_it_is(text: str) -> None:
    assert read_trace(text) == text


@pytest.mark.parametrize(
    "value",
    [
        None,
        17,
        "",
        W3C.upper(),
        W3C + "-x",
        W3C[:-1],
        W3C + "\n",
        "Root=2-" + XRAY[7:],
        XRAY + "\n",
        XRAY + ";a=\x1b[2J",
        XRAY + ";a=\ud800",
        XRAY + 7 * (";a=" + "b" * 64),
        XRAY + ";a=" + "b" * LONGEST,
    ],
)
def test_what_is_no_context_is_passed_over(value: object) -> None:
    assert read_trace(value) is None


def test_one_form_is_written_in_the_other() -> None:
    assert (xray_header(W3C), traceparent(XRAY)) == (XRAY, W3C)
    assert (xray_header(XRAY), traceparent(W3C)) == (XRAY, W3C)
    assert xray_header(f"00-{ROOT}-{PARENT}-00").endswith("Sampled=0")
    assert str(traceparent(XRAY.replace("Sampled=1", "Sampled=0"))).endswith("-00")
    assert traceparent(f"Root=1-{ROOT[:8]}-{ROOT[8:]};Sampled=1") is None


def test_a_senders_attribute_counts_before_the_header_of_sqs() -> None:
    other = XRAY.replace(PARENT, "0" * 16)
    assert made_in({"traceparent": Attribute.string(W3C)}, {HEADER: other}) == W3C
    assert made_in({"traceparent": Attribute.string("none")}, {HEADER: other}) == other
    assert made_in({}, {HEADER: "none"}) is None
    assert made_in({}, {}) is None


def arrived(at: Scene, message: Any, **of_sqs: str) -> Any:
    came = record(message)
    [envelope] = normalize({"Records": [{**came, "attributes": {**came["attributes"], **of_sqs}}]})
    assert isinstance(envelope, Envelope)
    return at.handler.routes.resolve(envelope, at.clock.now())


def test_a_request_brings_its_trace_and_a_later_hop_keeps_it() -> None:
    with scene() as at:
        first = arrived(at, at.message(), **{HEADER: XRAY}).message
        assert first.trace == XRAY
        onward = first.next("ship-order", "{}")
        place = onward.own_attributes()[PLACE].value
        assert json.loads(place)["trace"] == XRAY
        assert Place.parse(place).trace == XRAY
        assert arrived(at, onward, **{HEADER: XRAY.replace(PARENT, "0" * 16)}).message.trace == XRAY


def test_a_later_hop_of_an_untraced_request_is_not_taken_for_its_beginning() -> None:
    with scene() as at:
        assert arrived(at, at.message(hop=2), **{HEADER: XRAY}).message.trace is None


def test_no_trace_no_word_of_it() -> None:
    with scene() as at:
        assert "trace" not in at.message().own_attributes()[PLACE].value


def test_a_place_with_another_text_is_read_without_it() -> None:
    assert Place.parse('{"trace":"<script>"}').trace is None
    assert Place.parse('{"trace":{"a":1}}').trace is None


def entry_of(message: Message, kind: Kind = Kind.NEXT) -> Any:
    return queue_entry(0, Send(kind, Queue("orders"), "{}", "1", message.attributes()), fifo=False)


def test_only_a_hop_that_goes_on_after_a_wait_is_sent_with_its_requests_header() -> None:
    with scene() as at:
        message = at.message(hop=3, resumed=True, trace=W3C)
    sent = {HEADER: {"DataType": "String", "StringValue": XRAY}}
    assert entry_of(message)["MessageSystemAttributes"] == sent
    for other in (message._replace(resumed=False), message._replace(trace=None)):
        assert "MessageSystemAttributes" not in entry_of(other)
    assert "MessageSystemAttributes" not in entry_of(message, Kind.SIDE)
    alone = Send(Kind.NEXT, Queue("orders"), "{}", "1")
    assert "MessageSystemAttributes" not in queue_entry(0, alone, fifo=False)


def test_a_next_hop_that_could_not_be_sent_keeps_the_trace_in_its_letter() -> None:
    with scene() as at:
        onward = at.message(hop=2, trace=XRAY)
        send = Send(Kind.NEXT, Queue("orders"), "{}", "1", onward.attributes())
        letter = park(at.flow, at.message(), send, ErrorNote("SendFailed", "refused", 1))
    assert Place.parse(letter.attributes[PLACE].value).trace == XRAY


@pytest.mark.parametrize("children", [{}, {"stock": Child("sqs:q", "f", "s", 1, "o", "r", 1)}])
@pytest.mark.parametrize("trace", [None, XRAY])
def test_a_wait_keeps_the_trace(trace: str | None, children: dict[str, Child]) -> None:
    plan = WaitPlan("confirm", {"a": None}, children=children, trace=trace)
    assert WaitPlan.from_text(plan.to_text()) == plan


def test_sqs_in_memory_keeps_the_header_with_the_message() -> None:
    with MemoryAWS() as aws:
        sqs, url = aws.client("sqs"), aws.create_queue("q")
        header: Any = {HEADER: {"DataType": "String", "StringValue": XRAY}}
        sqs.send_message(QueueUrl=url, MessageBody="{}", MessageSystemAttributes=header)
        [message] = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["All"])["Messages"]
        assert message["Attributes"]["AWSTraceHeader"] == XRAY
