"""A function that starts runs over HTTP, beside the functions of its flow, on the AWS in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from flowguard import Settings, start_handler
from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.aws.services import aws_services
from flowguard.clock import no_pause
from flowguard.events import Observer, Tally
from flowguard.sim.calls import ApiCall, Interceptor, Proceed, Recorder, Response, intercept
from flowguard.start_function import StartHandler
from tests.scene import Scene

SIGNED = Settings.model_validate({"token_keys": "k1:an-example-that-is-long-enough-to-be-a-secret"})
FORMATS = ("url", "http", "rest", "load balancer")


class Reply(NamedTuple):
    """What a client gets."""

    status: int
    content: dict[str, Any]
    headers: dict[str, str]

    @property
    def watch(self) -> str:
        """The link, as it stands in the answer."""
        return str(self.content["watch"])


def event_of(form: str, method: str, body: str | None, headers: dict[str, str], run: str = "") -> dict[str, Any]:
    """The event that a gateway makes of a request."""
    base: dict[str, Any] = {"headers": headers, "body": body, "isBase64Encoded": False}
    if form in ("url", "http"):
        domain = "x.lambda-url.eu-west-1.on.aws" if form == "url" else "x.execute-api.eu-west-1.amazonaws.com"
        context = {"domainName": domain, "http": {"method": method}}
        raw = f"run={run}" if run else ""
        return {**base, "version": "2.0", "rawPath": "/orders", "rawQueryString": raw, "requestContext": context}
    query = {"run": run} if run else None
    elb: dict[str, Any] = {"elb": {}} if form == "load balancer" else {"stage": "prod"}
    return {**base, "httpMethod": method, "path": "/orders", "queryStringParameters": query, "requestContext": elb}


class Door:
    """The function. Each request gets a new environment of it, as after a cold start."""

    def __init__(self, shop: Scene, *, settings: Settings = SIGNED, **options: Any) -> None:
        self.shop = shop
        self.settings = settings
        self.handler: StartHandler = start_handler(shop.flow, **{"object_field": "order_id", **options})
        self.tally = Tally()
        self.observe: Observer = self.tally
        self.paused: list[float] = []
        self.on_pause: list[Callable[[], object]] = []
        self.calls = Recorder()
        self.fault: Interceptor | None = None

    def pause(self, seconds: float) -> None:
        """Let the time pass, and what is to happen meanwhile."""
        self.paused.append(seconds)
        self.shop.clock.advance(seconds=seconds)
        if self.on_pause:
            self.on_pause.pop(0)()

    def ask(self, event: dict[str, Any], context: Any = None) -> Reply:
        clients = Clients()
        services = aws_services(self.settings, clients, clock=self.shop.clock, observer=self.observe, pause=no_pause)
        function = self.handler.using(services, ledger_of(self.settings, clients), self.pause)
        self.calls = Recorder()
        with intercept(self.calls), intercept(self.fault) if self.fault is not None else nullcontext():
            answer = function(event, context)
        headers = answer.get("headers") or {name: value for name, [value] in answer["multiValueHeaders"].items()}
        return Reply(answer["statusCode"], json.loads(answer["body"]), headers)

    def post(
        self, key: str | None = "k", body: Any = None, *, form: str = "url", context: Any = None, **headers: str
    ) -> Reply:
        """Start a run. ``headers`` have underscores for hyphens."""
        given = {"content-type": "application/json", **({} if key is None else {"Idempotency-Key": key})}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        text = body if isinstance(body, str) else json.dumps({"order_id": "o1"} if body is None else body)
        return self.ask(event_of(form, "POST", text, given), context)

    def get(self, watch: str, form: str = "url") -> Reply:
        return self.ask(event_of(form, "GET", None, {}, watch.removeprefix("?run=")))

    def started(self) -> list[dict[str, str]]:
        """The messages that lie in the queue of the first stage: each one's request id, time and body."""
        return [
            {
                "id": message["MessageAttributes"]["uniquerequestid"]["StringValue"],
                "at": message["MessageAttributes"]["requestedat"]["StringValue"],
                "body": message["Body"],
            }
            for message in self.shop.sent("price-order")
        ]

    def work(self) -> None:
        """Let the functions of the stages take what lies in their queues."""
        for name in ("price-order", "close-order"):
            records = [record_of(name, message) for message in self.shop.sent(name)]
            if records:
                assert self.shop.handler({"Records": records}) == {"batchItemFailures": []}

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        return [(event.type.value, dict(event.facts)) for event in self.tally.events]


def record_of(queue: str, message: Any) -> dict[str, Any]:
    """The record in which Lambda gets a message of SQS."""
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
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
    }


class Died(BaseException):
    """The function is killed."""


class At:
    """Does something at the n-th call of an operation: before it, or after it took place."""

    def __init__(
        self, operation: str, number: int, *, raises: BaseException | None = None, after: bool = False
    ) -> None:
        self.operation = operation
        self.number = number
        self.error = raises if raises is not None else Died()
        self.after = after

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != self.operation:
            return proceed()
        self.number -= 1
        if self.number:
            return proceed()
        if self.after:
            proceed()
        raise self.error


def throttled(operation: str = "UpdateItem") -> ClientError:
    return ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, operation)


def ask_with_secrets(door: Door) -> None:
    """Make requests of which each is refused, or meets an outage, but the first."""
    door.post("s3cret", {"order_id": "s3cret"})
    door.post("s3cret", {"order_id": "s3cret", "note": "s3cret"})
    door.post("s3cret-2", {"order_id": "o1", "note": {"s3cret": "s3cret"}})
    door.post("s3cret-3", '{"order_id": s3cret')
    door.fault = At("SendMessageBatch", 1, raises=throttled("SendMessageBatch"))
    door.post("s3cret-4", {"order_id": "s3cret"})
