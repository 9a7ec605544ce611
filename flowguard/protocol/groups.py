"""Groups of requests. Values and pure decisions.

Shards hold the names of requests, and texts name each of them.

::

    run item                 waiting {"0", "1", …}     the shards that are open: a wait like any other
    shard 0                  waiting {"0", … "98"}     its requests without an answer
    rows of shard 0          a request each, and its answer
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, Final

from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute

MOST_IN_SHARD: Final = 99
"""Requests of a shard: with the shard itself they are a hundred items, four BatchWriteItems."""

MOST_IN_GROUP: Final = 100_000
"""Requests of a group."""

SHARDS_A_TURN: Final = 10
"""How many shards' requests are sent by one message of the group, before the next message goes on."""

MOST_PARTS: Final = 50
"""Invocations that save the requests of a group, one after another. The key of each is in the run item."""

LONGEST_GROUP_NAME: Final = 256
"""Characters of a request's name."""

GROUP: Final = "group"
"""The key of the ``flowguard`` attribute under which a group's message names the first request that it asks."""

_OF_PART: Final = "\n"
"""What the name begins with under which a hop remembers a part. Names of ``step.once`` are printable."""

_BINDING: Final = "~"
"""What stands in a key before the digest of where its requests went."""

_MEMBER: Final = late_pattern(r"group\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]?)")
_REQUEST_ID: Final = late_pattern(r"(.+\.group)\.([0-9]+\.[0-9]+)", re.DOTALL)


class Member(NamedTuple):
    """One request of a group: its shard, and its number there. It is the same in each attempt of its hop."""

    shard: int
    number: int

    @property
    def text(self) -> str:
        """Return the name under which its answer is awaited. No other wait has such a name."""
        return f"{GROUP}.{self.shard}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> Member | None:
        """Read what :attr:`text` wrote. None for any other text."""
        match = _MEMBER.fullmatch(text)
        if match is None or int(match[2]) >= MOST_IN_SHARD:
            return None
        return cls(int(match[1]), int(match[2]))


def request_of(awaited_id: str) -> tuple[str, Member] | None:
    """Return the id of the group and the request of which this is the request id. None for any other."""
    match = _REQUEST_ID.fullmatch(awaited_id)
    if match is None:
        return None
    member = Member.parse(f"{GROUP}.{match[2]}")
    return None if member is None else (match[1], member)


def group_key(*parts: object) -> str:
    """Return the key of the group that one call of a handler saves. No two calls may share their parts.

    A worker that stalls, and goes on to save its requests when another one has asked its own, harms nothing so. The run
    item alone says which key is the group's.
    """
    return f"g-{hashlib.sha256(repr(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


class SavedPart(NamedTuple):
    """What one invocation has saved of a group: its shards up to ``end``, from where the part before it ends.

    ``key`` is the invocation's own. ``digest`` is of all requests before ``end``. ``begun_at`` is when the first part
    was begun, in ms.
    """

    key: str
    end: int
    digest: str
    begun_at: int

    @property
    def requests(self) -> int:
        """Return how many requests come before its end: only the last shard of a group is not full."""
        return self.end * MOST_IN_SHARD

    def to_text(self) -> str:
        """Return what its hop remembers."""
        return json.dumps(self)

    @classmethod
    def from_text(cls, text: str) -> SavedPart:
        """Read what :meth:`to_text` wrote."""
        return cls(*json.loads(text))


def part_name(requested_at: int, redrive: int, number: int) -> str:
    """Return the name under which a hop remembers this part. A redrive starts over, and so does another run."""
    return f"{_OF_PART}{requested_at}.{redrive}.{number}"


def is_of_part(name: str) -> bool:
    """Answer whether a hop remembers a part under the name, and nothing of its handler."""
    return name.startswith(_OF_PART)


def whole_key(parts: Sequence[SavedPart], last: str) -> str:
    """Return the key of a group that these parts, and then the rest under ``last``, were saved for.

    ::

        g-1<10 g-2<25 g-3       shards 0 to 9 are under g-1, 10 to 24 under g-2, the others under g-3
    """
    return " ".join([*(f"{part.key}<{part.end}" for part in parts), last])


