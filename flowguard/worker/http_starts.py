"""Requests over HTTP that start a run, or ask where it stands. It is pure: what starts and what looks is handed in."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, Final

from flowguard.errors import EnvelopeError, InProgress, KeyReused, Reject, RunFailed, SendFailed, TooLarge
from flowguard.payload.encoding import encode_json
from flowguard.payload.http_source import http_source
from flowguard.startup.named_tuple import NamedTuple
from flowguard.text.printable import bounded, printable
from flowguard.wire.http_request import HttpRequest, read_http_request
from flowguard.wire.http_response import HttpResponse, json_response
from flowguard.worker.watched_runs import Progress, Watched

LONGEST_BODY: Final = 262_144 - 8_192
"""In bytes: it is put into a queue, with its attributes."""

LONGEST_KEY: Final = 256
"""In characters, of an ``Idempotency-Key``."""

LOOK_AGAIN_AFTER: Final = 2
"""Seconds that a client is asked to wait before it looks again, or sends again."""

_ALLOWED: Final = "GET, POST"
_WAIT: Final = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?([0-9]{1,6})\"?\s*(?:$|[,;])", re.IGNORECASE)
_STATUS: Final = {Progress.ACCEPTED: 202, Progress.RUNNING: 202, Progress.SUPERSEDED: 409, Progress.IGNORED: 409}


class Start(NamedTuple):
    """A run that a client asks for. ``body`` is JSON text. ``wait`` is how long it would wait, in s; None: unsaid."""

    body: str
    key: str | None
    wait: int | None


class Accepted(NamedTuple):
    """A run that was asked for. ``link`` is what it is watched by; None without keys. ``seen`` is how far it is."""

    request_id: str
    object_id: str
    link: str | None
    seen: Watched


class HttpStarts(NamedTuple):
    """The starts of one flow over HTTP.

    ``start`` asks for a run. ``look`` reads where the run of a link stands: None for a link that is not good.
    """

    start: Callable[[Start, HttpRequest], Accepted]
    look: Callable[[str], Watched | None]
    key_required: bool = True

    def respond_to(self, event: object) -> HttpResponse:
        """Answer the event of a gateway, function URL or load balancer. What goes wrong becomes a status.

        Raises :class:`EnvelopeError` for the event of anything else, whose sender could not read a response.
        """
        try:
            request = read_http_request(event)
        except EnvelopeError as error:
            if http_source(event) is None:
                raise
            return _problem(error)
        try:
            return self._responded(request)
        except Exception as error:  # whatever it is, the client gets a status
            return _problem(error)

    def _responded(self, request: HttpRequest) -> HttpResponse:
        match request.method:
            case "POST":
                accepted = self.start(_start(request, key_required=self.key_required), request)
                return _accepted(accepted)
            case "GET":
                return self._looked(request)
            case _:
                content = {"error": "METHOD", "detail": "POST starts a run, GET of its link watches it."}
                return json_response(405, content, Allow=_ALLOWED)

    def _looked(self, request: HttpRequest) -> HttpResponse:
        links = request.values("run")
        seen = self.look(links[0]) if len(links) == 1 else None
        if seen is None:
            return json_response(404, {"error": "NOT_FOUND", "detail": "This link watches no run, or no longer."})
        return _seen(seen, {})


# -- what a request says ----------------------------------------------------------------------------------------------


class _UnreadableType(EnvelopeError):
    """The body is of a type that is not read."""


def _start(request: HttpRequest, *, key_required: bool) -> Start:
    key = _key(request.headers.get("idempotency-key", ""))
    if key is None and key_required:
        raise EnvelopeError("the request", "Idempotency-Key", "is missing; send a new one with each new request")
    if not request.is_json:
        raise _UnreadableType("the request", "Content-Type", "is not application/json")
    preferred = _WAIT.search(request.headers.get("prefer", "")[:1_024])
    return Start(_checked(request.text(LONGEST_BODY)), key, int(preferred[1]) if preferred else None)


def _key(header: str) -> str | None:
    """Return the key, without the quotes of a structured string. None where there is none."""
    text = header.strip()
    if text[:1] == '"':
        if len(text) < 2 or text[-1] != '"':
            raise EnvelopeError("the request", "Idempotency-Key", "has a quote that is not closed")
        text = re.sub(r"\\([\"\\])", r"\1", text[1:-1])
    if len(text) > LONGEST_KEY:
        raise EnvelopeError("the request", "Idempotency-Key", f"is longer than {LONGEST_KEY} characters")
    if not (text.isascii() and text.isprintable()):
        raise EnvelopeError("the request", "Idempotency-Key", "has a character that is not printable ASCII")
    return text or None


def _checked(text: str) -> str:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        why = getattr(error, "msg", "") or "nested too deeply, or a number that is none"
        raise EnvelopeError("the request", "body", f"is not JSON: {why}") from None
    return text


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")


def request_id_of(flow: str, caller: str, key: str) -> str:
    """Return the request id of a caller's key: the same for the same, and never that of another caller."""
    text = encode_json(["flowguard-start-1", flow, caller, key])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# -- what it is answered ----------------------------------------------------------------------------------------------


