"""The runs of one table, the flows that are known and their dead letters, as the inspector shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from flowguard.aws.clients import Clients
from flowguard.aws.data_keys import KmsDataKeys
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading, Unusable, explained
from flowguard.aws.history_rows import ROWS_SHOWN
from flowguard.aws.pause_rows import Pause, PauseRows
from flowguard.aws.run_pages import RunPages, Wanted, place_of
from flowguard.aws.run_reader import RunReader, SeenRun, readable
from flowguard.aws.services import aws_store
from flowguard.clock import Clock
from flowguard.codecs.reading import ReadingCodecs, readable_body
from flowguard.destinations import Queue
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId
from flowguard.operate.moments import duration, iso, moment
from flowguard.operate.own_letters import letter_refusal
from flowguard.operate.run_facts import run_facts
from flowguard.operate.run_rows import is_late, row_facts, urgency
from flowguard.operate.wait_facts import missing_names
from flowguard.protocol.callers import Caller
from flowguard.protocol.groups import request_of
from flowguard.protocol.run import RunItem, Status
from flowguard.settings import Settings
from flowguard.ui.traffic import Traffic
from flowguard.wire.token_form import without_tokens
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redrive import asker_of

ROWS: Final = 50
"""Rows of a page."""

MOST_READ: Final = 10_000
"""Items of the table that a page of runs reads at most."""

HIDDEN: Final = 60
"""Seconds that letters stay hidden from others if this process dies while it shows them."""


_Groups = dict[tuple[str, str], Counter[str]]


class Bounds(NamedTuple):
    """The rows that a page of runs has at most, and the items that it reads for them."""

    rows: int = ROWS
    read: int = MOST_READ


BOUNDS: Final = Bounds()


class AskedRuns(NamedTuple):
    """The runs of one flow that one group asked for, counted by their status."""

    group: str
    flow: str
    runs: Counter[str]


class RunList(NamedTuple):
    """A page of runs. ``after`` is where the next page begins, None after the last. ``read`` counts items.

    Runs that a group asked for are counted in ``groups``, and are no rows.
    """

    rows: list[dict[str, Any]]
    read: int
    unreadable: int
    after: str | None
    groups: list[AskedRuns]


class Letters(NamedTuple):
    """The letters of a queue that are shown. ``more`` says whether there may be others."""

    queue: DeadLetterQueue
    letters: list[Letter]
    more: bool
    warnings: list[str]


@dataclass(frozen=True)
class Inspected:
    """Reads what the pages show. ``queues`` are queues of dead letters beside those that the flows name.

    With ``payloads`` the facts of a run have its state, result, answers and messages. Nothing here writes.
    """

    settings: Settings
    clients: Clients
    clock: Clock
    flows: Mapping[str, AnyFlow] = field(default_factory=dict)
    queues: Sequence[str] = ()
    payloads: bool = False
    wait: int = 1
    bounds: Bounds = BOUNDS

    def runs(
        self, wanted: Wanted, passes: Callable[[RunItem], bool], after: str | None, group: str | None = None
    ) -> RunList:
        """Return one page of the runs that pass, the most urgent first, or of those that a group asked for.

        Raises :class:`flowguard.aws.run_pages.NoCursor` for a place that is none, and :class:`Unusable`.
        """
        runs: list[SeenRun] = []
        groups: _Groups = {}
        read = unreadable = 0
        with self._table() as reader:
            for page in self._pages(reader).pages(wanted, after, self.bounds.read):
                read, unreadable, after = read + page.read, unreadable + page.unreadable, page.last
                for seen in page.runs:
                    if passes(seen.item) and _is_row(seen, group, groups):
                        runs.append(seen)
                    if len(runs) == self.bounds.rows:
                        return RunList(self._rows(reader, runs), read, unreadable, place_of(seen), _counted(groups))
            return RunList(self._rows(reader, runs), read, unreadable, after, _counted(groups))

    def pauses(self, flow: str) -> list[Pause]:
        """Return the paused stages of a flow. Raises :class:`Unusable`."""
        with explained(f"pauses of {flow}"):
            pauses = PauseRows(self.clients.dynamodb, self.settings.run_table).all()
        return [pause for pause in pauses if pause.flow == flow]

    def _rows(self, reader: RunReader, runs: list[SeenRun]) -> list[dict[str, Any]]:
        now = self.clock.now()
        runs.sort(key=lambda seen: urgency(seen.item, now))
        return [_row(seen, reader, now) for seen in runs]

    def traffic(self, flow: str, most: int) -> Traffic:
        """Count the runs of a flow by where they are, of no more than ``most`` items of the table."""
        traffic, now = Traffic(), self.clock.now()
        with self._table() as reader:
            for page in self._pages(reader).pages(Wanted(flow), None, most):
                traffic.read += page.read
                traffic.unreadable += page.unreadable
                traffic.is_whole = page.last is None
                for seen in page.runs:
                    traffic.add(seen.item, now)
        return traffic

    def run(self, flow: str, object_id: str, history: int = ROWS_SHOWN) -> tuple[SeenRun, dict[str, Any]] | None:
        """Read one run and its facts, with so many rows of a full history. None where there is none."""
        with self._table() as reader:
            seen = reader.read(flow, object_id)
            if seen is None:
                return None
            with readable(flow, object_id):
                rows = islice(self._callers(seen), 1)
                loaded = self.flows.get(flow)
                now = self.clock.now()
                full = reader.full_history(seen, history)
                return seen, run_facts(seen, reader, now, flow=loaded, rows=rows, full=full, payloads=self.payloads)

    def _callers(self, seen: SeenRun) -> Iterator[Sequence[Caller]]:
        callers = seen.item.callers
        if callers is None or not callers.rows:
            return
        store = aws_store(self.settings, self.clients)
        yield from store.callers.rows(seen.flow, ObjectId(seen.object_id), callers.term)

    def dead_letter_queues(self) -> list[str]:
        """Return the queues whose letters can be shown."""
        of_flows = [flow.dead_letters.name for flow in self.flows.values() if isinstance(flow.dead_letters, Queue)]
        return list(dict.fromkeys([*of_flows, *self.queues]))

    def letters(self, queue: str) -> Letters:
        """Read the first letters of a queue. SQS counts each of them as received once more."""
        letters: list[Letter] = []
        with self.reading(queue, self._flow_of(queue)) as reading:
            for page in reading.pages():
                letters += page
                if len(letters) >= self.bounds.rows:
                    break
        return Letters(reading.queue, letters, len(letters) >= self.bounds.rows, reading.warnings)

    def refusals(self, letters: Sequence[Letter]) -> list[str | None]:
        """Return why each letter is not sent back, by a read of its run and of its asker's. None where it may be."""
        with self._table() as reader:
            return [self._refusal(reader, letter) for letter in letters]

    def _refusal(self, reader: RunReader, letter: Letter) -> str | None:
        m, asker = letter.message, asker_of(letter)
        try:
            seen = reader.read(m.flow, m.object_id) if m is not None and m.flow and m.object_id else None
            asking = None if asker is None else reader.read(asker.flow, asker.object_id)
        except Unusable as problem:
            return problem.problem
        return letter_refusal(letter, seen, self.clock.now(), asking)

    def reading(self, queue: str, flow: AnyFlow | None) -> Reading:
        """Open a queue of dead letters. With the class of its flow, letters can be read that do not name their flow."""
        dead = DeadLetterQueue.find(self.clients, queue, names=self.settings.at_aws)
        return Reading(self.clients, dead, flow=flow, visibility=HIDDEN, wait=self.wait, clock=self.clock)

    def reader(self) -> RunReader:
        """Return a reader of the table's runs."""
        return RunReader.of(self.settings, self.clients, self._codecs)

    @property
    def _codecs(self) -> ReadingCodecs:
        """Return what opens sealed values with the permissions of who has started the inspector."""
        return ReadingCodecs(lambda: KmsDataKeys(lambda: self.clients.kms), self.flows.values())

    def payload_of(self, letter: Letter) -> str | None:
        """Return the payload of a letter, opened where it is sealed. None where payloads are not shown."""
        if not self.payloads:
            return None
        is_sealed = letter.message is not None and letter.message.sealed is not None
        text = readable_body(self._codecs, letter.message) if is_sealed and letter.message else letter.text
        return without_tokens(text)

    def _flow_of(self, queue: str) -> AnyFlow | None:
        """Return the flow whose letters go to the queue, if it is the only one."""
        flows = [flow for flow in self.flows.values() if flow.dead_letters == Queue(queue)]
        return flows[0] if len(flows) == 1 else None

    def _pages(self, reader: RunReader) -> RunPages:
        return RunPages(self.clients.dynamodb, self.settings.run_table, reader)

    @contextmanager
    def _table(self) -> Iterator[RunReader]:
        with explained(f"table {self.settings.run_table}"):
            yield self.reader()


