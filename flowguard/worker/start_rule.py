"""What a function that starts runs makes of a request: the object, the payload and the key."""

from __future__ import annotations

import hashlib
import json
import re
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from pydantic import ValidationError

from flowguard.errors import EnvelopeError, FlowguardError, PayloadInvalid, Reject, shown, span_problem
from flowguard.flow import PER_REQUEST, AnyFlow
from flowguard.payload.call_keys import KeyRule, NoKey, read_key, rule_problem
from flowguard.payload.encoding import Payload, decode, encode, problems_of, sendable_json
from flowguard.start_request import StartRequest
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.http_request import HttpRequest
from flowguard.worker.lifetimes import lifetimes_of

ReadStart = Callable[[StartRequest], tuple[str | None, Payload] | None]
"""Makes the object and the payload of a request. None: its sender may not start this."""

ShowsResult = bool | Callable[[StartRequest, str], bool]
"""Whether a reader gets the result of a run: any reader, or those that a function lets."""

LONGEST_BODY: Final = 262_144 - 8_192
"""In bytes: it is put into a queue, with its attributes."""

LONGEST_KEY: Final = 255
"""In characters, of an ``Idempotency-Key``."""

_LONGEST_LIST: Final = 8 * LONGEST_KEY
"""Characters of the longest header that is read: the same key may be in it several times, with escapes."""

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\["\\])*"')
_IN_QUOTES: Final = "one in quotes has no comma, and a backslash before each quote or backslash within"

_GATEWAY_WAITS: Final = timedelta(seconds=29)
_TO_START: Final = timedelta(seconds=4)
"""What a function may need before it gets its first request, and to answer."""

LONGEST_WAIT: Final = _GATEWAY_WAITS - _TO_START
_LEAST_KEPT: Final = timedelta(minutes=1)
_USUALLY_KEPT: Final = timedelta(days=28)


def usual_keep(flow: AnyFlow) -> timedelta:
    """Return for how long a key is known where nobody says it."""
    return min(_USUALLY_KEPT, _known_for(flow))


def _known_for(flow: AnyFlow) -> timedelta:
    """Return for how long a run item of the flow lives at least."""
    return timedelta(milliseconds=lifetimes_of(flow).of_run(0))


class UnreadableType(EnvelopeError):
    """The body is of a type that is not read."""


class Forbidden(FlowguardError):
    """The function that reads requests lets the sender start no such run."""


class ReaderBroken(FlowguardError):
    """The user's function raised. The text names the error's type and place, and quotes nothing."""

    @classmethod
    def by(cls, option: str, error: Exception) -> ReaderBroken:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return cls(f"{option}= raised {type(error).__name__} at {last.filename}:{last.lineno}")


class Asked(NamedTuple):
    """A run that is asked for. ``digest`` is the same for a repeat. ``key`` is None where the request has none."""

    payload: Any
    object_id: str | None
    key: str | None
    digest: str


class StartRule(NamedTuple):
    """The options of :func:`flowguard.start_handler`."""

    flow: AnyFlow
    object_field: str | None
    read: ReadStart | None
    key_field: KeyRule | None
    key_required: bool
    caller: Callable[[StartRequest], str] | None
    wait: timedelta
    keep: timedelta
    shows_result: ShowsResult

    # -- a request

    def asked(self, request: HttpRequest) -> Asked:
        """Read what a request asks for, without any call."""
        key = header_key(request.headers.get("idempotency-key"))
        text, body = _json(request)
        seen = seen_by_user(request, body)
        object_id, payload = self._read(seen, text)
        if key is None:
            key = self._body_key(body)
        if key is None and self.key_required:
            raise EnvelopeError("the request", "Idempotency-Key", "is missing; send a new one with each new request")
        named = None if key is None else _digest([self.caller_of(seen), *key])
        return Asked(payload, object_id, named, _digest([object_id, seen.path, seen.query, body]))

    def caller_of(self, seen: StartRequest) -> str:
        """Name who has sent a request: keys of one caller are not those of another."""
        if self.caller is None:
            if seen.claims and not seen.caller:
                raise ReaderBroken(
                    "the gateway names no sender: what its authorizer says has no principalId and no sub, or it is a "
                    "certificate without a subject; name it by caller="
                )
            return seen.caller
        try:
            name: object = self.caller(seen)
        except Exception as error:
            raise ReaderBroken.by("caller", error) from error
        if not isinstance(name, str):
            raise ReaderBroken(f"caller= returned {type(name).__name__}; return a text")
        if not name:
            raise ReaderBroken("caller= returned an empty text, which names nobody")
        return name

    def shows(self, request: HttpRequest, object_id: str) -> bool:
        """Answer whether the reader may see the result."""
        if isinstance(self.shows_result, bool):
            return self.shows_result
        try:
            return self.shows_result(seen_by_user(request, None), object_id) is True
        except Exception as error:
            raise ReaderBroken.by("shows_result", error) from error

    def _read(self, seen: StartRequest, text: str) -> tuple[str | None, Payload]:
        """Return the object and the payload. An object of None is the one that the payload names."""
        return (None, self._payload(text)) if self.read is None else self._of_function(self.read, seen)

    def _of_function(self, read: ReadStart, seen: StartRequest) -> tuple[str | None, Payload]:
        try:
            made: Any = read(seen)
        except ValidationError as error:
            raise PayloadInvalid(f"the payload is no {error.title}: {problems_of(error)}") from None
        except Reject:
            raise
        except Exception as error:
            raise ReaderBroken.by("read", error) from error
        if made is None:
            raise Forbidden("read= returned None")
        if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], str | None)):
            raise ReaderBroken(f"read= returned {type(made).__name__}; return (object id, payload), or None")
        return made[0], self._payload(encode(made[1]))

    def _payload(self, text: str) -> Any:
        return decode(self.flow.entry().payload, text, what="the payload")

    def _body_key(self, body: Any) -> tuple[str, str] | None:
        if self.key_field is None:
            return None
        try:
            return ("body", read_key(self.key_field, body))
        except NoKey as problem:
            raise EnvelopeError("the request", "body", f"names no key: {problem}") from None

    # -- its mistakes

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the options, each with its fix."""
        yield from self._object_problems()
        if self.key_field is not None and (problem := rule_problem("key_field", self.key_field)):
            yield problem
        for name, least, most in (("wait", timedelta(0), LONGEST_WAIT), ("keep", _LEAST_KEPT, timedelta.max)):
            span = getattr(self, name)
            if problem := span_problem(span):
                yield f"{name} {problem}"
            elif not least <= span <= most:
                yield f"{name} is {span}; write {least} or more" + (f", and {most} at most" if name == "wait" else "")
        yield from self._keep_problems()
        for name in ("read", "caller"):
            if (value := getattr(self, name)) is not None and not callable(value):
                yield f"{name} is {shown(value)}; give it a function of the request"
        shows: object = self.shows_result
        if not isinstance(shows, bool) and not callable(shows):
            yield f"shows_result is {shown(shows)}; write True, False or a function of request and object"

    def _keep_problems(self) -> Iterator[str]:
        """Yield what is wrong with a key that is known for longer than its run.

        Where the function died before it noted what it had started, a repeat sends the same request again, and the run
        item alone says that it was carried out.
        """
        known_for = _known_for(self.flow)
        if not span_problem(self.keep) and self.keep > known_for:
            whose = f"and a run of the flow may be forgotten after {known_for}"
            fix = "Write that, or a longer remember= of the flow"
            yield f"keep is {self.keep}, {whose}; a repeat would start it anew then. {fix}"

    def _object_problems(self) -> Iterator[str]:
        given = [name for name in ("object_field", "read") if getattr(self, name) is not None]
        if len(given) > 1:
            yield "object_field and read both say which object a request is for; give one of them"
        elif self.flow.object_id is PER_REQUEST:
            if self.object_field is not None:
                yield "object_field names an object, and each request of this flow is its own; leave it out"
        elif not given:
            yield (
                f"it does not say who chooses the object; write object_field={self.flow.object_id!r} where whoever may "
                "send requests may name any object, or read=<a function of the request and its claims>"
            )
        elif self.object_field not in (None, self.flow.object_id):
            whose = f"the flow's object is {self.flow.object_id!r}"
            yield f"object_field is {shown(self.object_field)}, and {whose}; write that"


def seen_by_user(request: HttpRequest, body: Any) -> StartRequest:
    """Return a request as the user's functions get it."""
    claims, caller = request.sender
    return StartRequest(body, claims, caller, request.path, request.path_parameters, request.query, request.headers)


