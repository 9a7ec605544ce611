"""Answers that come over HTTP. It is pure: whatever settles an answer is handed in.

The token is the path parameter ``token``, or else the last part of the path. Only a POST answers. A GET or HEAD shows
what to do, because mail scanners and link previews open links.

A final verdict is a 200: a sender of webhooks repeats everything else for days, and repeating changes no verdict. A
person's browser, and a client that says ``Prefer: handling=strict``, get a status for each verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, Final

from flowguard.errors import EnvelopeError, Reject, RunFailed, TokenProblem, TokenRefused, TooLarge
from flowguard.payload.encoding import encode_json, sendable_json
from flowguard.payload.http_source import http_source
from flowguard.startup.named_tuple import NamedTuple
from flowguard.text.printable import bounded, printable
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_link import choices_problem, parted
from flowguard.wire.http_page import FROM_PAGE, Form, Page
from flowguard.wire.http_request import HttpRequest, read_http_request
from flowguard.wire.http_response import HttpResponse, json_response, page_response
from flowguard.wire.tokens import TokenClaim, Tokens

LONGEST_ANSWER: Final = 262_144 - 8_192
"""In bytes: an answer is put into a queue first, with its attributes."""

AGAIN_AFTER: Final = 5
"""Seconds that a sender is asked to wait before it sends an answer again."""

_ALLOWED: Final = "GET, HEAD, POST"


class Meaning(NamedTuple):
    """What a verdict becomes over HTTP. ``strict`` is the status for browsers and for ``Prefer: handling=strict``."""

    status: int
    strict: int
    title: str
    text: str


MEANINGS: Final = {
    AnswerVerdict.RESUMED: Meaning(200, 200, "Thank you", "Your answer is recorded."),
    AnswerVerdict.RECORDED: Meaning(200, 200, "Thank you", "Your answer is recorded."),
    AnswerVerdict.DUPLICATE: Meaning(200, 200, "Answered before", "This was answered before. Nothing has changed."),
    AnswerVerdict.SUPERSEDED: Meaning(
        200, 409, "No longer needed", "A newer request has replaced this one. Your answer was not used."
    ),
    AnswerVerdict.EXPIRED: Meaning(200, 410, "Too late", "The time for this answer is over. It was not used."),
    AnswerVerdict.UNKNOWN: Meaning(200, 404, "Not found", "Nothing waits for this answer. It was not used."),
    AnswerVerdict.EARLY: Meaning(
        503, 503, "Not ready yet", "This cannot be answered yet. Try the same again in a few seconds."
    ),
}


class HttpCallbacks(NamedTuple):
    """The callbacks of some flows over HTTP.

    ``answer`` settles an answer: it gets what the token says, the payload as JSON text, and whether it is a failure.
    """

    tokens: Tokens
    flows: Collection[str]
    answer: Callable[[TokenClaim, str, bool], AnswerVerdict]

    def respond_to(self, event: object, now: int) -> HttpResponse:
        """Answer the event of a gateway, function URL or load balancer. ``now`` is ms since 1970.

        Raises :class:`EnvelopeError` for the event of anything else, whose sender could not read a response.
        """
        try:
            request = read_http_request(event)
        except EnvelopeError as error:
            if http_source(event) is None:
                raise
            return _problem(error, in_page=False)
        return self.respond(request, now)

    def respond(self, request: HttpRequest, now: int) -> HttpResponse:
        """Answer a request. Nothing is raised: what ``answer`` raises becomes a status too."""
        match request.method:
            case "POST":
                return self._posted(request, now)
            case "GET":
                return self._shown(request, now)
            case "HEAD":
                return self._shown(request, now)._replace(body="")
            case _:
                content = {"error": "METHOD", "detail": "Send the answer as a POST."}
                return json_response(405, content, Allow=_ALLOWED)

    def _shown(self, request: HttpRequest, now: int) -> HttpResponse:
        """Show how to answer, without any call."""
        try:
            self.tokens.read(_token(request), self.flows, now)
            page = self._with_facts(_question(request), request)
        except Exception as error:  # whatever it is, the client gets a status
            return _unread(error, request, in_page=request.prefers_html)
        if request.prefers_html:
            return page_response(200, page)
        return json_response(200, {"detail": "Send the answer as a POST to this URL, as JSON."})

    def _with_facts(self, page: Page, request: HttpRequest) -> Page:
        """Return the page with what its link says of the case. Raises :class:`EnvelopeError` where that was changed."""
        if not (sealed := request.values("shown")):
            return page
        shown = self.tokens.unseal(_token(request), sealed[0]) if len(sealed) == 1 else None
        if shown is None:
            raise EnvelopeError("the request", "shown", "was not made for this link")
        return page._replace(title=shown.title, facts=tuple(shown.facts.items()))

    def _posted(self, request: HttpRequest, now: int) -> HttpResponse:
        in_page = request.is_form and request.prefers_html
        try:
            claim = self.tokens.read(_token(request), self.flows, now)
            payload, in_page = _payload(request, in_page=in_page)
            failed = _is_failure(request)
        except Exception as error:  # whatever it is, the client gets a status
            return _unread(error, request, in_page=in_page)
        try:
            verdict = self.answer(claim, payload, failed)
        except TooLarge as error:
            return _problem(error, in_page=in_page)
        except Reject as error:
            return _rejected(error, in_page=in_page)
        except Exception as error:  # the sender must know that the answer may not have arrived
            return unavailable(error, in_page=in_page)
        return _judged(verdict, request, in_page=in_page)


# -- what a request says ----------------------------------------------------------------------------------------------


class _UnreadableType(EnvelopeError):
    """The body is of a type that is not read."""


def _token(request: HttpRequest) -> str:
    return request.path_parameters.get("token") or request.path.rstrip("/").rpartition("/")[2]


def _payload(request: HttpRequest, *, in_page: bool) -> tuple[str, bool]:
    """Return the answer as JSON text that fits a queue, and whether its sender is a page's form."""
    payload, in_page = _read_payload(request, in_page=in_page)
    size = len(payload.encode())
    if size > LONGEST_ANSWER:  # a character of a form may be six in JSON
        raise TooLarge("the answer", {"answer": size}, LONGEST_ANSWER)
    return payload, in_page