def _is_row(seen: SeenRun, group: str | None, groups: _Groups) -> bool:
    """Answer whether the run has a row of its own. Of a group that nobody asks for, count it."""
    asked = request_of(seen.item.request_id)
    if asked is None or group is not None:
        return (asked and asked[0]) == group
    groups.setdefault((asked[0], seen.flow), Counter())[seen.item.status.value] += 1
    return False


def _counted(groups: _Groups) -> list[AskedRuns]:
    return [AskedRuns(*key, runs) for key, runs in groups.items()]


def _row(seen: SeenRun, reader: RunReader, now: int) -> dict[str, Any]:
    """Return the facts of a row. Of a run whose error cannot be read, they say so."""
    item = seen.item
    wait = item.wait if item.status is Status.WAITING else None
    facts = {
        "age": duration(max(0, now - item.requested_at) // 1000),
        "due": "" if wait is None else moment(wait.deadline, now),
        "names": missing_names(seen),
    }
    try:
        with readable(seen.flow, seen.object_id):
            return row_facts(seen, reader, now) | facts
    except Unusable as problem:
        place = {"flow": seen.flow, "object_id": seen.object_id, "status": item.status.value, "stage": item.stage}
        known = {"hop": item.hop, "attempt": item.retry + 1, "requested_at": iso(item.requested_at)}
        return {**place, **known, **facts, "late": is_late(item, now), "now": problem.problem}
