"""The fields of the run item, a row for each attribute.

A row says how the attribute is stored, which writes set it and which remove it. Reading an item, its state after a
claim, the texts of the claims, what is read for lists, and the page ``docs/reference/run-item.md`` are made from the
rows. Conditions are written by hand, in ``flowguard.aws.expressions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NewType

from flowguard.protocol.callers import Callers
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import BackOff, Burst, Cancellation, ClaimRequest, RunItem
from flowguard.protocol.waiting import Late
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.message import ErrorNote, Message


class Kind(StrEnum):
    """How a value is stored."""

    TEXT = "text"
    STATUS = "text: RUNNING, WAITING, COMPLETED or FAILED"
    HISTORY = "text of at most 256 bytes"
    """A longer one is left out when the item is read."""
    COUNT = "number"
    TIME = "number: ms since 1970"
    SECONDS = "number: seconds since 1970"
    FLAG = "true or false"
    MARK = "true, or not there"
    NAMES = "set of texts"
    TEXTS = "map of texts"
    LONG = "long text"
    """It is read only where it is needed."""
    MAP = "map"
    """It has code of its own that reads it."""


Writer = NewType("Writer", str)
"""What writes a run item."""

FIRST_HOP: Final = Writer("claim of a first hop, not under ATTACH")
CALLERS_FIRST_HOP: Final = Writer("claim of a first hop under ATTACH")
LATER_HOP: Final = Writer("claim of a hop that follows no wait")
RESUMED_HOP: Final = Writer("claim of a hop that follows a wait")
COMMIT: Final = Writer("commit")
RELEASE: Final = Writer("release")
BACK_OFF: Final = Writer("note of a back-off")
KILLS: Final = Writer("note of killed workers")
MEMORY: Final = Writer("memory of a hop")
ANSWER: Final = Writer("answer")
DEADLINE: Final = Writer("deadline")
GROUP: Final = Writer("message of a group")
CALLER: Final = Writer("request that attaches")
RESET: Final = Writer("reset")
CANCELLATION: Final = Writer("cancellation")
FAILED_ATTEMPT: Final = Writer("row of a failed attempt")

NOBODY: Final[frozenset[Writer]] = frozenset()
FIRST_HOPS: Final = frozenset({FIRST_HOP, CALLERS_FIRST_HOP})
LATER_HOPS: Final = frozenset({LATER_HOP, RESUMED_HOP})
CLAIMS: Final = FIRST_HOPS | LATER_HOPS
_COMMIT: Final = frozenset({COMMIT})


class Field(NamedTuple):
    """An attribute of the run item.

    ``written_by`` are the writes that may set it, or a part of it, and ``removed_by`` those that may remove it. The
    commit of a hop that was only read does what its claim would have done.
    """

    attribute: str
    kind: Kind | type
    """A named tuple has its parts in :data:`PARTS`."""
    holds: str
    written_by: frozenset[Writer]
    removed_by: frozenset[Writer] = NOBODY
    name: str = ""
    """The name of the field in :class:`RunItem`, where it differs from the attribute's."""
    part_of: str = ""
    """The attribute that it is read with, if its value is none by itself."""
    always: bool = False
    """Whether every item has it that was committed once."""
    reserved: bool = False
    """Whether an expression of DynamoDB names it by a placeholder."""
    origin: str = ""
    """What it is called in the designs that flowguard comes from."""

    @property
    def value_name(self) -> str:
        """Return the field of :class:`RunItem` that has its value."""
        return self.part_of or self.name or self.attribute

    @property
    def placeholder(self) -> str:
        """Return its name in an expression."""
        return f"#{self.attribute}" if self.reserved else self.attribute


PARTS: Final[Mapping[type, Mapping[str, Kind | type]]] = {
    ErrorNote: {"type": Kind.TEXT, "text": Kind.TEXT, "at": Kind.TIME},
    Callers: {"term": Kind.TEXT, "held": Kind.TEXTS, "rows": Kind.MARK},
    Late: {"hop": Kind.COUNT, "names": Kind.NAMES, "group": Kind.TEXT},
    BackOff: {"error": ErrorNote, "until": Kind.TIME, "look": Kind.COUNT},
    Burst: {"since": Kind.TIME, "until": Kind.TIME, "requested_at": Kind.TIME},
    Cancellation: {"request_id": Kind.TEXT, "at": Kind.TIME, "why": Kind.TEXT},
    FailedHop: {
        "request_id": Kind.TEXT,
        "requested_at": Kind.TIME,
        "hop": Kind.COUNT,
        "redrive": Kind.COUNT,
        "error": ErrorNote,
        "undone": Kind.MARK,
    },
}
"""The parts of each value that is stored as a map of its own. A part that is None or False is not there."""

