"""Messages that have gone through SQS and SNS."""

from __future__ import annotations

import pytest

from flowguard.sim.moto import EmbeddedAWS
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import Envelope, Source, resend
from tests.make_records import EVERY_TYPE, only
from tests.wire.envelope.resent import RETRIED


@pytest.fixture
def queue(embedded: EmbeddedAWS) -> str:
    return embedded.client("sqs").create_queue(QueueName="carts")["QueueUrl"]


def receive(embedded: EmbeddedAWS, queue: str) -> Envelope:
    answer = embedded.client("sqs").receive_message(
        QueueUrl=queue, MessageAttributeNames=["All"], AttributeNames=["All"], MaxNumberOfMessages=1
    )
    return only(answer)


def send(embedded: EmbeddedAWS, queue: str, body: str, attributes: dict[str, Attribute]) -> None:
    wire = attributes_to(Attribute.to_sqs_api, attributes)
    embedded.client("sqs").send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=wire)


def test_a_direct_message_and_its_retries_keep_everything_through_sqs(embedded: EmbeddedAWS, queue: str) -> None:
    send(embedded, queue, '{"cart_id":"cart-1001","note":"ä ☕"}', EVERY_TYPE)
    first = receive(embedded, queue)
    assert first.attributes == EVERY_TYPE
    send(embedded, queue, *resend(first, RETRIED))
    second = receive(embedded, queue)
    send(embedded, queue, *resend(second, {"retry": Attribute.number(2)}))
    third = receive(embedded, queue)
    assert third.message == '{"cart_id":"cart-1001","note":"ä ☕"}'
    assert third.attributes == EVERY_TYPE | RETRIED | {"retry": Attribute.number(2)}
    assert third.attributes["etag"].data == b"\x00\x01\xfe\xff"
    assert len({first.message_id, second.message_id, third.message_id}) == 3


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
def test_a_message_through_sns_and_its_retry_keep_everything(embedded: EmbeddedAWS, queue: str, *, raw: bool) -> None:
    # moto cannot hand over bytes that came by raw delivery
    sent = {name: attribute for name, attribute in EVERY_TYPE.items() if not (raw and attribute.is_binary)}
    publish(embedded, "two packs of tea ☕", sent, raw=raw)
    first = receive(embedded, queue)
    assert first.source is (Source.SQS if raw else Source.SNS_SQS)
    send(embedded, queue, *resend(first, RETRIED))
    retry = receive(embedded, queue)
    assert (retry.message, retry.attributes) == ("two packs of tea ☕", sent | RETRIED)
    assert (retry.sns_message_id is None) is raw


def publish(embedded: EmbeddedAWS, message: str, attributes: dict[str, Attribute], *, raw: bool) -> None:
    """Through a topic to which the queue is subscribed."""
    sns = embedded.client("sns")
    topic = sns.create_topic(Name="cart-events")["TopicArn"]
    queue_arn = topic.replace(":sns:", ":sqs:").replace("cart-events", "carts")
    how = {"RawMessageDelivery": str(raw).lower()}
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn, Attributes=how)
    wire = attributes_to(Attribute.to_sns_api, attributes)
    sns.publish(TopicArn=topic, Message=message, MessageAttributes=wire)
