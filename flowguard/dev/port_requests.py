"""The requests on the port, on their way to moto.

One is let in at a time. Long polls wait outside, and foreign pages are refused.

moto is not made for threads: two conditional writes at once could both find their condition true. Its own long poll
sleeps, and would keep every other request waiting.
"""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

Environ: TypeAlias = dict[str, Any]
"""A request as WSGI has it."""

Answer: TypeAlias = tuple[str, list[tuple[str, str]], list[bytes]]
"""The status, the headers and the body of a response."""

LONGEST_POLL: Final = 20
_LOOK_AGAIN: Final = 1
"""Seconds after which a long poll looks for messages whose delay or visibility timeout is over."""

_EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound


class Poll(NamedTuple):
    """A ReceiveMessage. ``seconds`` is how long it may wait, ``body`` asks the same without waiting."""

    seconds: int
    body: bytes


class OneAtATime:
    """A WSGI application round moto's. ``host`` is where it listens; ``clock`` is in seconds."""

    def __init__(self, app: Any, host: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._host = host
        self._clock = clock
        self._turn = threading.Condition()  # its lock is the one lock

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if (problem := foreign(environ, self._host)) is not None:
            start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
            return [f"{problem}\n".encode()]
        status, headers, body = self._answer(environ)
        start_response(status, headers)
        return body

    def _answer(self, environ: Environ) -> Answer:
        if (poll := read_poll(environ)) is not None:
            return self._polled(environ, poll)
        with self._turn:
            answer = self._ask(environ)
            if not environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB"):
                self._turn.notify_all()  # it may have sent something
            return answer

    def _polled(self, environ: Environ, poll: Poll) -> Answer:
        until = self._clock() + poll.seconds
        with self._turn:
            while True:
                answer = self._ask(_with_body(environ, poll.body))
                left = until - self._clock()
                if left <= 0 or not answer[0].startswith("200") or has_messages(answer[2]):
                    return answer
                self._turn.wait(min(_LOOK_AGAIN, left))

    def _ask(self, environ: Environ) -> Answer:
        from werkzeug.test import run_wsgi_app  # comes with an extra

        body, status, headers = run_wsgi_app(self._app, environ, buffered=True)
        return status, list(headers), [*body]


def read_poll(environ: Environ) -> Poll | None:
    """Read a ReceiveMessage, in JSON as SDKs send it today or as the form of older ones. None for what is none.

    The request's body is put back.
    """
    is_json = environ.get("HTTP_X_AMZ_TARGET") == "AmazonSQS.ReceiveMessage"
    is_form = environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded")
    if not (is_json or is_form):
        return None
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return _of_json(body) if is_json else _of_form(body)


def _of_json(body: bytes) -> Poll | None:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return None  # moto says what is wrong
    if not isinstance(asked, dict) or (seconds := _seconds(asked.get("WaitTimeSeconds", 0))) is None:
        return None
    return Poll(seconds, json.dumps({**asked, "WaitTimeSeconds": 0}).encode())


def _of_form(body: bytes) -> Poll | None:
    asked = dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True, encoding="latin-1"))
    if asked.get("Action") != "ReceiveMessage" or (seconds := _seconds(asked.get("WaitTimeSeconds", "0"))) is None:
        return None
    return Poll(seconds, urlencode({**asked, "WaitTimeSeconds": "0"}, encoding="latin-1").encode())


def _seconds(given: object) -> int | None:
    """Return the seconds of a long poll. None for what SQS refuses, and moto too."""
    if type(given) is not int and not (isinstance(given, str) and given.isascii() and given.isdigit()):
        return None
    seconds = int(str(given)[:3])
    return seconds if 0 <= seconds <= LONGEST_POLL else None


def has_messages(body: Iterable[bytes]) -> bool:
    """Answer whether a response of ReceiveMessage brings messages."""
    text = b"".join(body)
    return b'"Messages"' in text or b"<Message>" in text


def _with_body(environ: Environ, body: bytes) -> Environ:
    return {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}


def foreign(environ: Mapping[str, Any], host: str) -> str | None:
    """Return why a request may be of a web page that a browser of this machine shows. None for any other.

    No SDK sends an Origin. A page that has made its own name point to this machine has that name in Host.
    """
    if environ.get("HTTP_ORIGIN") is not None or environ.get("HTTP_SEC_FETCH_SITE") is not None:
        return "this is for SDKs and the AWS CLI; requests of web pages are refused"
    return other_name(environ, host)


def other_name(environ: Mapping[str, Any], host: str) -> str | None:
    """Return why a request by this name is refused. None where the name is this machine's."""
    try:
        named = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or ""
    except ValueError:
        named = ""
    known = named in {host, "localhost", "127.0.0.1", "::1"} or named.endswith(".localhost")
    if known or host in _EVERYWHERE:
        return None
    return "the name in the Host header is not this machine's"