def header_key(header: str | None) -> tuple[str, str] | None:
    """Return the key of a header, without the quotes of a structured string. None where there is no header.

    A header that was sent twice is one text with a comma for the function, so that no key has one: equal keys are one.
    """
    if header is None:
        return None
    if len(header) > _LONGEST_LIST:
        raise EnvelopeError("the request", "Idempotency-Key", f"is longer than {LONGEST_KEY} characters")
    parts = [text for part in header.split(",") if (text := part.strip(" \t"))]
    first, *others = {_unquoted(part): None for part in parts or [""]}
    if others:
        raise EnvelopeError("the request", "Idempotency-Key", "has several values that differ; send one key")
    return ("header", first)


def _unquoted(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        raise EnvelopeError("the request", "Idempotency-Key", "has a character that is not printable ASCII")
    if '"' in text:
        if _QUOTED.fullmatch(text) is None:
            raise EnvelopeError("the request", "Idempotency-Key", f"has a quote out of place: {_IN_QUOTES}")
        text = re.sub(r"\\(.)", r"\1", text[1:-1])
    if not text:
        raise EnvelopeError("the request", "Idempotency-Key", "is empty")
    if len(text) > LONGEST_KEY:
        raise EnvelopeError("the request", "Idempotency-Key", f"is longer than {LONGEST_KEY} characters")
    return text


def _json(request: HttpRequest) -> tuple[str, Any]:
    if not request.is_json:
        raise UnreadableType("the request", "Content-Type", "is not application/json")
    text = request.text(LONGEST_BODY)
    try:
        return sendable_json(text), json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        why = getattr(error, "msg", "") or "nested too deeply, or a number that is none"
        raise EnvelopeError("the request", "body", f"is not JSON: {why}") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
