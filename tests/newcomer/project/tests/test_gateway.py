"""Orders by HTTP."""

import base64
import json
from typing import Any

from shop.gateway import post_order
from shop.orders import PlaceOrder

from flowguard.testing import FlowRunner


def request(body: str, **headers: str) -> dict[str, Any]:
    """What API Gateway hands to a function."""
    return {
        "version": "2.0",
        "routeKey": "POST /orders",
        "rawPath": "/orders",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **headers},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "a1b2c3d4e5",
            "domainName": "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com",
            "http": {"method": "POST", "path": "/orders", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "POST /orders",
            "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000",
            "timeEpoch": 1767225600000,
        },
        "body": body,
        "isBase64Encoded": False,
    }


ORDER = json.dumps({"order_id": "o-7", "sku": "green-tea", "quantity": 2})


def test_an_order_by_http_is_shipped_once(flow_runner: FlowRunner) -> None:
    flow_runner.serve(PlaceOrder).table("stock", "sku", {"sku": "green-tea", "in_stock": 10})
    event = request(ORDER, **{"idempotency-key": "order-7", "x-tenant": "acme"})
    encoded = {**event, "body": base64.b64encode(ORDER.encode()).decode(), "isBase64Encoded": True}
    for one in (event, encoded):
        response = post_order(one, None)
        assert response["statusCode"] == 202
        assert json.loads(response["body"]) == {"request_id": "order-7"}
    result = flow_runner.run()
    assert result.run("o-7").result == {"shipped": 2}
    assert result.item("stock", sku="green-tea") == {"sku": "green-tea", "in_stock": 8}
    assert [parcel.attributes["tenant"].value for parcel in result.sent("parcels")] == ["acme"]


def test_a_request_without_a_key_gets_an_id(flow_runner: FlowRunner) -> None:
    flow_runner.serve(PlaceOrder).table("stock", "sku", {"sku": "green-tea", "in_stock": 10})
    assert json.loads(post_order(request(ORDER), None)["body"])["request_id"]
    assert flow_runner.run().run("o-7").status == "COMPLETED"


def test_what_is_no_order_starts_nothing(flow_runner: FlowRunner) -> None:
    response = post_order(request('{"order_id": "o-8"}'), None)
    assert response["statusCode"] == 400
    assert flow_runner.serve(PlaceOrder).run().runs() == []
