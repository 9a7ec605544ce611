"""The view that a user's own invariant receives: tables and messages as they are at the end of a schedule."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from flowguard.sim.posted_messages import Posted
from flowguard.testing.explorer.record.history import BUCKETS, History
from flowguard.testing.explorer.record.outside_call import OF_PARTIES, OF_SERVICES

Same: TypeAlias = Mapping[str, str]
"""The field of a body by which a receiver drops copies, by queue, topic, bus or function. ``{"emails": "id"}``"""


@dataclass(frozen=True, slots=True)
class ViewedMessage:
    """A sent message.

    ``body`` is parsed where it is JSON. A receiver drops copies by ``id``; without one each copy counts.
    """

    to: str
    body: Any
    id: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """A run item in short."""

    flow: str
    object_id: str
    request_id: str
    status: str


class View:
    """The end of one schedule."""

    def __init__(self, history: History, same: Same | None = None) -> None:
        self._history = history
        self._same = same or {}

    def table(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return all items of a table as plain values."""
        return self._history.tables.get(name, ())

    def item(self, table: str, **key: Any) -> Mapping[str, Any] | None:
        """Return the item with these attributes: ``view.item("totals", day="2026-01-01")``."""
        return next((item for item in self.table(table) if key.items() <= item.items()), None)

    def objects(self, bucket: str) -> Mapping[str, str]:
        """Return the bodies of a bucket's objects by their keys."""
        return {item["key"]: item["body"] for item in self.table(f"{BUCKETS}{bucket}")}

    def outside(self, party: str) -> Sequence[Mapping[str, Any]]:
        """Return what was done at a party outside, or by calls of a service of AWS such as ``ses``.

        What was asked under the same key is there once, and what changes nothing is not.
        """
        return (*self.table(f"{OF_PARTIES}{party}"), *self.table(f"{OF_SERVICES}{party}"))

    def sent(self, *to: str) -> list[ViewedMessage]:
        """Return what receivers of these queues, topics or buses have got, in the order of sending.

        Copies of the same id are there once.
        """
        by_id: dict[Any, ViewedMessage] = {}
        for number, posted in enumerate(self._history.posted):
            if posted.name in to:
                message_id = posted.id if posted.id is not None else id_in_body(posted, self._same)
                message = ViewedMessage(posted.name, body_of(posted), message_id)
                by_id.setdefault(number if message_id is None else (posted.name, message_id), message)
        return list(by_id.values())

    def runs(self) -> list[Run]:
        """Return each run item's last run."""
        runs = []
        for key, item in sorted(self._history.latest().items()):
            _, flow, object_id = key.split("#", 2)
            runs.append(Run(flow, object_id, item.request_id, item.status.value))
        return runs


def body_of(message: Posted) -> Any:
    """Return the body parsed where it is JSON."""
    try:
        return json.loads(message.body)
    except ValueError:
        return message.body


def id_in_body(message: Posted, same: Same) -> str | None:
    """Return the id that a message has in the field of its body which ``same`` names."""
    if (name := same.get(message.name)) is None:
        return None
    body = body_of(message)
    value = body.get(name) if isinstance(body, dict) else None
    return None if value is None else f"{name} {value}"