def key_of(key: str, shard: int) -> str:
    """Return the key under which this shard of a group was saved."""
    *parts, last = key.split(" ")
    for part in parts:
        shard_key, _, end = part.partition("<")
        if shard < int(end):
            return shard_key
    return last


def bound_key(key: str, to: str, flow: str, stage: str) -> str:
    """Return the key of a group with a digest of the queue, flow and stage to which its requests go."""
    return f"{key}{_BINDING}{_digest_of(to, flow, stage)}"


def _digest_of(to: str, flow: str, stage: str) -> str:
    return hashlib.sha256(json.dumps([to, flow, stage]).encode()).hexdigest()[:16]


class GroupRequest(NamedTuple):
    """A request as its row holds it.

    ``object_id`` and ``request_id`` are of a request to another flow.
    """

    name: str
    body: str
    object_id: str = ""
    request_id: str = ""


class NewShard(NamedTuple):
    """A shard to be saved, of the group with the ``key``.

    Of its requests ``spare`` may stay without an answer. ``expires_at`` is in ms. ``asker`` is the object whose
    run asks them: by it they are found when that is to be forgotten.
    """

    flow: str
    key: str
    number: int
    spare: int
    requests: Sequence[GroupRequest]
    expires_at: int
    asker: str = ""


class GroupPlan(NamedTuple):
    """What all requests of a group have in common. ``moment`` is when they are asked, in ms.

    ``flow``, ``stage`` and ``version`` are of another flow; empty of a party outside.
    """

    key: str
    size: int
    to: str
    moment: int
    flow: str = ""
    stage: str = ""
    version: int = 1
    attributes: Mapping[str, Attribute] = {}
    is_sealed: bool = False
    """The bodies of its requests are sealed, as they travel."""

    @property
    def is_bound(self) -> bool:
        """Answer whether each key of its requests says that they went there, to that stage of that flow.

        The rows of these requests are under no other key, so who names them cannot name another queue.
        """
        whose = f"{_BINDING}{_digest_of(self.to, self.flow, self.stage)}"
        return all(part.partition("<")[0].endswith(whose) for part in self.key.split(" "))

    @property
    def shards(self) -> int:
        """Return how many shards hold the requests."""
        return -(-self.size // MOST_IN_SHARD)

    @property
    def names(self) -> list[str]:
        """Return the names of the shards, as the run item holds them."""
        return [str(shard) for shard in range(self.shards)]

    def as_json(self) -> list[Any]:
        """Return what stands in the plan of the wait."""
        attributes = {name: [a.type, a.value] for name, a in self.attributes.items()}
        row = [self.key, self.size, self.to, self.moment, self.flow, self.stage, self.version, attributes]
        return [*row, True] if self.is_sealed else row  # a release that knows no codec reads no plan with that

    @classmethod
    def from_json(cls, row: list[Any]) -> GroupPlan:
        """Read what :meth:`as_json` wrote."""
        key, size, to, moment, flow, stage, version, attributes, *sealed = row
        parsed = {name: Attribute(*pair) for name, pair in attributes.items()}
        return cls(key, size, to, moment, flow, stage, version, parsed, bool(sealed))


class Shard(NamedTuple):
    """A shard as its item holds it.

    ``waiting`` are the numbers of the requests without an answer. It is over when at most ``spare`` of them are left.
    A ``closed`` one takes no more answers: the run went on.
    """

    size: int
    spare: int
    waiting: frozenset[str]
    closed: bool = False

    @property
    def is_over(self) -> bool:
        """Answer whether enough of its requests have an answer."""
        return len(self.waiting) <= self.spare


def spare_of(size: int, quorum: float) -> int:
    """Return how many requests of a shard may stay without an answer, where a share of ``quorum`` is enough."""
    return size - ceil(Fraction(str(quorum)) * size)
