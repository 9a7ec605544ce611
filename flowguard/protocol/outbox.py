"""The sends of a commit. The very write that commits stores them in the run item, and they are sent afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, assert_never

from flowguard.destinations import Bus, Destination, Function, Queue, Topic, parse_destination
from flowguard.errors import EnvelopeError, RunFailed, TooLarge
from flowguard.names.ids import RequestId, refused_character
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute
from flowguard.wire.bodies import bus_detail, function_payload


class Kind(StrEnum):
    """Why something is sent. The order of a dispatch follows from it."""

    SIDE = "side"
    COMPLETE = "complete"
    DEAD = "dead"
    NEXT = "next"
    ASK = "ask"
    """Asks for something that the run waits for."""
    DEADLINE = "deadline"
    """Comes back to its own flow when a wait has lasted long enough."""

    @property
    def phase(self) -> int:
        """Return its place in a dispatch. Side messages have 0, and the next hop has 3, since its claim clears all.

        A deadline goes after them, so that a look at the wait proves that they were sent. A dead letter goes before the
        message of the ``on_failed`` stage, which would clear it from the outbox.
        """
        if self is Kind.NEXT:
            return LAST_PHASE
        return 2 if self.is_last else int(self is Kind.DEADLINE)

    @property
    def is_last(self) -> bool:
        """Answer whether the message carries the run on. That goes last: its arrival proves that the rest was sent."""
        return self in (Kind.NEXT, Kind.DEAD, Kind.ASK)

    @property
    def ends_with_its_run(self) -> bool:
        """Answer whether the message is not needed once another run has the object."""
        return self in (Kind.NEXT, Kind.ASK, Kind.DEADLINE)


LAST_PHASE = 3
"""The place of the next hop's message in a dispatch."""

LARGEST_SCHEDULED = 262_144
"""What EventBridge Scheduler takes as the body of a message that it sends later."""

MOST_ATTRIBUTES = 10

