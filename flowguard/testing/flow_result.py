"""What a test sees after its flows have run.

That is verdicts, run items, tables and messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.errors import FlowguardError
from flowguard.events import EventType
from flowguard.sim.delivered import Delivered
from flowguard.testing.story import story
from flowguard.text.printable import bounded
from flowguard.wire.attributes import Attribute

_LONGEST_NAME: Final = 100
_MOST_TOLD: Final = 60
"""Deliveries and runs that a failing test prints, all of them."""
_OF_MORE: Final = 20
"""Of more than those it prints these: the first and the last deliveries, and the failed runs first."""


class NotThere(FlowguardError):
    """A test asks for what is not there or is ambiguous. Says what there is instead."""

    def __init__(self, what: str, there: Sequence[str], fix: str = "") -> None:
        super().__init__(what, tuple(there), fix)
        self.what = what
        self.there = tuple(there)
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}; there is {', '.join(self.there) or 'none at all'}{self.fix and f'. {self.fix}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """A run item in short. ``state`` and ``result`` are read from JSON, ``error`` is what a failed run ended with."""

    flow: str
    object_id: str
    request_id: str
    status: str
    stage: str
    hop: int
    state: Any = None
    result: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message that was sent. ``body`` is read where it is JSON, ``delay`` is in seconds.

    A receiver drops copies by their ``id``. ``group`` is the message group: on a standard queue the tenant.
    """

    to: str
    body: Any
    id: str | None
    delay: int = 0
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult:
    """What one ``run()`` did and left.

    ``deliveries`` and messages are of this ``run()``; runs and tables are as it left them. Asked like the view of an
    exploration: ``item``, ``table``, ``sent``, ``runs``. As text it is the time line.
    """

    deliveries: tuple[Delivered, ...]
    tables: Mapping[str, tuple[Mapping[str, Any], ...]]
    messages: tuple[SentMessage, ...]
    dead_letters: tuple[SentMessage, ...]
    ends: tuple[RunEnd, ...]
    start: int
    destinations: frozenset[str] = frozenset()
    """The names of the queues, topics, buses and functions that there are."""
    earlier: tuple[SentMessage, ...] = ()
    """The messages that were sent before."""

    @property
    def verdicts(self) -> list[str | None]:
        """Return the verdicts of the claims in the order of deliveries: ``["CLAIMED", "CLAIMED", "DONE"]``."""
        return [delivery.verdict for delivery in self.deliveries]

    def runs(self) -> list[RunEnd]:
        """Return each object's last run."""
        return list(self.ends)

    def run(self, object_id: str, flow: str | None = None) -> RunEnd:
        """Return the object's last run. ``flow`` is the flow's name, where several have run for the object.

        Raises :class:`NotThere`.
        """
        ends = [end for end in self.ends if end.object_id == object_id and flow in (None, end.flow)]
        if len(ends) != 1:
            problem = f"{len(ends)} flows have run for it" if ends else "nothing has run for it"
            there = [f"{end.flow} of {end.object_id}" for end in ends or self.ends]
            raise NotThere(f"run({object_id!r}): {problem}", there, "Name the flow as well" if ends else "")
        return ends[0]

    def table(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return all items of a table as plain values. Raises :class:`NotThere`."""
        if name not in self.tables:
            raise NotThere(
                f"there is no table {name!r}", sorted(self.tables), f'Make it: flow_runner.table("{name}", "its key")'
            )
        return self.tables[name]

    def item(self, table: str, **key: Any) -> Mapping[str, Any] | None:
        """Return the item with these attributes: ``result.item("stock", sku="tea")``. None where there is none."""
        return next((item for item in self.table(table) if key.items() <= item.items()), None)

    def sent(self, to: str | Destination) -> list[SentMessage]:
        """Return what was sent to this queue, topic, bus or function. Copies of the same id count once.

        ``to`` is a name, an ARN, a queue's URL or a destination. Raises :class:`NotThere` for one that does not exist.
        """
        name = _short_name(to)
        if name not in self.destinations:
            fix = f'Where nothing may be sent to it: flow_runner.queue("{bounded(name, _LONGEST_NAME)}")'
            raise NotThere(f"sent({to!r}): there is no such queue or topic", sorted(self.destinations), fix)
        by_id: dict[object, SentMessage] = {}
        for number, message in enumerate(self.messages):
            if _short_name(message.to) == name:
                by_id.setdefault(number if message.id is None else message.id, message)
        return list(by_id.values())

    def copies(self) -> list[SentMessage]:
        """Return what was sent once more under the same id, after this ``run()`` or an earlier one sent it first.

        Nothing where no worker died, no record came twice, and no newer request took over a run: that sends the last
        messages of the run before it again.
        """
        known = set(map(_identity, self.earlier))
        copies = []
        for message in self.messages:
            identity = _identity(message)
            if message.id is not None and identity in known:
                copies.append(message)
            known.add(identity)
        return copies

    def count(self, *events: EventType) -> int:
        """Count the events of these types: ``result.count(EventType.FENCED)``."""
        return sum(delivery.events.get(event, 0) for delivery in self.deliveries for event in events)

    def __str__(self) -> str:
        ends = sorted(self.ends, key=lambda end: end.error is None) if len(self.ends) > _MOST_TOLD else self.ends
        return "\n".join(
            [
                *_with_ends(self.deliveries, lambda some: story(some, self.start)),
                *map(_line, ends if len(ends) <= _MOST_TOLD else ends[:_OF_MORE]),
                *([f"  … {len(ends) - _OF_MORE:,} more runs"] if len(ends) > _MOST_TOLD else []),
            ]
        )


def _identity(message: SentMessage) -> tuple[str, str | None, str]:
    return message.to, message.id, repr((message.body, sorted(message.attributes.items())))


def _with_ends(rows: Sequence[Delivered], lines_of: Callable[[Sequence[Delivered]], list[str]]) -> list[str]:
    """Return the lines of all rows, or of the first and the last ones where they are very many."""
    if len(rows) <= _MOST_TOLD:
        return lines_of(rows)
    half = _OF_MORE // 2
    return [*lines_of(rows[:half]), f"  … {len(rows) - _OF_MORE:,} more deliveries …", *lines_of(rows[-half:])]


def _short_name(to: str | Destination) -> str:
    """Return the bare name of a destination, as the one that an ARN or a URL ends with."""
    match to:
        case Queue():
            return to.short_name
        case Topic():
            text = to.arn
        case Function() | Bus():
            text = to.name
        case str():
            text = to
        case _:
            assert_never(to)
    return name_at_end(text)


def name_at_end(text: str) -> str:
    """Return the name with which an ARN or a URL ends. A bare name stays."""
    return text.rpartition("/")[2].rpartition(":")[2]


def _line(end: RunEnd) -> str:
    ended = end.error if end.error is not None else "" if end.result is None else json.dumps(end.result)
    return f"  {end.flow} of {end.object_id}: {end.status} at {end.stage}, hop {end.hop}{ended and f': {ended}'}"