def _accepted(accepted: Accepted) -> HttpResponse:
    content: dict[str, object] = {"request_id": accepted.request_id, "object_id": accepted.object_id}
    if accepted.link is None:
        return _seen(accepted.seen, {**content, "watch": None, "detail": "No keys are set, so no run is watched here."})
    watch = f"?run={accepted.link}"
    return _seen(accepted.seen, {**content, "watch": watch}, Location=watch)


def _seen(seen: Watched, content: dict[str, object], **headers: str) -> HttpResponse:
    status = _STATUS.get(seen.progress, 200)
    again = {} if seen.is_over else {"Retry_After": str(LOOK_AGAIN_AFTER)}
    content = {**content, "status": seen.progress.value}
    if seen.progress is Progress.COMPLETED:
        content["result"] = seen.result
    if seen.progress is Progress.FAILED:
        content["error"] = seen.error
    return json_response(status, content, **headers, **again)


def _problem(error: Exception) -> HttpResponse:
    match error:
        case TooLarge():
            return _refused(413, "TOO_LARGE", "The request is too large. Nothing was started.", error)
        case _UnreadableType():
            return _refused(415, "CONTENT_TYPE", _sentence(error), error)
        case EnvelopeError():
            return _refused(400, "MALFORMED", _sentence(error), error)
        case KeyReused():
            detail = "This key was used with another payload. Nothing was started; send a new key."
            return _refused(422, "KEY_REUSED", detail, error)
        case InProgress():
            response = _refused(409, "IN_PROGRESS", "Another request with this key is at work.", error)
            return _later(response)
        case Reject():  # only the errors of payloads are shown: they quote no value
            why = f" {printable(bounded(str(error)))}" if isinstance(error, RunFailed) else ""
            return _refused(422, "NOT_TAKEN", f"The payload is not taken. Nothing was started.{why}", error)
        case SendFailed():
            detail = "The queue did not take the request. Nothing was started; send the same again."
            return _later(_refused(503, "UNAVAILABLE", detail, error))
        case _:
            return unavailable(error)


def unavailable(error: Exception) -> HttpResponse:
    """Return the response where it is not known whether a run was started."""
    detail = "It is not known whether the run was started. Send the same again: a key starts one run."
    return _later(_refused(503, "UNAVAILABLE", detail, error))


def _later(response: HttpResponse) -> HttpResponse:
    return response._replace(headers={**response.headers, "Retry-After": str(LOOK_AGAIN_AFTER)})


def _refused(status: int, code: str, detail: str, error: Exception) -> HttpResponse:
    return json_response(status, {"error": code, "detail": detail})._replace(cause=error)


def _sentence(error: Any) -> str:
    return f"{error.field} {error.problem}. Nothing was started."
