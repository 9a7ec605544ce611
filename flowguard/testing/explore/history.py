"""What one schedule led to: calls, deliveries, versions of run items, messages, and the state at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flowguard.events import Event, Happening
from flowguard.run import RunItem
from flowguard.testing.explore.posted import Posted
from flowguard.testing.explore.schedule import Kind, Schedule
from flowguard.testing.explore.site import Site

READS: Final = ("Get", "Query", "Scan", "BatchGet", "List", "Describe", "Receive", "Head", "TransactGet")


@dataclass(slots=True)
class Made:
    """A call. ``applied`` says how often the service carried it out, ``error`` the code of its last refusal, ``held``
    how its worker was held up before it."""

    number: int
    at: int
    worker: int
    service: str
    operation: str
    target: str
    site: Site
    fault: Kind | None = None
    applied: int = 0
    error: str | None = None
    held: tuple[Kind, ...] = ()

    @property
    def is_read(self) -> bool:
        return self.operation.startswith(READS)


@dataclass(slots=True)
class Worked:
    """A delivery and what its worker did. ``choices`` is how many other records waited when this one was chosen."""

    worker: int
    at: int
    queue: str | None
    record: int
    receive: int
    others: int
    given_up: bool
    stage: str | None = None
    hop: int | None = None
    told: list[Happening] = field(default_factory=list)
    acked: bool = False
    died: bool = False
    why: str | None = None
    calls: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Version:
    """A run item as a write left it; ``item`` is None where it is gone."""

    key: str
    call: int
    worker: int
    item: RunItem | None


@dataclass(frozen=True, slots=True)
class Noted:
    """A line for the time line that is no call: a worker held up, going on, a record delivered twice."""

    at: int
    after_call: int
    worker: int | None
    text: str


Items = Mapping[str, tuple[Mapping[str, Any], ...]]
"""The user's tables: their items as plain values."""


@dataclass(slots=True)
class History:
    """Filled while a schedule runs. ``requests`` are the ids that came in at a first hop; times are ms since 1970."""

    schedule: Schedule
    start: int
    calls: list[Made] = field(default_factory=list)
    deliveries: list[Worked] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    posted: list[Posted] = field(default_factory=list)
    notes: list[Noted] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    tables: Items = field(default_factory=dict)
    at_rest: bool = True

    def latest(self) -> dict[str, RunItem]:
        """The run items at the end, by key."""
        found = {version.key: version.item for version in self.versions}
        return {key: item for key, item in found.items() if item is not None}

    def struck(self) -> list[Made]:
        """The calls at which something went wrong."""
        return [made for made in self.calls if made.fault is not None]

    def told(self, *events: Event) -> Iterable[tuple[Worked, Happening]]:
        return ((one, happening) for one in self.deliveries for happening in one.told if happening.event in events)
