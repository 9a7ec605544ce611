"""What an invariant of a user's own is given: tables and messages as they are at the end of a schedule."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowguard.testing.explorer.history import History
from flowguard.testing.explorer.posted import Posted


@dataclass(frozen=True, slots=True)
class SentMessage:
    """``body`` is read where it is JSON. ``id`` is by what a receiver drops copies; without one each copy counts."""

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

    def __init__(self, history: History) -> None:
        self._history = history

    def table(self, name: str) -> Sequence[Mapping[str, Any]]:
        """All items of a table, as plain values."""
        return self._history.tables.get(name, ())

    def item(self, table: str, **key: Any) -> Mapping[str, Any] | None:
        """The item with these attributes: ``view.item("totals", day="2026-01-01")``."""
        return next((item for item in self.table(table) if key.items() <= item.items()), None)

    def sent(self, to: str) -> list[SentMessage]:
        """What a receiver of this queue, topic or bus has got, copies of the same id once."""
        found: dict[Any, SentMessage] = {}
        for number, one in enumerate(self._history.posted):
            if one.name == to:
                found.setdefault(number if one.id is None else one.id, SentMessage(to, body_of(one), one.id))
        return list(found.values())

    def runs(self) -> list[Run]:
        """Each run item's last run."""
        found = []
        for key, item in sorted(self._history.latest().items()):
            _, flow, object_id = key.split("#", 2)
            found.append(Run(flow, object_id, item.request_id, item.status.value))
        return found


def body_of(message: Posted) -> Any:
    """The body, read where it is JSON."""
    try:
        return json.loads(message.body)
    except ValueError:
        return message.body