FIELDS: Final = (
    Field(
        "request_id",
        Kind.TEXT,
        "The request whose run this is",
        CLAIMS,
        always=True,
        origin="`uniquerequestid` of a flow",
    ),
    Field(
        "requested_at",
        Kind.TIME,
        "When that was requested",
        CLAIMS,
        always=True,
        origin="timestamp of the request, set by the caller",
    ),
    Field("version", Kind.COUNT, "The version of its message", CLAIMS, always=True),
    Field(
        "status",
        Kind.STATUS,
        "Where the run stands",
        CLAIMS | _COMMIT,
        always=True,
        reserved=True,
        origin="`status`: IN_PROGRESS, COMPLETE",
    ),
    Field("stage", Kind.TEXT, "The stage that runs, or ran last", CLAIMS, always=True),
    Field("hop", Kind.COUNT, "Which hop of the run that is, from 1", CLAIMS, always=True),
    Field(
        "retry",
        Kind.COUNT,
        "Which attempt of the hop, from 0",
        CLAIMS | {RELEASE},
        always=True,
        origin="number of retries, `consumption_count`",
    ),
    Field("redrive", Kind.COUNT, "How often its dead letter was sent back", CLAIMS, always=True),
    Field(
        "epoch",
        Kind.COUNT,
        "Grows with every claim",
        CLAIMS | {RESET, CANCELLATION},
        always=True,
        origin="`uniquerequestid` that each update compares",
    ),
    Field(
        "owner",
        Kind.TEXT,
        "The random id of the last claim",
        CLAIMS | {RESET},
        always=True,
        reserved=True,
        origin="`uniquerequestid` of each stage",
    ),
    Field(
        "lease_until",
        Kind.TIME,
        "How long the claim keeps other workers from the attempt",
        CLAIMS | {RELEASE, RESET, CANCELLATION},
        always=True,
        origin="`updated`, plus the timeout of the function",
    ),
    Field("done", Kind.FLAG, "Whether the hop is committed", CLAIMS | _COMMIT, always=True),
    Field(
        "committed_at",
        Kind.TIME,
        "When a hop was last committed, of this run or the one before",
        _COMMIT,
        always=True,
        origin="`updated`",
    ),
    Field(
        "ttl",
        Kind.SECONDS,
        "When DynamoDB may remove the item",
        CLAIMS | {COMMIT, CALLER},
        always=True,
        reserved=True,
        origin="`expiry`, `expiry_ttl`",
    ),
    Field("outbox", Kind.LONG, "The messages of the last commit", _COMMIT, frozenset({LATER_HOP, COMMIT, RELEASE})),
    Field("state", Kind.LONG, "The state of the run, JSON", _COMMIT, _COMMIT, reserved=True),
    Field(
        "result",
        Kind.LONG,
        "What the run has ended with, JSON",
        _COMMIT,
        LATER_HOPS | {FIRST_HOP, COMMIT},
        reserved=True,
        origin="`result`, `responseData`",
    ),
    Field(
        "error",
        Kind.LONG,
        "Why the run has failed",
        _COMMIT,
        LATER_HOPS | {FIRST_HOP, COMMIT},
        reserved=True,
    ),
    Field(
        "waiting",
        Kind.NAMES,
        "The names without an answer, or the open shards of a group",
        frozenset({COMMIT, ANSWER, GROUP}),
        FIRST_HOPS | _COMMIT,
        part_of="wait",
        origin="pending steps",
    ),
    Field(
        "wait",
        Kind.MAP,
        "What the hop waits for: its deadline, its plan, the answers, and the bytes left for more",
        frozenset({COMMIT, ANSWER, DEADLINE, GROUP, CANCELLATION}),
        FIRST_HOPS | _COMMIT,
        reserved=True,
        origin="AwaitingStep",
    ),
    Field("late", Late, "What an earlier hop waited for in vain", _COMMIT, FIRST_HOPS),
    Field(
        "reset_at",
        Kind.TIME,
        "When the run was reset",
        frozenset({RESET}),
        frozenset({CALLERS_FIRST_HOP}),
        origin="reset of a cache",
    ),
    Field("back_off", BackOff, "Why the hop rests, and until when", frozenset({BACK_OFF, RELEASE}), CLAIMS),
    Field("burst", Burst, "Until when the run is put off for newer requests", frozenset({RELEASE}), _COMMIT),
    Field(
        "called_attempt",
        Kind.TEXT,
        "The attempt after a failed direct call, which nobody may repeat: digest of the request, hop, redrive, retry. "
        "With its time, one of a stream's record whose message a queue has",
        frozenset({RELEASE}),
        _COMMIT,
    ),
    Field(
        "by_look",
        Kind.COUNT,
        "By which look for a place the hop was committed, or by a call (0): other looks have nothing to send",
        _COMMIT,
        _COMMIT,
    ),
    Field("kills", Kind.COUNT, "How many workers of the attempt were killed", frozenset({RELEASE, KILLS}), CLAIMS),
    Field(
        "stages",
        Kind.TEXTS,
        "The stages passed, and for each the request id",
        CLAIMS,
        _COMMIT,
        origin="`uniquerequestid` of each stage, until all are complete",
    ),
    Field(
        "first_text",
        Kind.TEXT,
        "The digest of the first hop's text; of a sealed text also the digest of its content, sealed",
        FIRST_HOPS,
        _COMMIT,
    ),
    Field(
        "text_epoch",
        Kind.COUNT,
        "The epoch of the claim that wrote `first_text`, or of a reset or cancellation that has fenced it",
        FIRST_HOPS | {RESET, CANCELLATION},
        _COMMIT,
        part_of="first_text",
    ),
    Field(
        "memo",
        Kind.MAP,
        "What a hop remembers before its commit: request id, hop and results",
        frozenset({MEMORY}),
        frozenset({MEMORY, COMMIT, RESET}),
    ),
    Field("failed", FailedHop, "Where a run failed for good that went on at `on_failed`", _COMMIT, _COMMIT),
    Field("cancelled", Cancellation, "The last cancellation", frozenset({CANCELLATION}), name="cancellation"),
    Field(
        "callers",
        Callers,
        "Those who get the end of this run",
        LATER_HOPS | {CALLERS_FIRST_HOP, CALLER},
        _COMMIT,
    ),
    Field("answered", Callers, "Those who got the last end", _COMMIT),
    Field("answered_by", Kind.TEXT, "The request of the run that ended last", _COMMIT, _COMMIT),
    Field("answered_key", Kind.TEXT, "A digest of its id and time", _COMMIT),
    Field(
        "asker-",
        Kind.TEXT,
        "A request with a `reply_to` that has no answer yet. The name goes on with a digest of its id",
        CLAIMS,
        _COMMIT,
        name="askers",
    ),
    Field("reset_by", Kind.TEXT, "The reset that came last", frozenset({RESET})),
    Field("first_message", Kind.LONG, "The message that a reset sends again", _COMMIT, _COMMIT),
    Field("history", Kind.HISTORY, "What has happened lately", frozenset({COMMIT, RELEASE}), _COMMIT),
    Field(
        "full_history",
        Kind.MARK,
        "Whether rows beside the item tell all of it",
        frozenset({COMMIT, FAILED_ATTEMPT}),
    ),
)
"""The attributes beside the keys. What is removed by claims stands in the order of their texts."""

