"""What a commit has to send. It is stored in the run item by the very write that commits, and sent afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from flowguard.attributes import Attribute
from flowguard.destinations import Bus, Destination, Function, Queue, Topic, parse_destination
from flowguard.errors import RunFailed, TooLarge
from flowguard.ids import RequestId


class Kind(StrEnum):
    """Why something is sent. The order of a dispatch follows from it."""

    SIDE = "side"
    COMPLETE = "complete"
    DEAD = "dead"
    NEXT = "next"

    @property
    def is_last(self) -> bool:
        """What carries the run itself goes after everything else: its arrival proves that the rest was sent."""
        return self is Kind.NEXT or self is Kind.DEAD


LARGEST = {Queue: 1_048_576, Topic: 262_144, Function: 1_048_576, Bus: 1_048_576}
"""What the services take, in bytes: a message with its attributes, or a whole batch of them."""

MOST_ATTRIBUTES = 10


@dataclass(frozen=True)
class Send:
    """One message to be sent.

    ``id`` is the same whenever the same send is repeated, so that receivers can drop copies. ``delay`` is in whole
    seconds (SQS only). ``group`` is the FIFO message group.
    """

    kind: Kind
    to: Destination
    body: str
    id: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    delay: int = 0
    group: str | None = None

    def __post_init__(self) -> None:
        """Raises while nothing has been written yet: what no service would take must not get into an outbox."""
        if len(self.attributes) > MOST_ATTRIBUTES:
            raise RunFailed(
                f"a message to {self.to} has {len(self.attributes)} attributes of at most {MOST_ATTRIBUTES}: "
                f"{', '.join(self.attributes)}"
            )
        if self.size > LARGEST[type(self.to)]:
            body = len(self.body.encode())
            sizes = {"body": body, "attributes": self.size - body}
            raise TooLarge(f"a message to {self.to}", sizes, LARGEST[type(self.to)])

    @property
    def size(self) -> int:
        """Bytes as the services count them: the body, and the name, type and value of each attribute."""
        body = len(self.body) if self.body.isascii() else len(self.body.encode())
        return body + sum(len(f"{name}{a.type}{a.value}".encode()) for name, a in self.attributes.items())

    def as_json(self) -> list[Any]:
        attributes = {name: [a.type, a.value] for name, a in self.attributes.items()}
        row: list[Any] = [self.kind.value, str(self.to), self.body, self.id, attributes]
        return [*row, self.delay, self.group] if self.delay or self.group else row

    @classmethod
    def from_json(cls, row: list[Any]) -> Send:
        kind, to, body, send_id, attributes, *rest = row
        delay, group = rest or (0, None)
        return cls(
            Kind(kind),
            parse_destination(to),
            body,
            send_id,
            {name: Attribute(*pair) for name, pair in attributes.items()},
            delay,
            group,
        )


class Outbox(NamedTuple):
    """The sends of one commit, in order, and which run and moment they belong to (ms since 1970)."""

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
        """What the claim of ``request_id`` has to send on behalf of the run it took over.

        Nothing of the run's own: the message that was claimed was its last send, so the rest had gone before. Of
        another run all but its next hop, which the takeover has fenced. And nothing committed before ``not_before``:
        no message of that time can still be queued, so its own redelivery had its chance, and receivers may have
        forgotten the id by which they would drop a copy (docs/decisions/0003).
        """
        if self.request_id == request_id or self.committed_at < not_before:
            return ()
        return tuple(send for send in self.sends if send.kind is not Kind.NEXT)
