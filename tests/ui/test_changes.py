"""What the pages change, where that is allowed: a run cancelled or retried, a dead letter sent back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from flask.testing import FlaskClient

from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.cli.test_hostile_text import HOSTILE, notification, put
from tests.cli.test_list import played
from tests.scene import START, Scene, scene
from tests.ui.inspecting import TOKEN, opened, parsed


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        played(found)
        yield found


def change(client: FlaskClient, path: str, code: int = 200, /, **form: str) -> str:
    answer = client.post(path, data={"token": TOKEN, **form})
    assert answer.status_code == code, answer.text
    return parsed(answer).text


def forms(client: FlaskClient, path: str) -> dict[str, str]:
    return parsed(client.get(path)).fields


def test_a_run_is_cancelled_by_the_form_of_its_page(at: Scene) -> None:
    client = opened(at, changes=True)
    form = forms(client, "/run?flow=orders&object=o2")
    said = change(client, "/run/cancel", 200, **{**form, "why": "the customer called"})
    assert "Cancel: done cancelled: a worker that had it is fenced; its next message ends it" in said
    item = at.item("o2")
    assert item is not None
    assert item.cancelled_because == "the customer called"
    assert "it is cancelled: its next message ends it" in parsed(client.get("/run?flow=orders&object=o2")).text


def test_a_run_that_has_ended_is_not_cancelled(at: Scene) -> None:
    client = opened(at, changes=True)
    said = change(client, "/run/cancel", 409, flow="orders", object="o1", why="x")
    assert "nothing was cancelled: the run is COMPLETED" in said
    assert "nothing was cancelled: there is no run" in change(
        client, "/run/cancel", 409, flow="orders", object="no", why="x"
    )
    assert 'method="post"' not in client.get("/run?flow=orders&object=o1").text


def test_a_cancellation_needs_a_reason_and_a_known_flow(at: Scene) -> None:
    client = opened(at, changes=True)
    assert "Say why" in change(client, "/run/cancel", 400, flow="orders", object="o2", why="  ")
    assert "No class of flow other" in change(client, "/run/cancel", 404, flow="other", object="o2", why="x")
    assert "no such run" in change(client, "/run/cancel", 404, flow="orders", object="", why="x")
    unknown = opened(at, changes=True, known=False)
    assert (
        "Start the inspector with the MODULE:FLOW of orders" in parsed(unknown.get("/run?flow=orders&object=o2")).text
    )


def test_a_failed_run_is_retried_and_its_letter_taken(at: Scene) -> None:
    client = opened(at, changes=True)
    form = forms(client, "/run?flow=orders&object=bad")
    assert "REDRIVEN: the run failed at hop 1 and waits there, to price-order" in change(
        client, "/run/retry", 200, **form
    )
    assert len(at.sent("price-order")) == 1
    assert "No letter is visible now." in parsed(client.get("/letters?queue=dead")).text
    assert "shows no letter of request" in change(client, "/run/retry", 409, **form)
    said = change(client, "/run/retry", 409, flow="orders", object="o1")
    assert "nothing was sent back: the run is COMPLETED" in said


def test_one_letter_is_redriven_and_the_others_stay(at: Scene) -> None:
    put(at, {"version": 1, "hop": 1, "object": HOSTILE, "redrive": 1, "error": ["Odd", HOSTILE, START]}, notification())
    client = opened(at, changes=True)
    ids = [letter["MessageId"] for letter in received(at)]
    assert len(ids) == 2
    said = change(client, "/letters/redrive", queue="dead", id=ids[0], flow="orders")
    assert "Redrive: done REDRIVEN" in said
    assert [letter["MessageId"] for letter in received(at)] == ids[1:]
    assert "no such letter is visible now" in change(client, "/letters/redrive", 409, queue="dead", id=ids[0])
    assert "none of those" in change(client, "/letters/redrive", 404, queue="price-order", id=ids[1])


def received(at: Scene) -> list[Any]:
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    found: Any = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    return list(found.get("Messages", []))


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/run/cancel", {"object": "o2", "why": "x"}),
        ("/run/retry", {"object": "bad"}),
        ("/letters/redrive", {"queue": "dead", "id": "m"}),
    ],
)
def test_a_change_that_a_service_refuses_is_a_page_that_says_so(at: Scene, path: str, form: dict[str, str]) -> None:
    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, call.operation)

    client = opened(at, changes=True)
    with intercept(refuse):
        assert "is denied" in change(client, path, 502, flow="orders", **form)
    item = at.item("o2")
    assert item is not None
    assert item.status is Status.RUNNING
