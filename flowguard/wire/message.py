"""A stage's message. It says which run, hop and attempt it is for, and has the payload's text.

Every message carries four attributes of flowguard's, so that a sender's own six still fit beside them:

``uniquerequestid``   the request id, the same in every hop, retry and redrive of a run
``requestedat``       ms since 1970, set by the sender of the request
``flowstage``         ``<flow>/<stage>``: what subscriptions can filter on
``flowguard``         JSON: object id, version, hop, retry, redrive, and where set reply_to, answer_to, the first
                      error, event, resumed, cancelled, depth, tenant, turn and sig
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from flowguard.destinations import parse_destination
from flowguard.errors import shown
from flowguard.names.ids import ObjectId, RequestId, id_problem
from flowguard.payload.encoding import problems_of
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute
from flowguard.wire.cancel_reason import read_reason
from flowguard.wire.tenant import TENANT, of_tenant, read_tenant
from flowguard.wire.token_form import without_tokens
from flowguard.wire.trace_context import TRACE, read_trace
from flowguard.wire.turn import TURN, Turn, read_turn

REQUEST_ID = "uniquerequestid"
REQUESTED_AT = "requestedat"
FLOW_STAGE = "flowstage"
PLACE = "flowguard"
LANE = "lane"
"""The attribute that names the lane of a run, beside flowguard's own: a flow whose inboxes have lanes carries it on."""

SIGNATURE = "sig"
"""The key of the place that says who sent it: see ``flowguard.wire.signing``."""

EVENT = "event"
"""The key of the place that says that the body is a whole EventBridge event, of which the detail is the payload."""

SINCE = "since"
"""The key of the place that says how long the message has been going back to its queue: see :attr:`Message.since`."""

RESUMED = "resumed"
"""The key of the place that says that the hop before it waited, and that its answers are in the run item."""

CANCELLED = "cancelled"
"""The key of the place that says why the request is cancelled that is sent once more so."""

ANSWER_TO = "answer_to"
"""The key of the place that says what another run waits for: the end of this run goes there as an answer."""

DEPTH = "depth"
"""The key of the place that says how many runs stand before this one in a chain: see :attr:`Message.depth`."""

SEALED = "sealed"
"""The word beside the version which says that the body is sealed, and beside an answer's address that its body is.

A release that knows no codec reads no version there, and parks the message as it came."""

WEAK = "weak"
"""The key of the place that says where its request id is from: see :attr:`Place.is_weak`."""
SEEMS = "seems"
"""The key of the place that says which object an unreadable payload seems to name: for who looks at a dead letter."""

FIFO_GROUP = "fifo_group"
"""The key of the place that says from which group of a FIFO queue a dead letter's record was, if not its object's."""

OWN_ATTRIBUTES = frozenset({REQUEST_ID, REQUESTED_AT, FLOW_STAGE, PLACE})
_MOST_ATTRIBUTES = 10
"""Of a message in SQS."""

MOST_CARRIED = _MOST_ATTRIBUTES - len(OWN_ATTRIBUTES)

MOST_HOPS = 1_000_000
"""The most that a place may say of hop, retry, redrive and attempts: more than any run has, below a number's limit."""

HIGHEST_VERSION = 10**15 - 1

LATEST_TIME = 10**15 - 1
"""The highest time that is read anywhere, in ms."""

_LONGEST_SIGNATURE = 128
_LONGEST_ADDRESS = 16_384
"""Characters of JSON: two ids of 1,024 bytes take six each, where their characters are escaped."""

_LONGEST_ERROR = 500
_LONGEST_TYPE = 100

LONGEST_ID = 128
"""The longest id of what a hop sends: FIFO queues take no longer deduplication id."""

TEXT_DIGEST = 32
"""Hex digits of a digest of a text: 128 bits."""

_ROOM_FOR_NUMBER = 24
"""Characters of that which are kept for the number of a send or of a retry."""

_Default = TypeVar("_Default", int, None)