def _read_payload(request: HttpRequest, *, in_page: bool) -> tuple[str, bool]:
    text = request.text(LONGEST_ANSWER)
    if not text:
        return _without_body(request), in_page
    if request.is_json:
        return _checked_json(text), False
    if not request.is_form or text.lstrip()[:1] in {"{", "["}:
        fix = "send JSON with Content-Type: application/json, or a form"
        raise _UnreadableType("the request", "content-type", f"is not one that is read; {fix}")
    fields = request.form(LONGEST_ANSWER)
    in_page = fields.pop(FROM_PAGE, None) is not None
    if not fields.get("comment", "-"):
        del fields["comment"]
    return encode_json(fields), in_page


def _without_body(request: HttpRequest) -> str:
    """Return the one choice of the link as the answer; an empty object where the link has none."""
    choices = _choices(request)
    if len(choices) > 1:
        raise EnvelopeError("the request", "body", "is empty, and the link has several answers; send one of them")
    return encode_json({"answer": choices[0]} if choices else {})


def _checked_json(text: str) -> str:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        why = getattr(error, "msg", "") or "nested too deeply, or a number that is none"
        raise EnvelopeError("the request", "body", f"is not JSON: {why}") from None
    return sendable_json(text)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")


def _is_failure(request: HttpRequest) -> bool:
    match request.values("failed"):
        case [] | ["false"]:
            return False
        case ["true"]:
            return True
        case _:
            raise EnvelopeError("the request", "failed", "is neither true nor false")


def _choices(request: HttpRequest) -> list[str]:
    """Return the answers that the link offers, each once."""
    several = [choice for text in request.values("answers") for choice in parted(text)]
    choices = list(dict.fromkeys((*request.values("answer"), *several)))
    if problem := choices_problem(choices):
        raise EnvelopeError("the request", "answer", problem)
    return choices


