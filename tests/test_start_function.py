"""The Lambda function that starts runs for HTTP requests, on the memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flowguard import start_handler
from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.aws.services import aws_services
from flowguard.clock import no_pause
from flowguard.events import Tally
from flowguard.settings import Settings
from flowguard.start_function import StartHandler
from tests.scene import Scene, scene

KEYS = "k1:an-example-that-is-long-enough-to-be-a-secret"
SIGNED = Settings.model_validate({"token_keys": KEYS})
FORMATS = ("url", "http", "rest", "load balancer")


def event_of(form: str, method: str, body: str, headers: dict[str, str], run: str = "") -> dict[str, Any]:
    """The event that a gateway makes of a request."""
    query = {"run": run} if run else {}
    base: dict[str, Any] = {"headers": headers, "body": body, "isBase64Encoded": False}
    if form in ("url", "http"):
        domain = "x.lambda-url.eu-west-1.on.aws" if form == "url" else "x.execute-api.eu-west-1.amazonaws.com"
        context = {"domainName": domain, "http": {"method": method}}
        raw = f"run={run}" if run else ""
        return {**base, "version": "2.0", "rawPath": "/orders", "rawQueryString": raw, "requestContext": context}
    context = {"elb": {}} if form == "load balancer" else {"stage": "prod"}
    return {**base, "httpMethod": method, "path": "/orders", "queryStringParameters": query, "requestContext": context}


class Door:
    """A start handler beside the flow's own functions."""

    def __init__(self, shop: Scene, **options: Any) -> None:
        self.shop = shop
        self.paused: list[float] = []
        self.settings = options.pop("settings", SIGNED)
        self.handler: StartHandler = start_handler(shop.flow, **options)
        self.tally = Tally()
        self.on_pause: list[Any] = []

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)
        for step in self.on_pause[:1]:
            self.on_pause.pop(0)
            step()

    def ask(self, event: dict[str, Any], context: Any = None) -> tuple[int, Any, dict[str, str]]:
        clients = Clients()
        services = aws_services(self.settings, clients, clock=self.shop.clock, observer=self.tally, pause=no_pause)
        answer = self.handler.using(services, ledger_of(self.settings, clients), self.pause)(event, context)
        return answer["statusCode"], json.loads(answer["body"]), answer["headers"]

    def post(self, key: str = '"k"', order: str = "o1", form: str = "url", **headers: str) -> tuple[int, Any, Any]:
        named = {"Idempotency-Key": key, "Content-Type": "application/json", **headers}
        return self.ask(event_of(form, "POST", json.dumps({"order_id": order}), named))

    def get(self, watch: str, form: str = "url") -> tuple[int, Any]:
        return self.ask(event_of(form, "GET", "", {}, watch.removeprefix("?run=")))[:2]

    def work(self) -> None:
        """Let the flow's functions take what is in the queues."""
        sqs = self.shop.aws.client("sqs")
        for name in ("price-order", "close-order"):
            url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
            got = sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
            )
            for message in got.get("Messages", []):
                self.shop.handler({"Records": [record_of(name, message)]})
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def record_of(queue: str, message: Any) -> dict[str, Any]:
    attributes = {
        name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
        for name, value in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:eu-west-1:123456789012:{queue}",
    }


@pytest.fixture
def shop() -> Iterator[Scene]:
    with scene() as made:
        yield made


@pytest.mark.parametrize("form", FORMATS)
def test_a_repeat_with_the_same_key_starts_nothing(shop: Scene, form: str) -> None:
    door = Door(shop)
    first = door.post(form=form)
    shop.clock.advance(seconds=60)
    again = door.post(key="k", form=form)
    assert (first[0], again[0]) == (202, 202)
    assert first[1] == again[1]
    assert len(shop.sent("price-order")) == 1


def test_a_key_with_another_payload_is_refused(shop: Scene) -> None:
    door = Door(shop)
    door.post()
    assert door.post(order="o2")[0] == 422
    assert len(shop.sent("price-order")) == 1
