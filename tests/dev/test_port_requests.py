"""What stands before moto's port: one lock, long polls beside it, and no web pages."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

import pytest

from flowguard.dev.port_requests import Environ, OneAtATime, foreign, has_messages, read_poll

RECEIVE = "AmazonSQS.ReceiveMessage"
ANY = "0.0.0.0"  # noqa: S104 - compared, not bound


def request(body: bytes = b"{}", target: str = RECEIVE, **headers: str) -> Environ:
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "4566",
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_HOST": "127.0.0.1:4566",
        "HTTP_X_AMZ_TARGET": target,
        **headers,
    }


def form(body: bytes) -> Environ:
    return request(body, "", CONTENT_TYPE="application/x-www-form-urlencoded; charset=utf-8")


# -- long polls


def test_a_long_poll_in_json() -> None:
    environ = request(b'{"QueueUrl":"u","WaitTimeSeconds":20}')
    poll = read_poll(environ)
    assert poll is not None
    assert (poll.seconds, json.loads(poll.body)) == (20, {"QueueUrl": "u", "WaitTimeSeconds": 0})
    assert environ["wsgi.input"].read() == b'{"QueueUrl":"u","WaitTimeSeconds":20}', "it is there to be read again"


def test_a_long_poll_as_a_form() -> None:
    poll = read_poll(form(b"Action=ReceiveMessage&QueueUrl=a%2Fb%C3%A9&WaitTimeSeconds=3"))
    assert poll is not None
    assert poll.seconds == 3
    assert dict(parse_qsl(poll.body.decode())) == {
        "Action": "ReceiveMessage",
        "QueueUrl": "a/b\u00e9",
        "WaitTimeSeconds": "0",
    }


def test_a_queue_s_own_waiting_time_keeps_nobody_waiting() -> None:
    poll = read_poll(request(b'{"QueueUrl":"u"}'))
    assert poll is not None
    assert json.loads(poll.body)["WaitTimeSeconds"] == 0


@pytest.mark.parametrize(
    "environ",
    [
        request(b"{}", "AmazonSQS.SendMessage"),
        request(b"not json"),
        request(b"[]"),
        request(b"[" * 100_000),
        request(b'{"WaitTimeSeconds":21}'),
        request(b'{"WaitTimeSeconds":-1}'),
        request(b'{"WaitTimeSeconds":true}'),
        request(b'{"WaitTimeSeconds":"\xc2\xb2"}'),
        form(b"Action=SendMessage&WaitTimeSeconds=3"),
        form(b"Action=ReceiveMessage&WaitTimeSeconds=" + b"9" * 100_000),
        form(b"\xff\xfe="),
        form(b""),
    ],
    ids=range(12),
)
def test_what_is_no_long_poll_is_left_to_moto(environ: Environ) -> None:
    assert read_poll(environ) is None


@pytest.mark.parametrize(
    ("body", "brings"),
    [(b'{"Messages": []}', True), (b"<x><Message>..", True), (b"{}", False), (b"<ReceiveMessageResult/>", False)],
)
def test_whether_messages_are_there(body: bytes, brings: bool) -> None:
    assert has_messages([body]) is brings


class Queue:
    """A WSGI application with one queue, which notes how many requests are in it at once."""

    def __init__(self) -> None:
        self.messages = 0
        self.asked = threading.Event()
        self.inside = self.most_inside = 0

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        body = self._answer(environ["HTTP_X_AMZ_TARGET"])
        start_response("200 OK", [("Content-Type", "application/json")])
        self.inside -= 1
        return [body]

    def _answer(self, target: str) -> bytes:
        if target != RECEIVE:
            self.messages += 1
            return b"{}"
        self.asked.set()
        if not self.messages:
            return b"{}"
        self.messages -= 1
        return b'{"Messages":[]}'


def ask(app: OneAtATime, environ: Environ) -> tuple[str, bytes]:
    said: list[str] = []
    body = app(environ, lambda status, headers: said.append(status))
    return said[0], b"".join(body)


def test_a_send_ends_a_long_poll_and_is_not_kept_waiting_by_it() -> None:
    queue = Queue()
    app, answers = OneAtATime(queue, "127.0.0.1"), []
    poll = threading.Thread(target=lambda: answers.append(ask(app, request(b'{"WaitTimeSeconds":20}'))))
    poll.start()
    assert queue.asked.wait(5)
    assert ask(app, request(b"{}", "AmazonSQS.SendMessage")) == ("200 OK", b"{}")
    poll.join(5)
    assert answers == [("200 OK", b'{"Messages":[]}')]
    assert queue.most_inside == 1


def test_a_long_poll_ends_without_a_message() -> None:
    moments = iter([0.0, 1.0, 5.0])
    queue = Queue()
    app = OneAtATime(queue, "127.0.0.1", clock=lambda: next(moments))
    assert ask(app, request(b'{"WaitTimeSeconds":1}')) == ("200 OK", b"{}")


# -- web pages


@pytest.mark.parametrize(
    ("headers", "host", "refused"),
    [
        ({}, "127.0.0.1", False),
        ({"HTTP_HOST": "localhost:4566"}, "127.0.0.1", False),
        ({"HTTP_HOST": "bucket.localhost:4566"}, "127.0.0.1", False),
        ({"HTTP_HOST": "[::1]:4566"}, "::1", False),
        ({"HTTP_HOST": "dev.internal:4566"}, ANY, False),
        ({"HTTP_HOST": "evil.example"}, "127.0.0.1", True),
        ({"HTTP_HOST": "127.0.0.1.evil.example"}, "127.0.0.1", True),
        ({"HTTP_HOST": ""}, "127.0.0.1", True),
        ({"HTTP_HOST": "[::"}, "127.0.0.1", True),
        ({"HTTP_ORIGIN": "https://evil.example"}, "127.0.0.1", True),
        ({"HTTP_ORIGIN": "null"}, ANY, True),
        ({"HTTP_SEC_FETCH_SITE": "cross-site"}, "127.0.0.1", True),
    ],
)
def test_requests_of_web_pages_are_refused(headers: dict[str, str], host: str, refused: bool) -> None:
    environ = request(b"{}", "AmazonSQS.SendMessage", **headers)
    assert (foreign(environ, host) is not None) is refused
    queue = Queue()
    status, _ = ask(OneAtATime(queue, host), environ)
    assert (status, queue.messages) == (("403 Forbidden", 0) if refused else ("200 OK", 1))