class ErrorNote(NamedTuple):
    """An error and when it was raised (ms since 1970), in texts that any service stores."""

    type: str
    text: str
    at: int

    @classmethod
    def of(cls, error: BaseException, at: int) -> ErrorNote:
        """Note an error that was raised. pydantic's says which fields are wrong, and not with what."""
        try:
            text = f"{error.title}: {problems_of(error)}" if isinstance(error, ValidationError) else str(error)
        except Exception:  # an error whose own text fails must not take the message down with it
            text = "(its text cannot be read)"
        return cls.storable(type(error).__name__, text, at)

    @classmethod
    def storable(cls, kind: str, text: str, at: int) -> ErrorNote:
        """Make a note of any texts.

        Tokens in them are left out, long ones are cut, and half surrogate pairs are written as escapes.
        """
        return cls(_storable(kind)[:_LONGEST_TYPE], _storable(without_tokens(text))[:_LONGEST_ERROR], at)

    def because(self, why: str) -> ErrorNote:
        """Return the same error with why it was the last. The end of a long text gives way to that."""
        if not why:
            return self
        reason = _storable(f" ({why})")[: _LONGEST_ERROR // 2]
        return self._replace(text=self.text[: _LONGEST_ERROR - len(reason)] + reason)

    def as_json(self) -> list[Any]:
        return [self.type, self.text, self.at]

    def __str__(self) -> str:
        return f"{self.type}: {self.text}"


class Message(NamedTuple):
    """One stage's work, addressed.

    ``body`` is the payload's text (JSON for models and dicts). Of a message that is ``sealed`` it is empty until that
    is opened. ``carried`` are the attributes that the flow passes on with everything it sends. ``first_error`` is of
    the first attempt that failed: later ones often fail for other reasons than the one that matters. ``last_error`` and
    ``attempts`` are a dead letter's: why and after how many
    attempts it became one. Times are ms since 1970, UTC.
    """

    flow: str
    stage: str
    version: int
    object_id: ObjectId
    request_id: RequestId
    requested_at: int
    body: str
    hop: int = 1
    retry: int = 0
    redrive: int = 0
    reply_to: str | None = None
    first_error: ErrorNote | None = None
    last_error: ErrorNote | None = None
    attempts: int | None = None
    carried: Mapping[str, Attribute] = {}
    is_event: bool = False
    """The body was the detail of an EventBridge event, and the message is sent again with the whole event."""
    resumed: bool = False
    """The hop before it waited: its payload is made of the answers in the run item."""
    answer_to: str | None = None
    """JSON text: the address in another run that this run's end is the answer to."""
    cancelled: str | None = None
    """Why the request is cancelled, where this is a copy of it that says so. Its body is no payload."""
    trace: str | None = None
    """The trace that the request was made in. It goes along with all that the run sends to its own flow."""
    since: int = 0
    """When the first record of it was sent, in ms, where SQS gave that up and it went back to its queue."""
    depth: int = 0
    """How many runs stand before this one in its chain: those that started it, asked it or notified it of their end."""
    sealed: str | None = None
    """The text that travels in place of the body, of a flow that has a codec."""
    tenant: str | None = None
    """Whose work the run is. It goes along with all that the run sends: see ``flowguard.wire.tenant``."""
    turn: Turn | None = None
    """Since when this attempt stands in the line of a limit."""

    @property
    def text(self) -> str:
        """Return the text that travels: the body, or what seals it."""
        return self.body if self.sealed is None else self.sealed

    @property
    def attempt(self) -> tuple[int, int]:
        """Return redrive and retry. The attempts of a hop are ordered by redrive, then retry."""
        return self.redrive, self.retry

    @property
    def hop_id(self) -> str:
        """Return what the ids of everything that this hop sends begin with.

        It is the same in each attempt, and new with a redrive. A hop that failed for good has reported so; what it
        sends after a redrive must not look like a copy of that. One request id may be used in two flows, for two
        objects, or again later: a digest tells these apart (docs/decisions/0015). Short enough for a number to follow
        within :data:`LONGEST_ID`.
        """
        run = json.dumps([self.flow, self.object_id, self.requested_at, self.request_id])
        digest = sha256(run.encode()).hexdigest()
        hop = f"{self.hop}r{self.redrive}" if self.redrive else f"{self.hop}"
        readable = f"{self.request_id}-{digest[:16]}.{hop}"
        return readable if len(readable) <= LONGEST_ID - _ROOM_FOR_NUMBER else f"{digest}.{hop}"

    @property
    def text_digest(self) -> str:
        """Return a digest of the text that travels, the stage, the addresses of the end and the depth.

        It is the same in each copy, retry and redrive of one message, whatever source they come from.
        """
        deep = (self.depth,) if self.depth else ()
        return _digest(self.stage, self.text, self.reply_to, self.answer_to, *deep)

    def for_object(self, object_id: ObjectId, tenant: str | None = None) -> Message:
        """Return the same message for the object that its payload names, and for its tenant if it has none yet."""
        return self._replace(object_id=object_id, tenant=self.tenant or tenant)

    def below(self, parent: Message) -> Message:
        """Return the request as one that the run of ``parent`` makes: deeper, and its tenant's if it names none."""
        return self._replace(depth=parent.depth + 1, tenant=self.tenant or parent.tenant)

    def at_retry(self, retry: int) -> Message:
        """Return the same message as the attempt that its run item says it is."""
        return self._replace(retry=retry)

    def next(self, stage: str, body: str) -> Message:
        """Return the message of the next hop of the same run."""
        return self._replace(
            stage=stage,
            body=body,
            hop=self.hop + 1,
            retry=0,
            redrive=0,
            first_error=None,
            is_event=False,
            resumed=False,
            cancelled=None,
            since=0,
            sealed=None,
            turn=None,
        )

    def again(self, error: ErrorNote) -> Message:
        """Return the same message, one attempt later. The first error stays the first."""
        return self._replace(retry=self.retry + 1, first_error=self.first_error or error, since=0, turn=None)

    def redriven(self, error: ErrorNote) -> Message:
        """Return the same message as a dead letter carries it. It can be sent back without a change."""
        return self._replace(
            redrive=self.redrive + 1,
            retry=0,
            first_error=self.first_error or error,
            last_error=error,
            attempts=self.retry + 1,
            since=0,
            turn=None,
        )

    def attributes(self) -> dict[str, Attribute]:
        """Return all attributes of a new message. flowguard's own are first, then those that the flow carries."""
        return {**self.own_attributes(), **self.carried}

    def own_attributes(self, signature: str | None = None) -> dict[str, Attribute]:
        """Return the four attributes of the module's table, in its order.

        A dead letter whose request could not be named has no id, so that its flow's rule is asked again when it comes
        back.
        """
        version = self.version if self.sealed is None else [self.version, SEALED]
        place: dict[str, Any] = {"version": version, "hop": self.hop}
        if self.object_id:
            place["object"] = self.object_id
        if self.retry:
            place["retry"] = self.retry
        if self.redrive:
            place["redrive"] = self.redrive
        if self.reply_to is not None:
            place["reply_to"] = self.reply_to
        if self.first_error is not None:
            place["error"] = self.first_error.as_json()
        if self.last_error is not None and self.last_error != self.first_error:
            place["last_error"] = self.last_error.as_json()
        if self.attempts is not None:
            place["attempts"] = self.attempts
        if self.is_event:
            place[EVENT] = True
        place.update(self._of_waits())
        if signature is not None:
            place[SIGNATURE] = signature
        named = {REQUEST_ID: Attribute.string(self.request_id)} if self.request_id else {}
        return {
            **named,
            REQUESTED_AT: Attribute.number(self.requested_at),
            FLOW_STAGE: Attribute.string(f"{self.flow}/{self.stage}"),
            PLACE: Attribute.string(json.dumps(place, separators=(",", ":"))),
        }

    def _of_waits(self) -> dict[str, Any]:
        """Return what the place says of waits, and of the trace, the depth and the tenant that outlast them.

        That is whether the hop resumes one, which answer the end of the run is, and why nobody needs that any more.
        """
        return {
            **({RESUMED: True} if self.resumed else {}),
            **({ANSWER_TO: json.loads(self.answer_to)} if self.answer_to is not None else {}),
            **({CANCELLED: self.cancelled} if self.cancelled is not None else {}),
            **({TRACE: self.trace} if self.trace is not None else {}),
            **({DEPTH: self.depth} if self.depth else {}),
            **of_tenant(self.tenant),
            **({SINCE: self.since} if self.since else {}),
            **({TURN: self.turn.as_json()} if self.turn is not None else {}),
        }


class Place(NamedTuple):
    """What the ``flowguard`` attribute says, checked."""

    object_id: ObjectId | None = None
    version: int | None = None
    hop: int = 1
    retry: int = 0
    redrive: int = 0
    reply_to: str | None = None
    first_error: ErrorNote | None = None
    last_error: ErrorNote | None = None
    attempts: int | None = None
    is_unsent: bool = False
    """The message is a dead letter of something that could not be sent (see ``unsent``)."""
    signature: str | None = None
    is_weak: bool = False
    """The request id beside it is a service's: a tool wrote it down, and the flow's own rule counts before it."""
    is_event: bool = False
    seems: ObjectId | None = None
    """The object that a dead letter's payload seems to name, which no stage could read. It decides nothing."""
    fifo_group: str | None = None
    resumed: bool = False
    answer_to: str | None = None
    cancelled: str | None = None
    trace: str | None = None
    since: int = 0
    depth: int = 0
    is_sealed: bool = False
    """The body is sealed."""
    tenant: str | None = None
    turn: Turn | None = None

    @classmethod
    def parse(cls, text: str) -> Place:
        """Parse the attribute's text.

        Raises ValueError with what is wrong; an unknown key is of a newer version and ignored.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"is not JSON: {error}") from None
        if not isinstance(data, dict):
            raise ValueError("is not a JSON object")
        object_id, reply_to = _text(data, "object"), None
        if "reply_to" in data and (reply_to := _text(data, "reply_to")) is not None:
            parse_destination(reply_to)
        version, is_sealed = _version(data.get("version"))
        if is_sealed and not object_id:
            raise ValueError("says that the body is sealed, and names no object")
        parts = {_PARTS[key][0]: _PARTS[key][1](data) for key in data if key in _PARTS}
        return cls(
            object_id=object_id,
            version=None if version is None else _whole({"version": version}, "version", None, 1, HIGHEST_VERSION),
            reply_to=reply_to,
            is_unsent="unsent" in data,
            is_sealed=is_sealed,
            **parts,
        )


@lru_cache(maxsize=1)  # a claim asks twice: for its call, and for what that leaves
def _digest(*parts: str | int | None) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()[:TEXT_DIGEST]


def chain_in(place: object) -> Place:
    """Return the place of an event, for its depth and its tenant. It says none where it cannot be read."""
    try:
        return Place.parse(place) if isinstance(place, str) else Place()
    except ValueError:
        return Place()


def place_at_depth(depth: int, tenant: str | None = None) -> dict[str, Attribute]:
    """Return the attribute of a message that is no request yet, and may become one.

    ``depth`` is that of its run in the chain, and ``tenant`` whose work that is.
    """
    place = {DEPTH: depth, **of_tenant(tenant)}
    return {PLACE: Attribute.string(json.dumps(place, separators=(",", ":")))}


def with_depth(attributes: dict[str, Attribute], depth: int, tenant: str | None) -> dict[str, Attribute]:
    """Return the attributes with the depth and the tenant of the run that the message may start.

    The sender's own attributes take precedence: these are left out if a message has as many as a service takes.
    """
    if PLACE in attributes or len(attributes) >= _MOST_ATTRIBUTES:
        return attributes
    return {**attributes, **place_at_depth(depth, tenant)}


def _text(data: dict[str, Any], name: str) -> Any:
    """Return a text that may be an id or be sent to; None where there is none."""
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"has a {name!r} that is not text")
    if problem := id_problem(value):
        raise ValueError(f"has a {name!r} that {problem}")
    return value


def _answer_to(data: dict[str, Any]) -> str | None:
    value = data.get(ANSWER_TO)
    if value is None:
        return None
    text = json.dumps(value, separators=(",", ":"))
    if not isinstance(value, dict) or len(text) > _LONGEST_ADDRESS:
        raise ValueError(f"has an {ANSWER_TO!r} that is not a JSON object of at most {_LONGEST_ADDRESS:,} characters")
    return text


def _cancelled(data: dict[str, Any]) -> str | None:
    if data.get(CANCELLED) is None:
        return None
    if _whole(data, "hop", 1, 1) > 1:
        raise ValueError("is of a later hop and cancelled; only a request is sent as cancelled")
    return read_reason(data[CANCELLED])


def _id_or_none(value: Any) -> ObjectId | None:
    return ObjectId(value) if isinstance(value, str) and value and not id_problem(value) else None


def _version(value: Any) -> tuple[Any, bool]:
    """Return the version, and whether the word beside it says that the body is sealed."""
    match value:
        case [version, str(word)] if word == SEALED:
            return version, True
        case _:
            return value, False


def _signature(data: dict[str, Any]) -> str | None:
    value = data.get(SIGNATURE)
    if value is not None and not (isinstance(value, str) and len(value) <= _LONGEST_SIGNATURE):
        raise ValueError(f"has a {SIGNATURE!r} that is not text of at most {_LONGEST_SIGNATURE} characters")
    return value


def _whole(data: dict[str, Any], name: str, default: _Default, least: int, most: int = MOST_HOPS) -> int | _Default:
    """Return a whole number. A missing value and ``null`` are both the default."""
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"has {name!r} {shown(value)}; it is a whole number of at least {least}")
    if value > most:
        raise ValueError(f"has {name!r} {shown(value)}; it is at most {most:,}")
    return value


def _error_note(data: dict[str, Any], name: str) -> ErrorNote | None:
    match data.get(name):
        case None:
            return None
        case [str(kind), str(text), int(at)]:
            return ErrorNote.storable(kind, text, at)
        case _:
            raise ValueError(f"has an {name!r} that is not [type, text, ms]")


_PARTS: Final[Mapping[str, tuple[str, Callable[[dict[str, Any]], Any]]]] = {
    "hop": ("hop", lambda data: _whole(data, "hop", 1, 1)),
    "retry": ("retry", lambda data: _whole(data, "retry", 0, 0)),
    "redrive": ("redrive", lambda data: _whole(data, "redrive", 0, 0)),
    "error": ("first_error", lambda data: _error_note(data, "error")),
    "last_error": ("last_error", lambda data: _error_note(data, "last_error")),
    "attempts": ("attempts", lambda data: _whole(data, "attempts", None, 1)),
    SIGNATURE: ("signature", _signature),
    WEAK: ("is_weak", lambda data: data[WEAK] is True),
    EVENT: ("is_event", lambda data: data[EVENT] is True),
    SEEMS: ("seems", lambda data: _id_or_none(data[SEEMS])),
    FIFO_GROUP: ("fifo_group", lambda data: _id_or_none(data[FIFO_GROUP])),
    RESUMED: ("resumed", lambda data: data[RESUMED] is True),
    ANSWER_TO: ("answer_to", _answer_to),
    CANCELLED: ("cancelled", _cancelled),
    TRACE: ("trace", lambda data: read_trace(data[TRACE])),
    SINCE: ("since", lambda data: _whole(data, SINCE, 0, 0, LATEST_TIME)),
    DEPTH: ("depth", lambda data: _whole(data, DEPTH, 0, 0)),
    TENANT: ("tenant", lambda data: read_tenant(data[TENANT])),
    TURN: ("turn", lambda data: read_turn(data[TURN])),
}
"""The field of :class:`Place` for each key that most places do not have, and how it is read where it is there."""


def _storable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
