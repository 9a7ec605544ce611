"""What a client is answered where a run stands: results that no gateway could hand on are left out."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from flowguard.errors import EnvelopeError
from flowguard.wire.http_request import HttpRequest
from flowguard.wire.http_response import lambda_response
from flowguard.worker.http_starts import HttpStarts
from flowguard.worker.starts import Accepted
from flowguard.worker.watched_runs import Progress, Watched
from tests.start_door import event_of

MEGABYTE: Final = 1024 * 1024
KEPT: Final = 16 * 1024
EMPTY: Final = len(json.dumps('{"state": "done", "result": ""}\n'))


def answered(result: str, form: str, method: str = "GET") -> dict[str, Any]:
    seen = Watched(Progress.DONE, result)

    def start(request: HttpRequest, wanted: int | None) -> Accepted:
        return Accepted("link", seen)

    def look(request: HttpRequest, text: str) -> Watched:
        return seen

    event = event_of(form, method, "{}", {"content-type": "application/json"}, "link")
    return lambda_response(HttpStarts(start, look).respond_to(event), event)


@pytest.mark.parametrize(("form", "most"), [("http", 6 * MEGABYTE), ("load balancer", MEGABYTE)])
@pytest.mark.parametrize("letter", ["x", "é", '"'])
def test_a_result_is_shown_as_far_as_its_gateway_takes_it(form: str, most: int, letter: str) -> None:
    takes = {"x": 1, "é": 6, '"': 4}[letter]  # Lambda writes \" once more as JSON, on Python 3.11 in ASCII
    longest = (most - KEPT - EMPTY) // takes
    shown = answered(letter * longest, form)
    assert json.loads(shown["body"])["result"] == letter * longest
    assert len(json.dumps(shown)) <= most
    assert json.loads(answered(letter * (longest + 1), form)["body"]) == {"state": "done", "error": "TooLarge"}


def test_the_link_of_a_result_that_is_too_large_is_there() -> None:
    posted = answered("x" * 2 * MEGABYTE, "load balancer", "POST")
    assert (posted["statusCode"], json.loads(posted["body"])) == (
        200,
        {"watch": "?run=link", "state": "done", "error": "TooLarge"},
    )
    assert posted["headers"]["Location"] == "?run=link"


def test_a_text_that_utf_8_has_not_is_escaped() -> None:
    body = answered("\ud800é", "http")["body"]
    assert body.isascii()
    assert json.loads(body)["result"] == "\ud800é"


def test_what_is_no_request_is_not_answered() -> None:
    with pytest.raises(EnvelopeError):
        HttpStarts(None, None).respond_to({})  # type: ignore[arg-type]  # neither is called
