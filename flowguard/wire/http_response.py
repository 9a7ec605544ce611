"""An HTTP response, and the value that a function returns for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from flowguard.payload.http_source import HttpSource, http_source
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.http_page import POLICY, Page

_ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_OF_PAGES: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}


MOST_OF_LAMBDA: Final = 6 * 1024 * 1024
MOST_BEHIND_A_LOAD_BALANCER: Final = 1024 * 1024
KEPT_FOR_HEADERS: Final = 16 * 1024
"""Bytes: what a function may answer, and what is kept of that for its headers and the form around them."""


class HttpResponse(NamedTuple):
    """A response.

    ``verdict`` is that on the answer, if one was judged; ``cause`` the error, if one was caught. Neither is sent.
    """

    status: int
    headers: Mapping[str, str]
    body: str
    verdict: AnswerVerdict | None = None
    cause: Exception | None = None


def json_response(status: int, content: Mapping[str, object], **headers: str) -> HttpResponse:
    """Make a response with a JSON object. An underscore in a header's name stands for a hyphen."""
    return HttpResponse(status, _headers({"Content-Type": "application/json"}, headers), f"{_text(content)}\n")


def room_for_body(event: object) -> int:
    """Return how many bytes of JSON Lambda and the gateway take as the body of an answer."""
    is_small = http_source(event) is HttpSource.LOAD_BALANCER
    return (MOST_BEHIND_A_LOAD_BALANCER if is_small else MOST_OF_LAMBDA) - KEPT_FOR_HEADERS


def size_of_body(response: HttpResponse) -> int:
    """Return how many bytes the body takes in the function's answer at most.

    Lambda writes it once more as JSON, and on Python 3.11 in ASCII alone.
    """
    return len(json.dumps(response.body))


def _text(content: Mapping[str, object]) -> str:
    """Return the JSON text, with its characters as they are where UTF-8 has them."""
    text = json.dumps(content, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(content)
    return text


def page_response(status: int, page: Page, **headers: str) -> HttpResponse:
    """Make a response with a page that no cache keeps, no frame holds and no search engine lists."""
    return HttpResponse(status, _headers(_OF_PAGES, headers), page.html())


def _headers(base: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    return {**base, **_ALWAYS, **{name.replace("_", "-"): value for name, value in more.items()}}


def lambda_response(response: HttpResponse, event: object) -> dict[str, Any]:
    """Return what the function returns for the request that the event is. A load balancer wants a form of its own."""
    answer: dict[str, Any] = {"statusCode": response.status, "body": response.body, "isBase64Encoded": False}
    if http_source(event) is not HttpSource.LOAD_BALANCER:
        return {**answer, "headers": dict(response.headers)}
    answer["statusDescription"] = f"{response.status} {HTTPStatus(response.status).phrase}"
    if isinstance(event, dict) and "multiValueHeaders" in event:
        return {**answer, "multiValueHeaders": {name: [value] for name, value in response.headers.items()}}
    return {**answer, "headers": dict(response.headers)}
