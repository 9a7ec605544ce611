"""Serve the mailbox and the pages of links on the port of ``flowguard dev``.

All of it is below ``/_flowguard/``, which is no path of AWS's: no bucket has such a name. Other requests go on to the
engine. No page loads anything or runs a script.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from html import escape
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from flowguard.dev.port_requests import Environ, other_name
from flowguard.dev.unread_queues import Mailbox, UnreadMessage
from flowguard.text.printable import one_line, printable

PREFIX: Final = "/_flowguard"
ANSWERS: Final = f"{PREFIX}/answers"
STARTS: Final = f"{PREFIX}/starts"
MAILBOX: Final = f"{PREFIX}/mailbox"
LARGEST: Final = 1_000_000
"""Bytes of a request that are read."""

OF_ANSWERS: Final = "local"
"""The name in the host of requests to the function of answers."""

Ask: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Hands the event of a function URL to its function. None where that is not there to be asked."""

_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:1em/1.5 system-ui,sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
    "article{border:1px solid GrayText;border-radius:8px;padding:.8em 1.2em;margin:1em 0}h2{font-size:1em;margin:0}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere}small{color:GrayText}"
)
_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)
_NOBODY: Final = "The functions are not there: look at the terminal of flowguard dev. Nothing was changed."


class LocalPages:
    """A WSGI application round the engine's. ``host`` is where it listens."""

    def __init__(self, engine: Any, host: str, mailbox: Mailbox) -> None:
        self._engine = engine
        self._host = host
        self.mailbox = mailbox
        self.ask: Ask = lambda event: None

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path != PREFIX and not path.startswith(f"{PREFIX}/"):
            answer: Iterable[bytes] = self._engine(environ, start_response)
            return answer
        if (problem := other_name(environ, self._host)) is not None:
            return _respond(start_response, 403, "text/plain", problem)
        if path.startswith((f"{ANSWERS}/", f"{STARTS}/")):
            return self._answered(environ, start_response)
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return _respond(start_response, 405, "text/plain", "this is only to be read")
        if path == f"{MAILBOX}.json":
            return _respond(start_response, 200, "application/json", json.dumps(self._facts()))
        if path.rstrip("/") in (PREFIX, MAILBOX):
            return _respond(start_response, 200, "text/html", page(self.mailbox.messages()))
        return _respond(
            start_response, 404, "text/plain", f"there is {MAILBOX}, {ANSWERS}/TOKEN, and {STARTS}/FUNCTION"
        )

    def _facts(self) -> list[dict[str, Any]]:
        return [message._asdict() for message in self.mailbox.messages()]

    def _answered(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH") or "0"
        if not length.isdigit() or int(length) > LARGEST:
            return _respond(start_response, 413, "text/plain", "this is more than a queue takes")
        answer = self.ask(event_of(environ, environ["wsgi.input"].read(int(length))))
        if answer is None:
            return _respond(start_response, 503, "text/plain", _NOBODY)
        body = str(answer.get("body", ""))
        start_response(f"{answer['statusCode']} {_reason(answer['statusCode'])}", [*answer.get("headers", {}).items()])
        return [b"" if environ.get("REQUEST_METHOD") == "HEAD" else body.encode()]


def event_of(environ: Environ, body: bytes) -> dict[str, Any]:
    """Return a request as a function URL hands it to its function: by the host it is known which, ``local`` answers."""
    headers = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
    }
    function, path = _place(str(environ.get("PATH_INFO", "")))
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": environ.get("QUERY_STRING", ""),
        "headers": headers,
        "requestContext": {
            "domainName": f"{function}.lambda-url.local.on.aws",
            "http": {"method": environ.get("REQUEST_METHOD", "GET"), "path": path},
        },
        "body": base64.b64encode(body).decode() if body else None,
        "isBase64Encoded": bool(body),
    }


def _place(path: str) -> tuple[str, str]:
    """Return the name of the function, and the path below it."""
    if not path.startswith(f"{STARTS}/"):
        return OF_ANSWERS, path.removeprefix(ANSWERS)
    function, _, rest = path.removeprefix(f"{STARTS}/").partition("/")
    return function, f"/{rest}"


def page(messages: Iterable[UnreadMessage]) -> str:
    """Return the page of the mailbox."""
    shown = "".join(_shown(message) for message in messages)
    empty = "<p>Nothing was sent to a queue that nobody reads here.</p>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Mailbox</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>Mailbox</h1>\n"
        f"<p>What lies in queues that no function here reads, the newest first.</p>\n{shown or empty}</body></html>\n"
    )


def _shown(message: UnreadMessage) -> str:
    body = message.body if isinstance(message.body, str) else json.dumps(message.body, indent=2, ensure_ascii=False)
    links = "".join(f'<p><a href="{_escaped(link)}">Open its link here</a></p>\n' for link in message.links)
    late = message.due_at - message.sent_at
    delay = f", due {late // 1_000} s later" if late else ""
    return (
        f"<article><h2>{_escaped(message.queue)}</h2><small>{moment(message.sent_at)}{delay}</small>\n"
        f"<pre>{escape(printable(body))}</pre>\n{links}</article>\n"
    )


def moment(ms: int) -> str:
    """Return the time of a message for people."""
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(sep=" ", timespec="seconds")


def _escaped(text: str) -> str:
    return escape(one_line(text))


def _reason(status: int) -> str:
    return HTTPStatus(status).phrase


def _respond(start_response: Any, status: int, kind: str, text: str) -> Iterator[bytes]:
    start_response(f"{status} {_reason(status)}", [("Content-Type", f"{kind}; charset=utf-8"), *_HEADERS])
    yield f"{text}\n".encode()