_ATTRIBUTE_NAME = late_pattern(r"(?!(?i:aws|amazon)\.)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_LONGEST_ATTRIBUTE_NAME = 256
_LONGEST_ATTRIBUTE_TYPE = 256


ROOM_FOR_EVENT = 1_024
"""Bytes by which an event that a rule sends to a queue is larger than its entry, its keys and texts included."""


def largest(to: Destination) -> int:
    """Return the size limit of the destination's service in bytes, for a message with its attributes or a batch.

    EventBridge takes less than 1 MiB, and the event that it makes of an entry has to fit into a queue.
    """
    match to:
        case Topic():
            return 262_144
        case Queue() | Function():
            return 1_048_576
        case Bus():
            return 1_048_576 - ROOM_FOR_EVENT
        case _:
            assert_never(to)


class Send(NamedTuple):
    """One message to be sent.

    ``id`` is the same whenever the same send is repeated, so that receivers can drop copies. ``delay`` is in whole
    seconds (SQS only). ``group`` is the FIFO message group. ``tenant`` is the group on standard ones, where no
    attribute of flowguard's says it.
    """

    kind: Kind
    to: Destination
    body: str
    id: str
    attributes: Mapping[str, Attribute] = {}
    delay: int = 0
    group: str | None = None
    tenant: str | None = None

    def checked(self) -> Send:
        """Return the same send, if its service takes it.

        This is checked before anything is written, so that no outbox holds a send that its service refuses.

        Raises :class:`RunFailed` or :class:`TooLarge`, naming the destination and what is wrong with the message.
        """
        if problem := self._problem():
            raise RunFailed(f"a message to {self.to} {problem}")
        if not self.fits:
            body = self._body_size()
            raise TooLarge(f"a message to {self.to}", {"body": body, "attributes": self.size - body}, self._largest)
        return self

    @property
    def size(self) -> int:
        """Count the bytes of the text that goes over the wire, as the services count them."""
        match self.to:
            case Bus(_, source, detail_type):
                return len(
                    f"{source}{detail_type}{bus_detail(self.body, self.attributes)}".encode("utf-8", "surrogatepass")
                )
            case Function():
                return len(function_payload(self.id, self.body, self.attributes).encode())
            case Queue() | Topic():
                return self._body_size() + sum(_attribute_size(name, a) for name, a in self.attributes.items())
            case _:
                assert_never(self.to)

    @property
    def fits(self) -> bool:
        """Answer whether its service takes a message of that size."""
        return self.size <= self._largest

    def _body_size(self) -> int:
        return len(self.body) if self.body.isascii() else len(self.body.encode("utf-8", "surrogatepass"))

    @property
    def _largest(self) -> int:
        return LARGEST_SCHEDULED if self.delay > LONGEST_SQS_DELAY.total_seconds() else largest(self.to)

    def _problem(self) -> str | None:
        if not _is_readable(self.to):
            return "cannot be sent: it names no destination"
        if type(self.delay) is not int or self.delay < 0:
            return f"has a delay of {self.delay!r}; it is a whole number of seconds"
        match self.to:
            case Bus() | Function():  # their texts are JSON, which writes every character; an attribute is a field
                return None
            case Queue() | Topic():
                return self._text_problem()
            case _:
                assert_never(self.to)

    def _text_problem(self) -> str | None:
        """Return why SQS and SNS would refuse the message; None where they take it."""
        if not self.body:
            return "has an empty body, which SQS and SNS refuse"
        if character := refused_character(self.body):
            return f"has the character {character!a} in its body, which SQS and SNS refuse; send JSON, which escapes it"
        return attributes_problem(self.attributes)

    def as_json(self) -> list[Any]:
        attributes = {name: [a.type, a.value] for name, a in self.attributes.items()}
        row: list[Any] = [self.kind.value, str(self.to), self.body, self.id, attributes]
        more = [*row, self.delay, self.group]
        if self.tenant:
            return [*more, self.tenant]
        return more if self.delay or self.group else row

    @classmethod
    def from_json(cls, row: list[Any]) -> Send:
        kind, to, body, send_id, attributes, *rest = row
        delay, group, *tenant = rest or (0, None)
        return cls(
            Kind(kind),
            parse_destination(to),
            body,
            send_id,
            {name: Attribute(*pair) for name, pair in attributes.items()},
            delay,
            group,
            *tenant,
        )


class Outbox(NamedTuple):
    """The sends of one commit, in order. ``request_id`` and ``committed_at`` (ms since 1970) are of that commit."""

    request_id: RequestId
    committed_at: int
    sends: tuple[Send, ...]

    def to_text(self) -> str:
        return json.dumps(
            [self.request_id, self.committed_at, [send.as_json() for send in self.sends]], separators=(",", ":")
        )

    @classmethod
    def from_text(cls, text: str) -> Outbox:
        request_id, committed_at, rows = json.loads(text)
        return cls(request_id, committed_at, tuple(Send.from_json(row) for row in rows))

    def left_by_another(self, request_id: RequestId, not_before: int) -> tuple[Send, ...]:
        """Return what the claim of ``request_id`` has to send on behalf of the run it took over.

        That is nothing of the run's own: the message that was claimed was its last send, so the rest had gone before.
        Of another run it is all but its next hop, which the takeover has fenced, and what it wanted to wait for. And
        nothing committed before ``not_before``: no message of that time can still be queued, so its own redelivery had
        its turn, and receivers may have forgotten the id by which they would drop a copy (docs/decisions/0003).
        """
        if self.request_id == request_id or self.committed_at < not_before:
            return ()
        return tuple(send for send in self.sends if not send.kind.ends_with_its_run)

    def left_by_its_wait(self) -> tuple[Send, ...]:
        """Return what a resumed hop has to send on behalf of the hop that waited: its side messages.

        An outbox without a deadline is of no hop that waited, but of the end of this one.
        """
        return tuple(send for send in self.sends if self.is_of_wait and not send.kind.ends_with_its_run)

    @property
    def is_of_wait(self) -> bool:
        """Answer whether it is of a hop that waits."""
        return any(send.kind is Kind.DEADLINE for send in self.sends)


class StoredOutbox:
    """An outbox whose sends lie outside the item. They are read when they are to be sent, and not to decide whether.

    ``read`` answers the text of the whole :class:`Outbox`. It may raise :class:`flowguard.errors.TextGone`.
    """

    def __init__(self, request_id: RequestId, committed_at: int, read: Callable[[], str]) -> None:
        self.request_id = request_id
        self.committed_at = committed_at
        self._read = read
        self._found: Outbox | None = None

    @property
    def sends(self) -> tuple[Send, ...]:
        """Return what :attr:`Outbox.sends` would."""
        return self._whole.sends

    def left_by_another(self, request_id: RequestId, not_before: int) -> tuple[Send, ...]:
        """Return what :meth:`Outbox.left_by_another` would.

        Reads nothing where no text is needed to say that nothing is left.
        """
        if self.request_id == request_id or self.committed_at < not_before:
            return ()
        return self._whole.left_by_another(request_id, not_before)

    def left_by_its_wait(self) -> tuple[Send, ...]:
        """Return what :meth:`Outbox.left_by_its_wait` would."""
        return self._whole.left_by_its_wait()

    @property
    def is_of_wait(self) -> bool:
        """Return what :attr:`Outbox.is_of_wait` would."""
        return self._whole.is_of_wait

    @property
    def _whole(self) -> Outbox:
        """Read the outbox once.

        Without the lock of ``cached_property``, which all outboxes of a process share on Python 3.11.
        """
        if self._found is None:
            self._found = Outbox.from_text(self._read())
        return self._found


def _is_readable(to: Destination) -> bool:
    """Answer whether the destination comes back from the outbox as it was."""
    try:
        return parse_destination(str(to)) == to
    except ValueError:
        return False


def attributes_problem(attributes: Mapping[str, Attribute]) -> str | None:
    """Return why SQS and SNS would refuse a message with these attributes; None where they take it."""
    if len(attributes) > MOST_ATTRIBUTES:
        names = ", ".join(ascii(name[:40])[1:-1] for name in attributes)
        return f"has {len(attributes)} attributes of at most {MOST_ATTRIBUTES}: {names}"
    return next((problem for name, a in attributes.items() if (problem := _attribute_problem(name, a))), None)


def _attribute_size(name: str, attribute: Attribute) -> int:
    """Count the bytes of name, type and value. Binary values count as they are, not as their base64."""
    value = len(attribute.data) if attribute.is_binary else len(attribute.value.encode("utf-8", "surrogatepass"))
    return len(f"{name}{attribute.type}".encode("utf-8", "surrogatepass")) + value


def _attribute_problem(name: str, attribute: Attribute) -> str | None:
    shown = f"the attribute {name[:40]!a}"
    if len(name) > _LONGEST_ATTRIBUTE_NAME or not _ATTRIBUTE_NAME.fullmatch(name):
        return f"has {shown}, and a name is up to 256 of a-z, A-Z, 0-9, '_', '-', '.'"
    if not attribute.value:
        return f"has {shown} without a value, which SQS and SNS refuse; leave it out"
    if attribute.type != "String" and (problem := _type_problem(attribute)):
        return f"has {shown}, {problem}"
    if character := refused_character(attribute.value):
        return f"has the character {character!a} in {shown}, which SQS and SNS refuse"
    return None


def _type_problem(attribute: Attribute) -> str | None:
    """Return why there is no such type, or why the value is not of it. A receiver would refuse the message."""
    if len(attribute.type) > _LONGEST_ATTRIBUTE_TYPE or refused_character(attribute.type):
        return f"whose type is no text of at most {_LONGEST_ATTRIBUTE_TYPE} characters that SQS takes"
    try:
        Attribute.of_sqs_record(attribute.to_sqs_record(), "", "")
    except EnvelopeError:
        return f"whose type {attribute.type[:40]!a} there is not, or whose value is not of it"
    return None
