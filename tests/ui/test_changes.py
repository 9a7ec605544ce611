"""What the pages change, where that is allowed: a run cancelled or retried, a dead letter sent back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from flask.testing import FlaskClient

from flowguard.aws.run_reader import SeenRun
from flowguard.names.ids import RequestId
from flowguard.operate.own_letters import letter_refusal
from flowguard.protocol.run import Cancellation, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.ui.inspected import Inspected
from flowguard.worker.dead_letters import Letter
from tests.aws.dead_letters.letters import denying
from tests.aws.engines import same_clients
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
    assert "Cancel: done cancelled: if a worker had it, that is fenced; its next message ends it" in said
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


def test_a_letter_that_is_sent_and_not_deleted_is_not_said_to_be_unsent(at: Scene) -> None:
    client = opened(at, changes=True)
    form = forms(client, "/run?flow=orders&object=bad")
    with intercept(denying("DeleteMessageBatch")):
        said = change(client, "/run/retry", 409, **form)
    assert "it is in the queue still: it was sent, and could not be deleted: queue" in said
    assert "not sent back" not in said
    assert "nothing was sent back" not in said
    assert len(at.sent("price-order")) == 1


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


def offers(client: FlaskClient) -> tuple[bool, str]:
    """Whether a page of letters has a Redrive button, and its text."""
    page = parsed(client.get("/letters?queue=dead"))
    return "id" in page.fields, page.text


def test_a_letter_whose_redrive_is_refused_has_the_reason_in_place_of_the_button(at: Scene) -> None:
    assert offers(opened(at, changes=True))[0], "its run failed and waits for it"
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=60)
    at.deliver(at.order("bad", request_id=RequestId("newer"), requested_at=at.clock.now()))
    has_button, said = offers(opened(at, changes=True))
    assert not has_button
    assert "It is not sent back: request newer holds the object." in said
    assert "not sent back" not in offers(opened(at))[1], "nothing is read for a page without buttons"


def test_the_letter_of_a_run_that_was_cancelled_is_not_offered_and_that_of_another_run_is(at: Scene) -> None:
    item, letter = at.item("bad"), parked(at)
    assert item is not None
    cancelled = item._replace(cancellation=Cancellation(item.request_id, item.requested_at, "the customer called"))
    assert letter_refusal(letter, SeenRun("orders", "bad", item), at.clock.now()) is None
    why = letter_refusal(letter, SeenRun("orders", "bad", cancelled), at.clock.now())
    assert why == "the run was cancelled; to begin anew, send the request under another id"
    going = cancelled._replace(status=Status.RUNNING, done=False)
    assert letter_refusal(letter, SeenRun("orders", "bad", going), at.clock.now()) is None, "its message ends it"
    raw = replace(letter, source_arn="arn:aws:sqs:eu-west-1:123456789012:price-order")
    assert letter_refusal(raw, SeenRun("orders", "bad", cancelled), at.clock.now()) is None


def parked(at: Scene) -> Letter:
    (letter,) = Inspected(Settings(), same_clients(), at.clock, {at.flow.name: at.flow}, wait=0).letters("dead").letters
    return letter


def test_a_letter_that_cannot_be_read_and_one_of_an_item_that_cannot_say_so_in_place_of_the_button(at: Scene) -> None:
    table: Any = at.aws.client("dynamodb")
    key = {"pk": {"S": "run#orders#bad"}, "sk": {"S": "run"}}
    found = table.get_item(TableName="flowguard", Key=key)["Item"]
    table.put_item(TableName="flowguard", Item={**found, "hop": {"S": "x"}})
    has_button, said = offers(opened(at, changes=True))
    assert not has_button
    assert "It is not sent back: its item is no run that this version can read" in said
    received(at)
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    for one in received(at):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    wrong: Any = {"requestedat": {"DataType": "String", "StringValue": "soon"}}
    sqs.send_message(QueueUrl=url, MessageBody="{}", MessageAttributes=wrong)
    has_button, said = offers(opened(at, changes=True))
    assert not has_button
    assert "It is not sent back: it cannot be read: " in said


def test_a_letter_without_an_object_is_offered(at: Scene) -> None:
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    for one in received(at):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    sqs.send_message(QueueUrl=url, MessageBody="{}")
    assert offers(opened(at, changes=True))[0]
