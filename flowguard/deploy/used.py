"""The resources that a stage uses, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from flowguard.destinations import Destination
from flowguard.flow import AnyFlow


class SourcePlace(NamedTuple):
    """A line of source that cannot be read, and why."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


class DatabaseUse(NamedTuple):
    """A database that is reached by the Data API of RDS: the ARNs of its cluster, and of the secret with its user."""

    cluster: str
    secret: str


class WaitUse(NamedTuple):
    """A wait that a handler may return. ``within`` is None where it is not written as a value.

    ``on_timeout`` and ``on_error`` are the stages at which it may go on then.
    """

    stage: str
    names: tuple[str, ...]
    within: timedelta | None
    on_timeout: tuple[str, ...] = ()
    on_error: tuple[str, ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        """Return each stage at which the run may go on."""
        return (self.stage, *self.on_timeout, *self.on_error)


@dataclass(frozen=True)
class Uses:
    """The resources that the handler of a stage uses.

    ``tables`` are actions of DynamoDB by table, ``databases`` those of the Data API. ``sends`` are destinations of
    messages, ``asks`` those of questions. ``asks_flows`` are flows whose result is awaited, ``cancel_too`` those of
    them whose runs are cancelled with this one, ``resets`` flows whose runs are reset, ``cancels`` flows whose runs are
    cancelled. ``rows`` says that parties outside answer, ``early`` that kept answers are read, ``groups`` that groups
    are asked, and ``group_answers`` that theirs are read, ``tokens`` that links are made, ``ends`` that the run may be
    complete. ``unread_stages`` are places that do not say at which stage a wait goes on: it may be each of ``then``.
    ``unread_databases`` are places that do not say which database is meant.
    """

    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    databases: frozenset[DatabaseUse] = frozenset()
    sends: frozenset[Destination] = frozenset()
    asks: frozenset[Destination] = frozenset()
    starts: frozenset[AnyFlow] = frozenset()
    asks_flows: frozenset[AnyFlow] = frozenset()
    cancel_too: frozenset[AnyFlow] = frozenset()
    resets: frozenset[AnyFlow] = frozenset()
    cancels: frozenset[AnyFlow] = frozenset()
    waits: tuple[WaitUse, ...] = ()
    rows: bool = False
    early: bool = False
    groups: bool = False
    group_answers: bool = False
    reads_its_run: bool = False
    tokens: bool = False
    ends: bool = False
    unknown_tables: tuple[SourcePlace, ...] = ()
    unknown_sends: tuple[SourcePlace, ...] = ()
    unread_stages: tuple[SourcePlace, ...] = ()
    unread_databases: tuple[SourcePlace, ...] = ()

    @property
    def unread(self) -> list[SourcePlace]:
        """Return all that cannot be read, each place once."""
        places = (*self.unknown_tables, *self.unknown_sends, *self.unread_stages, *self.unread_databases)
        return [*dict.fromkeys(places)]


class FoundUses:
    """Collects the resources that are used."""

    def __init__(self) -> None:
        self.tables: dict[str, frozenset[str]] = {}
        self.databases: set[DatabaseUse] = set()
        self.sends: set[Destination] = set()
        self.asks: set[Destination] = set()
        self.starts: set[AnyFlow] = set()
        self.asks_flows: set[AnyFlow] = set()
        self.cancel_too: set[AnyFlow] = set()
        self.resets: set[AnyFlow] = set()
        self.cancels: set[AnyFlow] = set()
        self.waits: list[WaitUse] = []
        self.flags: set[str] = set()
        self.unknown_tables: list[SourcePlace] = []
        self.unknown_sends: list[SourcePlace] = []
        self.unread_stages: list[SourcePlace] = []
        self.unread_databases: list[SourcePlace] = []
        self.read: set[object] = set()

    def unknown(self, place: SourcePlace) -> None:
        """Note a place whose effects are unknown."""
        self.unknown_tables.append(place)
        self.unknown_sends.append(place)

    def uses(self) -> Uses:
        return Uses(
            tables=dict(sorted(self.tables.items())),
            databases=frozenset(self.databases),
            sends=frozenset(self.sends),
            asks=frozenset(self.asks),
            starts=frozenset(self.starts),
            asks_flows=frozenset(self.asks_flows),
            cancel_too=frozenset(self.cancel_too),
            resets=frozenset(self.resets),
            cancels=frozenset(self.cancels),
            waits=tuple(dict.fromkeys(self.waits)),
            rows="rows" in self.flags,
            early="early" in self.flags,
            groups="groups" in self.flags,
            group_answers="group answers" in self.flags,
            reads_its_run="reads its run" in self.flags,
            tokens="tokens" in self.flags,
            ends="ends" in self.flags,
            unknown_tables=tuple(dict.fromkeys(self.unknown_tables)),
            unknown_sends=tuple(dict.fromkeys(self.unknown_sends)),
            unread_stages=tuple(dict.fromkeys(self.unread_stages)),
            unread_databases=tuple(dict.fromkeys(self.unread_databases)),
        )
