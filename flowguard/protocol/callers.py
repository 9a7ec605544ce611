"""Those who are answered when a run of another request ends, and the ends that they are answered with. Values only.

::

    claim of a first hop    callers: {term}                        a list of its own until the run ends
    a request attaches      callers: {term, held: {caller}}        on condition that the list is still the same
                            a caller that is there stays as it was, one who wants the answer elsewhere is another
    … and one too many      row caller#<term>#<key>, then callers: {term, held, rows}
    the commit of the end   answered: {term, held, rows}           the write that ends the run closes the list
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256

from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.short_rows import short_row
from flowguard.startup.named_tuple import NamedTuple
from flowguard.startup.value import Value
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, id_of

MOST_HELD = 16
"""Callers that a run item holds. More of them are rows of the same partition."""

LARGEST_HELD = 512
"""Bytes of a caller in the run item. A larger one is a row."""

LARGEST_ASKER = 1_536
"""Bytes of a claim's own request in the run item, for the case that another takes the object from it."""

_KEY = 16
"""Characters of a digest that name a request among those of one object."""


class Caller(NamedTuple):
    """A request that is answered through its own ``reply_to``, whichever run answers it."""

    request_id: RequestId
    requested_at: int
    reply_to: str
    answer_to: str | None = None
    redrive: int = 0
    carried: Mapping[str, Attribute] = {}
    depth: int = 0
    tenant: str | None = None

    @classmethod
    def of(cls, message: Message) -> Caller | None:
        """Return the caller that a request is. None for a request that wants no answer."""
        if message.reply_to is None:
            return None
        m = message
        return cls(m.request_id, m.requested_at, message.reply_to, m.answer_to, m.redrive, m.carried, m.depth, m.tenant)

    @classmethod
    def asking(cls, message: Message) -> Caller | None:
        """Return what a claim notes of its own request. The carried attributes of one that is too long are left out."""
        caller = cls.of(message)
        if caller is None or len(caller.to_text().encode()) <= LARGEST_ASKER:
            return caller
        shorter = caller._replace(carried={})
        return shorter if len(shorter.to_text().encode()) <= LARGEST_ASKER else None

    @property
    def key(self) -> str:
        """Return what names the caller in a list.

        Anybody may repeat a request's id. So a request for an answer elsewhere, or as another, is another caller:
        neither takes the other's place, whichever comes first. Carried attributes differ among copies of one message.
        """
        answer = [self.reply_to, self.answer_to, self.redrive, self.depth]
        return _digest(json.dumps([self.request_id, self.requested_at, *answer], separators=(",", ":")))

    def reply_id(self, flow: str, object_id: ObjectId) -> str:
        """Return the id of the answer. It is the same whichever run answers, however often; a redrive has another."""
        first = Message(
            flow=flow,
            stage="",
            version=1,
            object_id=object_id,
            request_id=self.request_id,
            requested_at=self.requested_at,
            body="",
            redrive=self.redrive,
        )
        return id_of(IdKind.END, first)

    def asks_as(self, text: str | None) -> bool:
        """Answer whether the stored caller wants the same answer, at the same place: then this one is its copy."""
        noted = None if text is None else Caller.from_text(text)
        return noted is not None and (noted.reply_to, noted.answer_to) == (self.reply_to, self.answer_to)

    def to_text(self) -> str:
        """Return the JSON text that is stored."""
        carried = {name: [a.type, a.value] for name, a in self.carried.items()}
        row = [self.request_id, self.requested_at, self.reply_to, self.answer_to, self.redrive, carried]
        return json.dumps([*row, *short_row([self.depth, self.tenant])], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Caller:
        """Read what :meth:`to_text` wrote."""
        request_id, requested_at, reply_to, answer_to, redrive, carried, *more = json.loads(text)
        read = {name: Attribute(*pair) for name, pair in carried.items()}
        return cls(request_id, requested_at, reply_to, answer_to, redrive, read, *more)


def caller_key(request_id: RequestId, requested_at: int) -> str:
    """Return what names the request that was carried out. The same id with another time is another request."""
    return asker_key(RequestId(f"{requested_at} {request_id}"))


def listed_key(message: Message) -> str:
    """Return what names a request in the lists of its object. One that wants no answer is in none."""
    caller = Caller.of(message)
    return caller_key(message.request_id, message.requested_at) if caller is None else caller.key


@lru_cache(maxsize=128)
def asker_key(request_id: RequestId) -> str:
    """Return what names the request of a run: while it has the object, its latest time counts.

    A hop asks for its own key several times.
    """
    return _digest(request_id)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY]


class Callers(NamedTuple):
    """A list of callers. ``term`` names it, from the claim that began it to the commit that closed it.

    ``held`` are the texts of the callers in the item, by their keys. ``rows`` says that there are more in rows.
    """

    term: str
    held: Mapping[str, str] = {}
    rows: bool = False

    @property
    def is_full(self) -> bool:
        """Answer whether the item holds no more of them."""
        return len(self.held) >= MOST_HELD

    @property
    def in_item(self) -> tuple[Caller, ...]:
        """Return the callers that the item holds, in an order that is always the same."""
        return tuple(Caller.from_text(self.held[key]) for key in sorted(self.held))


class StoredEnd(NamedTuple):
    """The end of a run as its callers get it. ``result`` is JSON text. ``error`` is there where the run has failed.

    ``status`` is COMPLETED, FAILED, or SUPERSEDED for a run that a newer request took over.
    """

    request_id: RequestId
    committed_at: int
    status: str
    result: str | None = None
    error: str | None = None


class LeftEnd(Value):
    """The end of the run before, with those that may not have been answered yet. Only the claim of a first hop has it.

    ``read`` may raise :class:`flowguard.errors.TextGone`.
    """

    request_id: RequestId
    committed_at: int
    callers: Callers
    read: Callable[[], StoredEnd]

    def __eq__(self, other: object) -> bool:
        return self._known == other._known if isinstance(other, LeftEnd) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._known)

    def __repr__(self) -> str:
        return f"LeftEnd{self._known!r}"

    @property
    def _known(self) -> tuple[RequestId, int, Callers]:
        return self.request_id, self.committed_at, self.callers
