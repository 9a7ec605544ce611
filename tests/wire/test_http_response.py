"""Responses: what each gateway wants back, and the headers that every one has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.wire.http_page import POLICY, Page
from flowguard.wire.http_response import HttpResponse, json_response, lambda_response, page_response
from tests.wire.test_http_request import GATEWAYS, sample

RESPONSE = HttpResponse(410, {"Content-Type": "application/json"}, "{}")


@pytest.mark.parametrize("gateway", GATEWAYS[:3])
def test_a_gateway_gets_status_headers_and_body(gateway: str) -> None:
    assert lambda_response(RESPONSE, sample(f"{gateway}-json")) == {
        "statusCode": 410,
        "headers": {"Content-Type": "application/json"},
        "body": "{}",
        "isBase64Encoded": False,
    }


@pytest.mark.parametrize("several", [False, True])
def test_a_load_balancer_gets_the_status_in_words_and_headers_as_it_sends_them(several: bool) -> None:
    event: dict[str, Any] = sample("load-balancer-json")
    if several:
        event["multiValueHeaders"] = {name: [value] for name, value in event.pop("headers").items()}
    found = lambda_response(RESPONSE, event)
    assert found["statusDescription"] == "410 Gone"
    assert found.get("headers") == (None if several else {"Content-Type": "application/json"})
    assert found.get("multiValueHeaders") == ({"Content-Type": ["application/json"]} if several else None)


def test_json_is_not_kept_and_not_guessed_at() -> None:
    found = json_response(503, {"detail": "é"}, Retry_After="5")
    assert json.loads(found.body) == {"detail": "é"}
    assert found.headers == {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Retry-After": "5",
    }


def test_a_page_is_not_kept_framed_listed_or_named_to_others() -> None:
    found = page_response(200, Page("t", "x"))
    assert found.headers == {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
        "X-Robots-Tag": "noindex, nofollow, noarchive",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
