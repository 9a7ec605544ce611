"""The history of one schedule.

It has the calls, deliveries, versions of run items, messages and the state at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

from flowguard.events import Event, EventType
from flowguard.project.declared import TableKey
from flowguard.protocol.places import Places
from flowguard.protocol.run import RunItem
from flowguard.sim.posted_messages import Posted
from flowguard.testing.explorer.record.life import Shortened
from flowguard.testing.explorer.record.outside_call import ASKS
from flowguard.testing.explorer.record.question import Question
from flowguard.testing.explorer.record.refusal import LastingRefusal
from flowguard.testing.explorer.record.schedule import FaultKind, Schedule
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.record.touched import Place
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.worker.redrive import Fate

READS: Final = ("Get", "Query", "Scan", "BatchGet", "List", "Describe", "Receive", "Head", "TransactGet")


@dataclass(slots=True)
class CallRecord:
    """One call of AWS. ``applied`` says how often the service carried it out.

    ``error`` is the code of its last refusal and ``held`` how its worker was held up before it. ``entries`` counts
    those of a batch send, ``refused`` are the numbers of those that were not taken. ``key`` is that of an object in S3.
    ``conditional`` says that it writes under a condition, ``eventual`` that it reads what may be behind a write.
    ``ways`` are how the items that it reads may come otherwise, ``places`` what it touches. ``of_record`` says that it
    is about a record that the function was given, ``is_played`` that a database which is compared answers it,
    ``is_repeated`` that botocore repeats it.
    """

    number: int
    at: int
    worker: int
    service: str
    operation: str
    target: str
    site: Site
    fault: FaultKind | None = None
    applied: int = 0
    error: str | None = None
    held: tuple[FaultKind, ...] = ()
    entries: int = 0
    refused: tuple[int, ...] = ()
    key: str = ""
    conditional: bool = False
    eventual: bool = False
    ways: tuple[FaultKind, ...] = ()
    places: tuple[Place, ...] = ()
    of_record: bool = False
    is_played: bool = False
    is_repeated: bool = True

    @property
    def is_read(self) -> bool:
        return self.operation.startswith(READS) or self.operation in ASKS


@dataclass(slots=True)
class DeliveryRecord:
    """A delivery and what its worker did.

    ``others`` is how many other records waited when this one was chosen, ``waiting`` the numbers of those that could
    have gone instead of the first one, ``last`` that its worker died at the record's
    last receive. ``failures`` are the ids of records that it answered were not processed. ``why`` is the error that it
    ended with and ``raised_at`` the innermost line of user code that the error passed. ``settles`` says that the record
    brings an answer or a deadline and no stage's message, ``address`` which run it says that it is for. ``is_request``
    says that the record is an HTTP request. ``code`` is ``old`` or ``new`` where two versions of it are looked at.
    ``recalled`` are the names that it asked a hop's memory for, each with the request's id and the hop's number.

    Of several records that a function of flows got at once each has its own, with the ``worker`` and the ``calls`` of
    the first; they are ``shared``. Of those of a plain function only the first has one, and ``batch`` are the others,
    each with whether it was processed.
    """

    worker: int
    at: int
    queue: str | None
    record: int
    receive: int
    others: int
    from_dlq: bool
    stage: str | None = None
    hop: int | None = None
    events: list[Event] = field(default_factory=list)
    acked: bool = False
    died: bool = False
    last: bool = False
    message_id: str = ""
    envelope: Envelope | None = None
    failures: tuple[str, ...] = ()
    why: str | None = None
    raised_at: Site | None = None
    calls: list[int] = field(default_factory=list)
    settles: bool = False
    address: AnswerAddress | None = None
    batch: dict[int, bool] = field(default_factory=dict)
    is_request: bool = False
    shared: bool = False
    waiting: tuple[int, ...] = ()
    code: str = ""
    recalled: set[tuple[str, int, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that a handler needs and the exploration does not have. ``fix`` says how to give it.

    ``service`` is that of a call which the engine cannot answer, ``driver`` the library of a database or broker that an
    exploration does not play.
    """

    site: Site
    worker: int
    what: str
    fix: str
    service: str = ""
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """A run item as a write left it. ``item`` is None where it is gone."""

    key: str
    call: int
    worker: int
    item: RunItem | None


@dataclass(frozen=True, slots=True)
class PlacesVersion:
    """The places of a limit's key as a write left them, at a moment (ms)."""

    key: str
    call: int
    at: int
    places: Places


@dataclass(slots=True)
class LimitedHandler:
    """A call of the handler of a stage with limits, under the keys that its payload has.

    It is made by a ``worker`` after so many ``calls``, ``at`` a moment, and its lease lives ``until`` another (ms).
    ``hop`` names the object, request and hop: copies of its message are the same hop. ``raised_after`` is the number of
    calls after which it has raised.
    """

    keys: tuple[str, ...]
    hop: tuple[str, str, int]
    worker: int
    calls: int
    at: int
    until: int
    raised_after: int | None = None


