"""Whoever may send to a FIFO inbox sends under the ids that a run is about to send under: SQS takes copies for one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from flowguard import Done, Flow, FlowClient, Outcome, Retry, Stage, Step, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.sender import queue_entry
from flowguard.aws.services import aws_services, aws_store
from flowguard.destinations import Queue
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.outbox import Kind, Send
from flowguard.recorded.side_messages import SideMessages
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.virtual import VirtualTime
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, ErrorNote, Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import Keyring, Keys, KeySigner, Signer, signed_attributes
from flowguard.worker.ports import Services

START = 1_800_000_000_000
KEYS = "k1:" + "s" * 40
INBOX = "ordered.fifo"
RUN = Message(
    flow="ordered",
    stage="take",
    version=1,
    object_id=ObjectId("o1"),
    request_id=RequestId("run-1"),
    requested_at=START,
    body='{"order":"o1"}',
)


class Order(BaseModel):
    order: str


class Take(Stage[Order], name="take", then="close", retry=RetryPolicy(attempts=3, backoff=Fixed(0), jitter=0)):
    def handle(self, order: Order, step: Step) -> Outcome:
        if step.attempt == 1:
            raise Retry("the first attempt fails")
        return Close.message(order)


class Close(Stage[Order], name="close"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("told.fifo", {"closed": order.order}, group=order.order)
        return Done()


class Ordered(Flow, name="ordered", object_id="order", inbox=INBOX, dead_letters="dead"):
    stages = (Take, Close)


@contextmanager
def fifo(keys: str | None) -> Iterator[tuple[MemoryAWS, VirtualTime, Services]]:
    with VirtualTime(START) as time, MemoryAWS(time) as aws:
        aws.create_table("flowguard")
        for name in (INBOX, "told.fifo", "dead"):
            aws.create_queue(name, **({"FifoQueue": "true"} if name.endswith(".fifo") else {}))
        settings = Settings(signing_keys=None if keys is None else SecretStr(keys))
        yield aws, time, aws_services(settings, Clients(), clock=time)


def work_off(aws: MemoryAWS, function: Any) -> None:
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName=INBOX)["QueueUrl"]
    for _ in range(20):
        found = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        event = {"Messages": [{**one, "EventSourceARN": aws.queue_arn(url)} for one in found]}
        left = {one["itemIdentifier"] for one in function(event)["batchItemFailures"]} if found else set()
        for one in found:
            if one["MessageId"] not in left:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])


def ids_that_can_be_told() -> list[str]:
    """What everybody knows who knows flow, object, request and time."""
    return [
        *(id_of(IdKind.NEXT, RUN._replace(hop=hop)) for hop in (1, 2)),
        id_of(IdKind.RETRY, RUN._replace(retry=1), 1),
        *(id_of(IdKind.SEND, RUN._replace(hop=2), place) for place in (0, 1)),
        id_of(IdKind.START, RUN),
    ]


def poison(aws: MemoryAWS) -> None:
    """Send something under each of these ids, in groups of their own, so that the run's group is not held up."""
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName=INBOX)["QueueUrl"]
    for own in ids_that_can_be_told():
        sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId=f"of.{own}", MessageDeduplicationId=own)


def ended() -> str:
    item = aws_store(Settings(), Clients()).read("ordered", ObjectId("o1"))
    return "none" if item is None else f"{item.status.value} at {item.hop}"


@pytest.mark.parametrize(("keys", "end"), [(KEYS, "COMPLETED at 2"), (None, "none")])
def test_messages_under_the_ids_of_a_run_keep_nothing_of_it_from_arriving_where_messages_are_signed(
    keys: str | None, end: str
) -> None:
    """Without keys whoever may send to the inbox can hold up a run whose ids they know (docs/explain/trust.md)."""
    with fifo(keys) as (aws, _, services):
        poison(aws)
        FlowClient.of(services).start(Ordered, Order(order="o1"), request_id="run-1", requested_at=START)
        work_off(aws, lambda_handler(Ordered).using(services))
        assert ended() == end


@pytest.mark.parametrize(("keys", "arrives"), [(KEYS, True), (None, False)])
def test_an_order_to_cancel_arrives_whatever_was_sent_under_its_id_where_messages_are_signed(
    keys: str | None, arrives: bool
) -> None:
    """It carries its signature within its address, and goes to the FIFO inbox of the run that it ends."""
    with fifo(keys) as (aws, _, services):
        poison(aws)
        recorded = SideMessages(RUN._replace(hop=2), services.signer, START)
        recorded.cancel(Ordered, "o1", "sold out")
        assert [send.id for send in recorded.recorded] == [id_of(IdKind.SEND, RUN._replace(hop=2), 0)]
        assert services.sender.send(recorded.recorded) == {}
        arrived: list[str] = []
        work_off(aws, lambda event: taken_from(event, arrived))
        assert ("sold out" in "".join(arrived)) is arrives


def taken_from(event: Any, arrived: list[str]) -> dict[str, Any]:
    """Note what each record says of itself, and take it."""
    arrived += [json.dumps(one.get("MessageAttributes", {})) for one in event["Messages"]]
    return {"batchItemFailures": []}


def signer(secret: str) -> Signer:
    return KeySigner(Keyring(lambda: Keys.parse(f"k1:{secret * 40}"), VirtualTime(START)))


def known_by(message: Message, own: Signer, send_id: str) -> str:
    send = Send(Kind.NEXT, Queue(INBOX), message.body, send_id, signed_attributes(message, own), group="o1")
    return str(queue_entry(0, send, fifo=True)["MessageDeduplicationId"])


def test_copies_of_a_signed_message_are_known_by_one_id_and_nothing_else_is() -> None:
    hop, own = RUN._replace(hop=2), signer("a")
    known = known_by(hop, own, "id")
    assert known == known_by(hop, own, "id")
    failed = ErrorNote("ValueError", "it failed", START + 1)
    assert known == known_by(hop._replace(first_error=failed, last_error=failed), own, "id"), (
        "when it failed is no text"
    )
    others = [
        known_by(hop, signer("b"), "id"),
        known_by(hop, own, "other id"),
        known_by(hop._replace(object_id=ObjectId("o2")), own, "id"),
        known_by(hop._replace(flow="others"), own, "id"),
        known_by(hop._replace(request_id=RequestId("run-2")), own, "id"),
        known_by(hop._replace(requested_at=START + 1), own, "id"),
    ]
    assert len({known, *others}) == 1 + len(others)


@pytest.mark.parametrize("place", ["no JSON", '{"sig":7}', "[]", "{}"])
def test_a_message_that_nobody_can_read_is_known_by_its_own_id(place: str) -> None:
    send = Send(Kind.DEAD, Queue("dead.fifo"), "x", "its.dead", {PLACE: Attribute.string(place)})
    assert queue_entry(0, send, fifo=True)["MessageDeduplicationId"] == "its.dead"
