"""The function behind ``POST /orders`` of an HTTP API. It answers 202 with the request's id."""

import base64
import json
from typing import Any

from pydantic import ValidationError

from flowguard import FlowClient
from shop.orders import Order, PlaceOrder

client = FlowClient.from_environment()


def post_order(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Start the run of an order. The header Idempotency-Key makes a repeated request the same one."""
    try:
        order = Order.model_validate_json(body_of(event))
    except ValidationError as error:
        return answer(400, {"problems": [problem["msg"] for problem in error.errors()]})
    headers = event.get("headers", {})
    started = client.start(
        PlaceOrder,
        order,
        request_id=headers.get("idempotency-key"),
        requested_at=event["requestContext"]["timeEpoch"],
        attributes={"tenant": headers.get("x-tenant", "nobody")},
    )
    return answer(202, {"request_id": started.request_id})


def body_of(event: dict[str, Any]) -> bytes:
    body: str = event.get("body", "")
    return base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()


def answer(status: int, body: dict[str, Any]) -> dict[str, Any]:
    return {"statusCode": status, "headers": {"content-type": "application/json"}, "body": json.dumps(body)}
