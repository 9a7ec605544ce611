"""The flow that is measured: payloads of about 500 bytes, in one stage or in a chain."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.destinations import Queue
from flowguard.names.ids import RequestId


class Line(BaseModel):
    sku: str
    name: str
    quantity: int
    price: float


class Cart(BaseModel):
    cart_id: str
    customer: str
    lines: list[Line]


class Settle(Stage[Cart], name="settle"):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        return Done()


class OneStage(Flow, name="one-stage", object_id="cart_id"):
    stages = (Settle,)


class SettleUnleased(Stage[Cart], name="settle", lease=False):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        return Done()


class Unleased(Flow, name="unleased", object_id="cart_id"):
    stages = (SettleUnleased,)


class Enter(Stage[Cart], name="enter", then="pass-on"):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        return PassOn.message(cart)


class PassOn(Stage[Cart], name="pass-on", then="end"):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        return End.message(cart)


class End(Stage[Cart], name="end"):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        return Done({"lines": len(cart.lines)})


class Chain(Flow, name="chain", object_id="cart_id"):
    stages = (Enter, PassOn, End)


PAYLOAD_BYTES = 500


def a_cart(cart_id: str = "cart-4711") -> Cart:
    """Its JSON has about ``PAYLOAD_BYTES`` bytes."""
    names = ("a pot for four", "tea, 250 g, first flush", "six cups with saucers", "a strainer", "a tin, airtight")
    lines = [
        Line(sku=f"{9_310_577 * n:08x}-{n:03}", name=name, quantity=n, price=n * 7.45)
        for n, name in enumerate(names, start=1)
    ]
    return Cart(cart_id=cart_id, customer="customer-0815 of the shop in the old town", lines=lines)


def a_request(flow: type[Flow], cart: BaseModel, *, request_id: str, requested_at: int) -> tuple[dict[str, Any], str]:
    """The event with which SQS hands over a request for the flow, and the name of the queue it went to."""
    message, inbox = flow.request(cart, request_id=RequestId(request_id), requested_at=requested_at)
    assert isinstance(inbox, Queue)
    attributes = {name: attribute.to_sqs_record() for name, attribute in message.attributes().items()}
    return an_event(inbox.name, message.body, attributes, message_id=request_id, sent_at=requested_at), inbox.name


def an_event(queue: str, body: str, attributes: dict[str, Any], *, message_id: str, sent_at: int) -> dict[str, Any]:
    """One record, with all the fields that SQS gives it."""
    record = {
        "messageId": message_id,
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a" * 8,
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": str(sent_at),
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": str(sent_at + 1),
        },
        "messageAttributes": attributes,
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
        "awsRegion": "us-east-1",
    }
    return json.loads(json.dumps({"Records": [record]}))  # type: ignore[no-any-return]  # plain JSON


class Context:
    """What Lambda hands over beside the event."""

    aws_request_id = "2b5e5d63-6d1f-4c2a-a0f5-0a4e4e5a1f00"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:settle"
    function_name = "settle"
    function_version = "$LATEST"
    memory_limit_in_mb = 128

    def get_remaining_time_in_millis(self) -> int:
        return 30_000