def _question(request: HttpRequest) -> Page:
    comment = request.values("comment")
    if comment not in ([], ["yes"]):
        raise EnvelopeError("the request", "comment", "is not yes")
    form = Form(_choices(request), with_comment=bool(comment))
    if _is_failure(request):
        return Page("Report a failure", "This reports that it could not be done. Nothing has been sent yet.", form)
    return Page("Your answer", "Nothing has been sent yet. You answer with a button on this page.", form)


# -- what it is answered ----------------------------------------------------------------------------------------------


def _judged(verdict: AnswerVerdict, request: HttpRequest, *, in_page: bool) -> HttpResponse:
    meaning, is_strict = MEANINGS[verdict], _is_strict(request)
    again = {"Retry_After": str(AGAIN_AFTER)} if verdict is AnswerVerdict.EARLY else {}
    if in_page:
        response = page_response(meaning.strict, Page(meaning.title, meaning.text), **again)
    else:
        applied = {"Preference_Applied": "handling=strict"} if is_strict else {}
        content = {"verdict": verdict.value, "detail": meaning.text}
        response = json_response(meaning.strict if is_strict else meaning.status, content, **again, **applied)
    return response._replace(verdict=verdict)


def _is_strict(request: HttpRequest) -> bool:
    asked = request.headers.get("prefer", "").lower().replace(" ", "")
    return "handling=strict" in asked.replace(";", ",").split(",")


def _unread(error: Exception, request: HttpRequest, *, in_page: bool) -> HttpResponse:
    """Respond to a request that was not passed on. An expired token is genuine, so it has its verdict."""
    if isinstance(error, TokenRefused) and error.reason is TokenProblem.EXPIRED:
        return _judged(AnswerVerdict.EXPIRED, request, in_page=in_page)._replace(cause=error)
    return _problem(error, in_page=in_page)


def _problem(error: Exception, *, in_page: bool) -> HttpResponse:
    match error:
        case TokenRefused(reason=reason):
            status = 400 if reason is TokenProblem.MALFORMED else 403
            detail = "This link is not valid here. Is it whole? Nothing was changed."
            return _refused(status, f"TOKEN_{reason}", detail, error, in_page=in_page)
        case TooLarge():
            detail = f"The answer is too large: at most {error.limit:,} bytes are taken. Nothing was changed."
            return _refused(413, "TOO_LARGE", detail, error, in_page=in_page)
        case _UnreadableType():
            return _refused(415, "CONTENT_TYPE", _sentence(error), error, in_page=in_page)
        case EnvelopeError():
            return _refused(400, "MALFORMED", _sentence(error), error, in_page=in_page)
        case _:
            return unavailable(error, in_page=in_page)


def _rejected(error: Reject, *, in_page: bool) -> HttpResponse:
    """Answer for an answer that can never be taken. Only the errors of payloads are shown: they quote no value."""
    why = f" {printable(bounded(str(error)))}" if type(error) is RunFailed else ""
    return _refused(422, "NOT_TAKEN", f"The answer is not of the form that is awaited.{why}", error, in_page=in_page)


def unavailable(error: Exception, *, in_page: bool) -> HttpResponse:
    """Return the response where it is not known whether the answer arrived."""
    detail = "It is not known whether the answer arrived. Send the same again later: an answer counts once."
    response = _refused(503, "UNAVAILABLE", detail, error, in_page=in_page)
    return response._replace(headers={**response.headers, "Retry-After": str(AGAIN_AFTER)})


def _refused(status: int, code: str, detail: str, error: Exception, *, in_page: bool) -> HttpResponse:
    if in_page:
        return page_response(status, Page("That did not work", detail))._replace(cause=error)
    return json_response(status, {"error": code, "detail": detail})._replace(cause=error)


def _sentence(error: Any) -> str:
    return f"{error.field} {error.problem}. Nothing was changed."
