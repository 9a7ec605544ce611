"""An event that is no payload is named in the error of the payload that it is taken for, with the fix."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.errors import RunFailed
from flowguard.payload.encoding import decode
from flowguard.payload.foreign import foreign_name, recognised
from flowguard.payload.names import read_request_id
from flowguard.testing import hostile


class Order(BaseModel):
    order_id: str


REST: dict[str, Any] = {
    "resource": "/orders",
    "path": "/orders",
    "httpMethod": "POST",
    "headers": {},
    "requestContext": {"resourceId": "a1", "stage": "prod"},
    "body": '{"order_id":"o1"}',
    "isBase64Encoded": False,
}
HTTP: dict[str, Any] = {
    "version": "2.0",
    "routeKey": "POST /orders",
    "rawPath": "/orders",
    "requestContext": {"domainName": "id.execute-api.eu-west-1.amazonaws.com", "http": {"method": "POST"}},
    "body": '{"order_id":"o1"}',
}
URL = {**HTTP, "requestContext": {"domainName": "id.lambda-url.eu-west-1.on.aws", "http": {"method": "POST"}}}
SOCKET = {"requestContext": {"connectionId": "c1", "routeKey": "$default"}, "body": "{}"}
BALANCER = {**REST, "requestContext": {"elb": {"targetGroupArn": "arn"}}}
BUS: dict[str, Any] = {
    "version": "0",
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "Order placed",
    "source": "shop",
    "account": "123456789012",
    "time": "2026-01-02T03:04:05Z",
    "region": "eu-west-1",
    "resources": [],
    "detail": {"order_id": "o1"},
}
PARTIAL = {name: BUS[name] for name in ("detail-type", "source", "detail", "version")}
S3 = {"Records": [{"eventSource": "aws:s3", "s3": {"bucket": {"name": "b"}}}]}

GATEWAY = "call FlowClient.start from the function behind the gateway"
NAMED = [
    (REST, f"this is an API Gateway event (REST API, format 1.0); {GATEWAY}"),
    (HTTP, f"this is an API Gateway event (HTTP API, format 2.0); {GATEWAY}"),
    (SOCKET, f"this is an API Gateway event (WebSocket API); {GATEWAY}"),
    (URL, "this is the event of a function URL; call FlowClient.start from the function behind the URL"),
    (
        BALANCER,
        "this is the event of a load balancer; call FlowClient.start from the function behind the load balancer",
    ),
    (
        PARTIAL,
        "this is an EventBridge event that lacks id, account, time, region, resources; a whole one is unwrapped: leave "
        "the rule's input as it is",
    ),
    (
        BUS,
        "this is an EventBridge event that was not unwrapped; send the event as EventBridge made it, or its detail "
        "alone",
    ),
    (S3, "this is an S3 notification that lacks a part; a whole one is unwrapped: send it as S3 wrote it"),
]


@pytest.mark.parametrize(("event", "told"), NAMED)
def test_an_event_where_a_payload_was_expected_is_named(event: dict[str, Any], told: str) -> None:
    with pytest.raises(RunFailed) as caught:
        decode(Order, json.dumps(event), what="the payload")
    assert str(caught.value) == f"the payload is no Order: order_id: Field required; {told}"
    with pytest.raises(RunFailed) as caught:
        read_request_id("order_id", event)
    assert str(caught.value).endswith(f"; {told}")


@pytest.mark.parametrize(("event", "told"), NAMED)
def test_its_name_is_what_the_error_calls_it(event: dict[str, Any], told: str) -> None:
    name = foreign_name(event)
    assert name is not None
    assert told.startswith(f"this is {name}")
    assert "FlowClient" not in name


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        7,
        [],
        {},
        [REST],
        {"requestContext": "text", "httpMethod": "GET", "path": "/"},
        {"requestContext": {}, "httpMethod": "GET"},
        {"requestContext": {}, "path": "/", "httpMethod": 7},
        {"requestContext": {}, "rawPath": "/"},
        {"requestContext": {"http": {}}, "rawPath": None},
        {"requestContext": {"connectionId": 7}},
        {"detail-type": "Order placed", "source": "shop"},
        {"detail-type": 7, "source": "shop", "detail": {}},
        {"Records": []},
        {"Records": [{"eventSource": "aws:sqs"}]},
        {"Records": "aws:s3"},
    ],
)
def test_what_is_nothing_known_is_not_named(value: Any) -> None:
    assert recognised(value) == ""
    assert foreign_name(value) is None


@pytest.mark.parametrize("name", sorted(hostile.STRUCTURES))
def test_no_structure_breaks_the_naming(name: str) -> None:
    assert recognised(hostile.STRUCTURES[name]) == ""
    assert recognised({"requestContext": hostile.STRUCTURES[name], "Records": hostile.STRUCTURES[name]}) == ""


def test_a_payload_that_is_no_json_is_no_event() -> None:
    for text in ("no json", "[" * 100_000):
        with pytest.raises(RunFailed, match="the payload is no Order: ") as caught:
            decode(Order, text, what="the payload")
        assert "this is" not in str(caught.value)
