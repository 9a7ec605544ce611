"""Requests over HTTP that start a run, or ask where it stands. It is pure: what starts and what looks is handed in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from flowguard.errors import EnvelopeError, Reject, RunFailed, TooLarge
from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.payload.http_source import http_source
from flowguard.startup.named_tuple import NamedTuple
from flowguard.text.printable import bounded, printable
from flowguard.wire.http_request import HttpRequest, read_http_request
from flowguard.wire.http_response import HttpResponse, json_response, lambda_response, room_for_body, size_of_body
from flowguard.worker.ports import Services
from flowguard.worker.start_rule import Forbidden, ReaderBroken, UnreadableType
from flowguard.worker.starts import Accepted, KeyTaken, LinkExpired, Starts
from flowguard.worker.watched_runs import Progress, Watched

LOOK_AGAIN_AFTER: Final = 2
"""Seconds that a client is asked to wait before it looks again, or sends again."""

_ALLOWED: Final = "GET, POST"
_WAIT: Final = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?([0-9]{1,6})\"?\s*(?:$|[,;])", re.IGNORECASE)
_LONGEST_HEADER: Final = 1_024
"""Characters that are read of ``Prefer``."""


def respond(starts: Starts, services: Services, flow: AnyFlow, event: object) -> dict[str, Any]:
    """Answer an HTTP request as its gateway expects it, and report what went wrong."""
    response = HttpStarts(starts.start, starts.look).respond_to(event)
    if response.cause is not None:
        kind = EventType.BROKEN if response.status >= 500 else EventType.REFUSED
        services.observer(Event(kind, None, {"record": "HTTP", "flow": flow.name, "why": _reason(response)}))
    return lambda_response(response, event)


def respond_unavailable(error: Exception, event: object) -> dict[str, Any]:
    """Answer a request that could not be looked at: a setting is missing, or wrong."""
    return lambda_response(_unavailable(error), event)


class HttpStarts(NamedTuple):
    """The starts of one flow over HTTP.

    ``start`` asks for a run, and waits for its end for so many seconds; None where the client does not say. ``look``
    reads where the run of a link stands: None for a link that is none.
    """

    start: Callable[[HttpRequest, int | None], Accepted]
    look: Callable[[HttpRequest, str], Watched | None]

    def respond_to(self, event: object) -> HttpResponse:
        """Answer the event of a gateway, function URL or load balancer. What goes wrong becomes a status.

        Raises :class:`EnvelopeError` for the event of anything else, whose sender could not read a response.
        """
        try:
            return self._responded(read_http_request(event), room_for_body(event))
        except Exception as error:  # whatever it is, the client gets a status
            if http_source(event) is None:
                raise
            return _problem(error)

    def _responded(self, request: HttpRequest, room: int) -> HttpResponse:
        match request.method:
            case "POST":
                return _accepted(self.start(request, _wanted(request)), room)
            case "GET":
                return self._looked(request, room)
            case _:
                content = {"error": "METHOD", "detail": "POST starts a run, GET of its link watches it."}
                return json_response(405, content, Allow=_ALLOWED)

    def _looked(self, request: HttpRequest, room: int) -> HttpResponse:
        links = request.values("run")
        try:
            seen = self.look(request, links[0]) if len(links) == 1 else None
        except (LinkExpired, ReaderBroken):
            raise
        except Exception as error:  # whatever it is, it says nothing of what was started
            return _try_again("It is not known where the run stands. Ask again.", error)
        if seen is None:
            return json_response(404, {"error": "NOT_FOUND", "detail": "This link watches no run."})
        return _seen(200, seen, {}, room)


def _wanted(request: HttpRequest) -> int | None:
    preferred = _WAIT.search(request.headers.get("prefer", "")[:_LONGEST_HEADER])
    return int(preferred[1]) if preferred else None


# -- what it is answered ----------------------------------------------------------------------------------------------


def _accepted(accepted: Accepted, room: int) -> HttpResponse:
    watch = f"?run={accepted.link}"
    return _seen(200 if accepted.seen.is_over else 202, accepted.seen, {"watch": watch}, room, Location=watch)


def _seen(status: int, seen: Watched, first: dict[str, object], room: int, **headers: str) -> HttpResponse:
    """Return the response. A result that takes more than ``room`` bytes is none that a gateway could hand on."""
    again = {} if seen.is_over else {"Retry_After": str(LOOK_AGAIN_AFTER)}
    content = {**first, "state": seen.progress.value}
    if seen.error is not None:
        content["error"] = seen.error
    elif seen.progress is Progress.DONE and seen.shows_result:
        content["result"] = seen.result
    response = json_response(status, content, **headers, **again)
    if "result" in content and size_of_body(response) > room:
        return _seen(status, seen._replace(result=None, error=TooLarge.__name__), first, room, **headers)
    return response


_REFUSALS: Final[tuple[tuple[type[Exception], int, str, str], ...]] = (
    (TooLarge, 413, "TOO_LARGE", "The request is too large. Nothing was started."),
    (UnreadableType, 415, "CONTENT_TYPE", ""),
    (EnvelopeError, 400, "MALFORMED", ""),
    (Forbidden, 403, "FORBIDDEN", "You may not start this. Nothing was started."),
    (LinkExpired, 410, "EXPIRED", "This link is too old. What it watched is not shown any more."),
    (KeyTaken, 422, "KEY_REUSED", "This key was used with another request. Nothing was started; send a new key."),
    (RunFailed, 422, "NOT_TAKEN", ""),
    (Reject, 422, "NOT_TAKEN", "The request is not taken. Nothing was started."),
    (ReaderBroken, 500, "BROKEN", "The function has a mistake, which is logged. Nothing was changed."),
)
"""The first that an error is an instance of says its status. Without a detail the error names what is wrong."""


def _problem(error: Exception) -> HttpResponse:
    for kind, status, code, detail in _REFUSALS:
        if isinstance(error, kind):
            return _refused(status, code, detail or _sentence(error), error)
    return _unavailable(error)


def _unavailable(error: Exception) -> HttpResponse:
    """Return the response where it is not known whether a run was started."""
    return _try_again("It is not known whether the run was started. Send the same again: a key starts one run.", error)


def _try_again(detail: str, error: Exception) -> HttpResponse:
    response = _refused(503, "UNAVAILABLE", detail, error)
    return response._replace(headers={**response.headers, "Retry-After": str(LOOK_AGAIN_AFTER)})


def _reason(response: HttpResponse) -> str:
    """Return why a request got no run, without a word of what it says."""
    error = response.cause
    if response.status < 500:
        return f"{response.status}: {type(error).__name__}"
    return f"{response.status}: {type(error).__name__}: {error}"


def _refused(status: int, code: str, detail: str, error: Exception) -> HttpResponse:
    return json_response(status, {"error": code, "detail": detail})._replace(cause=error)


def _sentence(error: Any) -> str:
    """Return what is wrong. Only errors of payloads and of the request itself are shown: they quote no value."""
    if isinstance(error, EnvelopeError):
        return f"{error.field} {error.problem}. Nothing was started."
    return f"The payload is not taken. Nothing was started. {printable(bounded(str(error)))}."
