"""What a run waits for, and what an answer does to it. Values and pure decisions; the store asks DynamoDB the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum

from flowguard.protocol.groups import GroupPlan
from flowguard.protocol.short_rows import short_row
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute

DEADLINE = "deadline"
"""The key under which a deadline names its wait in the ``flowguard`` attribute, and its moment in its body."""


ALL_WHO_WAITED = "those who waited"
"""Who uses an answer for which several waited when it came, in place of one wait."""

ALL_HAVE_IT = "those who waited have it"
"""The same, when each of them has been asked: a copy of its message is for nobody."""


class WaitEnd(StrEnum):
    """How a wait ended."""

    ANSWERED = "answered"
    TIMED_OUT = "timed out"
    FAILED = "failed"


class Child(NamedTuple):
    """The request by which a run has asked another flow, and which is cancelled with the run.

    ``to`` is where it was sent. ``requested_at`` is in ms.
    """

    to: str
    flow: str
    stage: str
    version: int
    object_id: str
    request_id: str
    requested_at: int


class WaitPlan(NamedTuple):
    """What the resumed hop needs to know, and no answer changes.

    ``names`` are all that is awaited, with the id of each that arrives under one. ``stage`` is where the answers go,
    ``on_timeout`` and ``on_error`` the stages for the other ends. The rest is of the waiting hop's message.
    """

    stage: str
    names: Mapping[str, str | None]
    asked: frozenset[str] = frozenset()
    """The names that other flows answer. Only an ask brings them the address: an answer proves that what stood before
    the ask was sent. The id that a party outside answers under may be known without its ask."""
    early: frozenset[str] = frozenset()
    """The names whose answers may have been kept before the commit."""
    on_timeout: str | None = None
    on_error: str | None = None
    reply_to: str | None = None
    answer_to: str | None = None
    carried: Mapping[str, Attribute] = {}
    children: Mapping[str, Child] = {}
    """Those of :attr:`asked` that are cancelled with the run."""
    trace: str | None = None
    depth: int = 0
    group: GroupPlan | None = None
    """The group that is awaited, in place of names. Then the wait's names are those of its shards."""
    looks: bool = False
    """The deadline's first message comes at once, and its look proves that the side messages were sent."""
    tenant: str | None = None
    cancels_group: bool = False
    """The runs that the group asks for are cancelled with the run."""

    @property
    def awaited(self) -> list[str]:
        """Return the names that the item holds when the wait begins."""
        return list(self.names) if self.group is None else self.group.names

    def stage_at(self, end: WaitEnd) -> str:
        """Return the stage at which the run goes on."""
        other = {WaitEnd.TIMED_OUT: self.on_timeout, WaitEnd.FAILED: self.on_error}.get(end)
        return self.stage if other is None else other

    def to_text(self) -> str:
        """Return the JSON text that is stored."""
        carried = {name: [a.type, a.value] for name, a in self.carried.items()}
        row = [self.stage, dict(self.names), sorted(self.asked), sorted(self.early), self.on_timeout, self.on_error]
        group = None if self.group is None else self.group.as_json()
        rest = [self.trace, self.depth, self.looks, self.tenant, self.cancels_group]
        more = short_row([dict(self.children), group, *rest])
        return json.dumps([*row, self.reply_to, self.answer_to, carried, *more], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> WaitPlan:
        """Read what :meth:`to_text` wrote."""
        stage, names, asked, early, on_timeout, on_error, reply_to, answer_to, carried, *more = json.loads(text)
        children = more[0] if more else {}
        return cls(
            stage,
            names,
            frozenset(asked),
            frozenset(early),
            on_timeout,
            on_error,
            reply_to,
            answer_to,
            carried={name: Attribute(*pair) for name, pair in carried.items()},
            children={name: Child(*row) for name, row in children.items()},
            group=None if not more[1:] or more[1] is None else GroupPlan.from_json(more[1]),
            trace=more[2] if more[2:] else None,
            depth=more[3] if more[3:] else 0,
            looks=bool(more[4:] and more[4]),
            tenant=more[5] if more[5:] else None,
            cancels_group=bool(more[6:] and more[6]),
        )


class Late(NamedTuple):
    """The names that had no answer when their hop's wait timed out. It stays in the item when the wait is gone."""

    hop: int
    names: frozenset[str]
    group: str | None = None
    """The key of the group whose shards these are."""


class GivenAnswer(NamedTuple):
    """An answer as it is kept. ``text`` is JSON; of one that ``failed``, the error."""

    text: str
    failed: bool = False


class EarlyAnswer(NamedTuple):
    """An answer that came before its wait. ``by`` names its message; copies of that have the same.

    ``names`` are those that its sender may answer; none stand for all. ``waited`` names who waited when it came, and
    may have it yet.
    """

    answer: GivenAnswer
    by: str = ""
    names: frozenset[str] = frozenset()
    waited: str = ""

    def is_for(self, name: str) -> bool:
        """Answer whether its sender may answer what is awaited under this name."""
        return not self.names or name in self.names


class Kept(NamedTuple):
    """The store's reply to an answer that may be early.

    ``is_new`` says that it is kept now, and was not before. ``replaces`` says that an older one goes that nobody used.
    Of a copy, ``used_by`` names who has used it and ``waited`` who waited when it came. ``is_outdated`` says that a
    newer one is kept in its place, ``is_beside`` that another one is, for other names.
    """

    is_new: bool
    replaces: bool = False
    used_by: str = ""
    waited: str = ""
    is_outdated: bool = False
    is_beside: bool = False

    @property
    def stands(self) -> bool:
        """Answer whether the answer is used or not kept."""
        return bool(self.used_by) or self.is_outdated or self.is_beside


class Use(NamedTuple):
    """The use of an answer that is kept for an id. ``by`` names its message, ``user`` the wait that uses it up."""

    id: str
    by: str
    user: str


class Look(NamedTuple):
    """A deadline's message that comes too early, and is to be sent again. Times in ms.

    ``by`` names the message, the same at each delivery. ``since`` is when it was sent. Whatever looked before
    ``long_ago`` and has no successor is lost.
    """

    by: str
    since: int
    now: int
    long_ago: int

    @property
    def at(self) -> int:
        """Return when it looks. That is after it was sent, whatever the clocks say."""
        return max(self.now, self.since + 1)


class Wait(NamedTuple):
    """A wait as the run item holds it. Times in ms.

    ``waiting`` are the names without an answer. The wait is over when at most ``spare`` of them are left; each failure
    that its stage does not take as an answer lowers ``spare``, and below zero the wait has failed. ``room`` are the
    bytes left for answers. ``answers`` and ``plan`` are read only where they are needed, and empty elsewhere;
    ``answered`` names the answers in any case. ``size`` is what all of it takes in the item. ``looked_at`` is when the
    deadline's message last came too early, and ``looked_by`` names that message.

    ``group`` is the key of the group that is awaited; then the names are those of its shards. ``asked`` is how many of
    them have been asked. ``asking`` is how many may have been asked, of a group that is cancelled with its run.
    """

    waiting: frozenset[str]
    spare: int
    deadline: int
    timed_out: bool = False
    room: int = 0
    answered: frozenset[str] = frozenset()
    answers: Mapping[str, GivenAnswer] = {}
    plan: WaitPlan | None = None
    size: int = 0
    looked_at: int = 0
    looked_by: str = ""
    group: str | None = None
    asked: int = 0
    asking: int = 0

    @property
    def end(self) -> WaitEnd | None:
        """Return how the wait ended. None while it goes on."""
        if self.timed_out:
            return WaitEnd.TIMED_OUT
        if self.spare < 0:
            return WaitEnd.FAILED
        return WaitEnd.ANSWERED if len(self.waiting) <= self.spare else None

    def after(self, name: str, *, counts: bool) -> Wait:
        """Return the wait after an answer to ``name``. One that does not count is a failure that was not asked for."""
        spare = self.spare if counts else self.spare - 1
        return self._replace(waiting=self.waiting - {name}, spare=spare, answered=self.answered | {name})

    def looked(self, look: Look) -> Wait:
        """Return the wait after a look."""
        return self._replace(looked_at=look.at, looked_by=look.by)
