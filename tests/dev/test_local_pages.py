"""What a browser sees of ``flowguard dev``: the mailbox, and the pages of links."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from flowguard.cli import main
from flowguard.cli.mailbox import is_dev
from flowguard.dev.local_answers import LocalAnswers
from flowguard.dev.local_pages import ANSWERS, LARGEST, MAILBOX, STARTS, event_of
from flowguard.dev.port_requests import Environ
from flowguard.dev.served import ServedEngine
from flowguard.dev.unread_queues import here
from flowguard.payload.http_source import HttpSource, http_source

TOKEN = "k1." + "x" * 84
LINK = f"https://claims.example.com/answers/{TOKEN}?answers=pay%2Cdecline"


@pytest.fixture(scope="module")
def engine() -> Iterator[ServedEngine]:
    with ServedEngine() as opened:
        sqs = opened.client("sqs")
        for name in ("mails", "orders", "orders-dead-letters"):
            url = sqs.create_queue(QueueName=name)["QueueUrl"]
            body = json.dumps({"to": "<ada>", "of": name, "link": LINK})
            sqs.send_message(QueueUrl=url, MessageBody=body, DelaySeconds=7 if name == "mails" else 0)
        opened.pages.mailbox.read_by_others = frozenset({"orders", "orders-dead-letters"})
        yield opened


def ask(engine: ServedEngine, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str]:
    place = urlsplit(engine.url)
    with closing(http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)) as connection:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body or None, given)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


# -- the mailbox


def test_the_mailbox_has_what_nobody_reads_with_its_links_as_they_are_opened_here(engine: ServedEngine) -> None:
    [message] = json.loads(ask(engine, "GET", f"{MAILBOX}.json")[1])
    assert (message["queue"], message["body"]["of"]) == ("mails", "mails")
    assert 7_000 <= message["due_at"] - message["sent_at"] < 8_000
    assert message["links"] == [f"{engine.url}{ANSWERS}/{TOKEN}?answers=pay%2Cdecline"]


def test_its_page_shows_it_escaped(engine: ServedEngine) -> None:
    status, page = ask(engine, "GET", MAILBOX)
    assert status == 200
    assert "&lt;ada&gt;" in page
    assert f'href="{engine.url}{ANSWERS}/{TOKEN}?answers=pay%2Cdecline"' in page
    assert "<script" not in page


def test_nothing_is_received_by_looking(engine: ServedEngine) -> None:
    for _ in range(3):
        ask(engine, "GET", MAILBOX)
    url = engine.client("sqs").get_queue_url(QueueName="mails")["QueueUrl"]
    counts = engine.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesDelayed"] == "1"


def test_doctor_says_that_it_looks_at_dev_and_at_nothing_else(engine: ServedEngine) -> None:
    asked = ["doctor", "flows.approval.handlers", "--endpoint-url", engine.url, "--region", "eu-west-1"]
    shown = CliRunner().invoke(main, asked)
    assert shown.stderr.startswith("this is flowguard dev, not AWS")
    assert not is_dev(f"{engine.url}/elsewhere")
    assert not is_dev(None)


def test_the_command_shows_it(engine: ServedEngine) -> None:
    shown = CliRunner().invoke(main, ["mailbox", "--endpoint-url", engine.url])
    assert shown.exit_code == 0
    assert f"  opens here: {engine.url}{ANSWERS}/{TOKEN}" in shown.stdout
    as_json = CliRunner().invoke(main, ["mailbox", "mails", "--json"], env={"AWS_ENDPOINT_URL": engine.url})
    assert json.loads(as_json.stdout)["queue"] == "mails"
    none = CliRunner().invoke(main, ["mailbox", "others", "--endpoint-url", engine.url])
    assert (none.exit_code, none.stdout) == (1, "no message lies there\n")


@pytest.mark.parametrize(
    ("url", "says"), [("", "AWS_ENDPOINT_URL is not set"), ("http://127.0.0.1:9", "flowguard dev")]
)
def test_a_command_without_flowguard_dev_says_so(url: str, says: str) -> None:
    result = CliRunner().invoke(
        main, ["mailbox", *(["--endpoint-url", url] if url else [])], env={"AWS_ENDPOINT_URL": ""}
    )
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_only_tokens_make_links() -> None:
    assert [*here({"a": ["https://example.com/x", LINK, 7, None], "b": f"open {LINK}."}, "http://h/a")] == [
        f"http://h/a/{TOKEN}?answers=pay%2Cdecline",
        f"http://h/a/{TOKEN}?answers=pay%2Cdecline",
    ]


# -- links


def test_a_link_is_answered_by_the_function_of_answers(engine: ServedEngine) -> None:
    asked: list[Mapping[str, Any]] = []

    def answer(event: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(event)
        return {"statusCode": 409, "body": "late", "headers": {"Content-Type": "text/html"}}

    engine.pages.ask = answer
    cross = {"Origin": "null", "Sec_Fetch_Site": "cross-site", "Content_Type": "application/x-www-form-urlencoded"}
    assert ask(engine, "POST", f"{ANSWERS}/{TOKEN}?comment=yes", "answer=pay", **cross) == (409, "late")
    [event] = asked
    assert http_source(event) is HttpSource.FUNCTION_URL
    assert (event["rawPath"], event["rawQueryString"]) == (f"/{TOKEN}", "comment=yes")
    assert event["headers"]["content-type"] == "application/x-www-form-urlencoded"
    assert event["requestContext"]["http"]["method"] == "POST"


def test_where_no_function_answers_the_page_says_so(engine: ServedEngine) -> None:
    engine.pages.ask = lambda event: None
    status, text = ask(engine, "GET", f"{ANSWERS}/{TOKEN}")
    assert status == 503
    assert "look at the terminal" in text


def test_too_much_is_not_read(engine: ServedEngine) -> None:
    assert ask(engine, "POST", f"{ANSWERS}/x", "", Content_Length=str(LARGEST + 1))[0] == 413


def test_without_a_function_of_answers_a_link_finds_a_page_that_says_so() -> None:
    said: list[dict[str, Any]] = []
    environ: Environ = {"REQUEST_METHOD": "GET", "PATH_INFO": f"{ANSWERS}/{TOKEN}", "HTTP_HOST": "localhost"}
    LocalAnswers(None, "us-east-1", "123456789012", said.append).take({"ask": 7, "event": event_of(environ, b"")})
    assert (said[0]["answer_to"], said[0]["answer"]["statusCode"]) == (7, 404)
    assert "callback_handler(…)" in said[0]["answer"]["body"]
    assert said[1] == {"event": "answer", "method": "GET", "status": 404}


# -- functions that start runs


@pytest.mark.parametrize(
    ("path", "below"), [("shop-start", "/"), ("shop-start/", "/"), ("shop-start/orders/o%201?run=k1.a", "/orders/o 1")]
)
def test_a_request_to_start_a_run_names_its_function(engine: ServedEngine, path: str, below: str) -> None:
    asked: list[Mapping[str, Any]] = []

    def answer(event: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(event)
        return {"statusCode": 202, "body": "{}", "headers": {"Location": "?run=k1.a"}}

    engine.pages.ask = answer
    assert ask(engine, "POST", f"{STARTS}/{path}", "{}", Idempotency_Key="k") == (202, "{}")
    [event] = asked
    assert event["rawPath"] == below
    assert event["headers"]["idempotency-key"] == "k"
    assert http_source(event) is HttpSource.FUNCTION_URL
    assert event["requestContext"]["domainName"].startswith("shop-start.")


def test_each_function_gets_its_own_requests() -> None:
    lines: list[dict[str, Any]] = []
    got: list[tuple[str, str]] = []

    def function(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        got.append((context.function_name, context.invoked_function_arn))
        return {"statusCode": 202, "body": ""}

    answers = LocalAnswers(function, "us-east-1", "123456789012", lines.append, {"shop-start": function})
    for path in (f"{STARTS}/shop-start", f"{STARTS}/other", f"{ANSWERS}/{TOKEN}"):
        environ: Environ = {"REQUEST_METHOD": "POST", "PATH_INFO": path, "HTTP_HOST": "localhost"}
        answers.take({"ask": 7, "event": event_of(environ, b"{}")})
    arn = "arn:aws:lambda:us-east-1:123456789012:function:"
    assert got == [("shop-start", f"{arn}shop-start"), ("answers", f"{arn}answers")]
    assert [(line["event"], line["status"]) for line in lines[1::2]] == [
        ("start", 202),
        ("start", 404),
        ("answer", 202),
    ]
    assert "There is shop-start." in lines[2]["answer"]["body"]


# -- whom it answers


@pytest.mark.parametrize("path", [MAILBOX, f"{MAILBOX}.json", f"{ANSWERS}/{TOKEN}"])
def test_another_name_for_this_machine_is_refused(engine: ServedEngine, path: str) -> None:
    assert ask(engine, "GET", path, Host="evil.example.com")[0] == 403


@pytest.mark.parametrize(("method", "path", "status"), [("POST", MAILBOX, 405), ("GET", "/_flowguard/x", 404)])
def test_other_requests_are_refused(engine: ServedEngine, method: str, path: str, status: int) -> None:
    assert ask(engine, method, path)[0] == status


def test_a_web_page_still_cannot_use_the_engine(engine: ServedEngine) -> None:
    assert ask(engine, "GET", "/", Origin="null")[0] == 403