BY_NAME: Final[Mapping[str, Field]] = {field.value_name: field for field in FIELDS if not field.part_of}

OF_EVERY_CLAIM: Final = tuple(field for field in FIELDS if field.always and field.written_by >= CLAIMS)
"""What each claim writes."""

IN_PLACE_OF_A_CLAIM: Final = tuple(field for field in OF_EVERY_CLAIM if COMMIT not in field.written_by)
"""What the commit of a hop that was only read writes beside what every commit does."""

OF_THE_MESSAGE: Final = tuple(field for field in IN_PLACE_OF_A_CLAIM if field.attribute in Message._fields)
"""What a claim has from its message, under the same name."""


def claiming(request: ClaimRequest) -> Writer:
    """Return which claim takes a hop."""
    m = request.message
    if m.hop == 1:
        return CALLERS_FIRST_HOP if request.on_conflict is OnConflict.ATTACH else FIRST_HOP
    return RESUMED_HOP if m.resumed else LATER_HOP


def removed_by(writer: Writer) -> tuple[Field, ...]:
    """Return the fields that a write may remove."""
    return tuple(field for field in FIELDS if writer in field.removed_by)


REMOVED_BY_CLAIM: Final[Mapping[Writer, Mapping[str, Any]]] = {
    claim: {field.value_name: RunItem._field_defaults[field.value_name] for field in removed_by(claim)}
    for claim in CLAIMS
}
"""The values that the run item has in place of what each claim removes."""