@dataclass(frozen=True, slots=True)
class Redriven:
    """A dead letter that was sent back.

    ``number`` counts dead letters from 1, ``message`` is the letter's, ``before`` its run item at that moment, ``fate``
    what ``flowguard dlq redrive`` says of it. It was sent whatever that says, as the console would. ``records`` are the
    deliveries' records that it became; ``after_version`` says how many versions of run items there were, ``after_post``
    how many messages had been posted.
    """

    number: int
    key: str
    message: Message
    before: RunItem | None
    fate: Fate
    after_call: int
    after_version: int
    after_post: int
    records: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A refusal that never ends and the call from which on it holds."""

    since: int
    refusal: LastingRefusal


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the time line that is no call.

    Such are a worker held up or going on and a record delivered twice.
    """

    at: int
    after_call: int
    worker: int | None
    text: str


BUCKETS: Final = "s3:"
"""What the name of a bucket has before it where it stands beside those of tables. Its items have a key and a body."""

Items = Mapping[str, tuple[Mapping[str, Any], ...]]
"""The user's tables: their items as plain values."""


@dataclass(slots=True)
class History:
    """A record of everything in one schedule, filled while it runs.

    ``requests`` are the ids that arrived at a first hop. Times are ms since 1970.

    ``inner`` are the queues whose messages are the business of plain functions that are explored, too. ``answers`` are
    the queues through which the flows get answers and deadlines, ``questions`` what they asked parties outside that
    answer, by number, ``not_retried`` the numbers of those whose party did not try again.
    ``senders`` maps a record to the call that sent it, ``copies`` a record to the one that it is a copy of.
    ``refusals`` are those that never end. Where there are any, ``after`` is what a next request for each object led to
    while they lasted, and has this one as ``before``; ``asked`` are its ids by the objects' keys.
    ``lacks`` is what handlers needed and there was not, ``hung`` an invocation that did not end.
    ``forged`` maps the records of an insider to what they say that they are.
    ``row_keys`` are the primary keys of databases' tables.
    ``shortened`` are the lives of items and rows that a write has made shorter.
    ``weathered`` counts the calls that the weather refused, ``weathered_users`` those of user code.
    ``unread`` are the queues that a version of the code has left with a message in them.
    ``waited_for_all`` says that a worker which was held up for a number of calls went on because nothing else was left.
    ``expired`` counts the items and rows that had expired, of which some may have stayed, ``removed`` are those of the
    user that did not, each with its table.
    ``kept`` names what modules kept from one record to the next, ``recorded`` the last line of user code that recorded
    something for a table or destination with its step.
    """

    schedule: Schedule
    start: int
    calls: list[CallRecord] = field(default_factory=list)
    deliveries: list[DeliveryRecord] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    posted: list[Posted] = field(default_factory=list)
    places: list[PlacesVersion] = field(default_factory=list)
    limited: list[LimitedHandler] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    redriven: list[Redriven] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    senders: dict[int, int] = field(default_factory=dict)
    copies: dict[int, int] = field(default_factory=dict)
    refusals: list[RefusedCall] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    after: History | None = None
    before: History | None = None
    inner: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()
    questions: dict[int, Question] = field(default_factory=dict)
    not_retried: set[int] = field(default_factory=set)
    tables: Items = field(default_factory=dict)
    row_keys: Mapping[str, TableKey] = field(default_factory=dict)
    at_rest: bool = True
    lacks: list[Lack] = field(default_factory=list)
    hung: DeliveryRecord | None = None
    kept: tuple[str, ...] = ()
    recorded: dict[str, Site] = field(default_factory=dict)
    expired: int = 0
    removed: list[tuple[str, Any]] = field(default_factory=list)
    forged: dict[int, str] = field(default_factory=dict)
    shortened: list[Shortened] = field(default_factory=list)
    weathered: int = 0
    weathered_users: int = 0
    waited_for_all: bool = False
    unread: list[str] = field(default_factory=list)

    @property
    def needs(self) -> list[Lack]:
        """Return what handlers lack and can be given."""
        return [lack for lack in self.lacks if not lack.driver]

    @property
    def drivers(self) -> dict[Site, Lack]:
        """Return where handlers met a driver that is not played."""
        return {lack.site: lack for lack in self.lacks if lack.driver}

    def latest(self) -> dict[str, RunItem]:
        """Return the run items at the end by key."""
        items = {version.key: version.item for version in self.versions}
        return {key: item for key, item in items.items() if item is not None}

    def all_versions(self) -> Iterator[Version]:
        """Yield the versions of run items, those of before included."""
        if self.before is not None:
            yield from self.before.all_versions()
        yield from self.versions

    def given_to(self, worker: int) -> list[DeliveryRecord]:
        """Return the records that a worker got, one after the other."""
        first = self.deliveries[worker - 1]
        records = [first]
        if first.shared:
            records += takewhile(lambda delivery: delivery.worker == worker, self.deliveries[worker:])
        return records

    def is_of_insider(self, call: int) -> bool:
        """Answer whether a call was made for a forged record."""
        if not (self.forged and call):
            return False
        return self.deliveries[self.calls[call - 1].worker - 1].record in self.forged

    def struck(self) -> list[CallRecord]:
        """Return the calls at which something went wrong."""
        return [made for made in self.calls if made.fault is not None]

    def events(self, *events: EventType) -> Iterable[tuple[DeliveryRecord, Event]]:
        return ((delivery, event) for delivery in self.deliveries for event in delivery.events if event.type in events)
