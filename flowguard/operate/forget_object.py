"""Finds, counts and removes what the runs of an object have left. The run item keeps a trace without data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from flowguard.aws.dead_letter_queue import Reading
from flowguard.aws.forgetting import Forgetting
from flowguard.aws.items import Item, read_item
from flowguard.aws.object_scan import Child, Scanned
from flowguard.aws.object_traces import MOST_REQUESTS, TraceReader, Traces
from flowguard.aws.run_reader import readable
from flowguard.aws.stored_texts import StoredText
from flowguard.errors import NotForgotten
from flowguard.flow import ATTACH, AnyFlow
from flowguard.operate.moments import moment
from flowguard.protocol.forgotten import NOW, is_forgotten
from flowguard.protocol.run import ENDED, LONGEST_LEASE, RunItem, Status
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.message import Message
from flowguard.worker.dead_letters import Letter
from flowguard.worker.leases import keeps_lease
from flowguard.worker.lifetimes import Lifetimes

SETTLED_AFTER: Final = LONGEST_LEASE
"""How long after its end a run is taken for one that has sent what its end had to send."""

_NO_RUN: Final = "there is no run"
_HISTORY: Final = "rows of the history"

OUT_OF_REACH: Final = (
    "messages under way: those of the run are dropped when they come; a newer request runs, and so does one that was "
    "made to begin later, by at= or a schedule, or that the run has made to another flow",
    "backups of the table, its point-in-time recovery, its stream and its global replicas' backups",
    "texts in S3 to which nothing points any more, replicas of the bucket, and what Object Lock holds",
    "queues, topics, buses and archives to which the flow has sent, and dead letters in other queues",
    "tables, databases and services that its stages have written",
    "entries of @once, whose keys are your own (flowguard once forget)",
    "logs, traces and metrics, and CloudTrail",
)
"""What no command of flowguard can remove."""


class Left(NamedTuple):
    """Something that was found and not removed, and why."""

    what: str
    number: int
    why: str


@dataclass
class Forgotten:
    """A report of what was found of an object, by kind. It says what was left too.

    ``is_done`` says that all that was to be removed is gone, ``why_not`` why not. ``children`` are those that were
    asked for too. ``late_until`` says until when messages of the run may come (ms), None where none can:
    each is dropped, except requests to other flows.
    """

    flow: str
    object_id: str
    stands: str
    counts: dict[str, int]
    left: list[Left] = field(default_factory=list)
    is_done: bool = False
    why_not: str | None = None
    children: list[Forgotten] = field(default_factory=list)
    late_until: int | None = None

    def add(self, further: Forgotten) -> None:
        """Add what was found when the queue had shown more of its letters, and what is left since then."""
        for kind, count in further.counts.items():
            before = self.counts.get(kind, 0)
            self.counts[kind] = count if kind == _HISTORY else before + count  # these rows are removed at the end
        self.left, self.is_done = further.left, further.is_done

    @property
    def is_nothing(self) -> bool:
        """Answer whether there was nothing of the object: it may have been spelled wrongly."""
        return self.stands == _NO_RUN and not self.counts

    @property
    def is_complete(self) -> bool:
        """Answer whether nothing is left to do, of its children neither."""
        return self.is_done and all(child.is_complete for child in self.children)


OpenLetters = Callable[[AnyFlow], AbstractContextManager[Reading]]
"""Opens the queue of a flow's dead letters."""


class Forgetter(NamedTuple):
    """Forgets objects, and their children of the ``flows`` by name. Without ``really`` it only looks.

    ``at_once`` forgets a run too that goes on, or has ended just now: its end is not sent to anybody.
    """

    reader: TraceReader
    forgetting: Forgetting
    letters: OpenLetters
    flows: Mapping[str, AnyFlow]
    now: int
    really: bool = False
    at_once: bool = False

    def forget(self, flow: AnyFlow, object_id: str) -> Forgotten:
        """Forget an object and its children.

        Raises :class:`flowguard.errors.NotForgotten` where its run goes on. A child whose run does is reported.
        """
        of = Child(flow.name, object_id)
        return self._forget(flow, of, {of}, None)

    def _forget(self, flow: AnyFlow, of: Child, met: set[Child], scanned: Scanned | None) -> Forgotten:
        with self.letters(flow) as reading:
            letters = _Letters(of)
            letters.read(reading)
            report, traces = self._looked_at(flow, of, letters, reading, scanned)
            children = dict.fromkeys(traces.children, traces.scanned)
            while letters.may_go_on(reading) and letters.read(reading):
                further, traces = self._looked_at(flow, of, letters, reading, scanned)
                report.add(further)
                children = dict.fromkeys(traces.children, traces.scanned) | children
            if doubts := [*reading.doubts, *reading.full_groups]:
                report.left.append(Left("unseen dead letters", reading.unseen, "; ".join(doubts)))
                report.is_done = False
        for child, its_scan in children.items():
            self._child(child, report, met, its_scan)
        if self.really and all(child.is_complete for child in report.children):
            self.forgetting.remove_rows(traces.history)  # by which children of earlier runs are found
        return report

    def _looked_at(
        self, flow: AnyFlow, of: Child, letters: _Letters, reading: Reading, scanned: Scanned | None
    ) -> tuple[Forgotten, Traces]:
        """Look at an object and at the letters of it that were read, and remove what was found."""
        before = self.now - SETTLED_AFTER // timedelta(milliseconds=1)
        traces = self.reader.read(of, letters.requests, before, scanned)
        letters.add(child for child in traces.children if child.flow in self.flows)
        with readable(*of):
            run = None if traces.item is None else _Run(traces.item, read_item(traces.item))
        letters.leave(of, run, traces.waiting)
        report = Forgotten(*of, _stands(run, self.now), _counts(traces, run, letters))
        report.late_until = None if run is None else _late_until(flow, run.item, self.now)
        report.left += _left(traces, letters, self.now, has_bucket=self.reader.bucket is not None)
        if self.really:
            self._check(flow, run)
            texts_left = self._remove(flow, of, traces, run)
            worker = [*self._at_work(flow, run)]
            letters.delete(reading)
            report.left += [*_texts_left(texts_left), *letters.not_deleted(), *worker]
            later = traces.waiting or traces.young or traces.asked
            report.is_done = not (texts_left or letters.undeleted or later or worker)
        return report, traces

    def _child(self, child: Child, report: Forgotten, met: set[Child], scanned: Scanned) -> None:
        """Forget a child, and add what was found of it."""
        if child in met:
            return
        met.add(child)
        flow = self.flows.get(child.flow)
        if flow is None:
            why = "its run was asked for by this object's; name its flow with --children, or forget it by itself"
            report.left.append(Left(f"{child.flow} of {child.object_id}", 1, why))
            return
        try:
            report.children.append(self._forget(flow, child, met, scanned))
        except NotForgotten as error:
            report.children.append(Forgotten(*child, "", {}, why_not=error.why))

    def _check(self, flow: AnyFlow, run: _Run | None) -> None:
        """Raise :class:`NotForgotten` for a run that goes on, or may not have sent all that its end had to send."""
        if run is None or run.is_forgotten or self.at_once:
            return
        item = run.item
        if item.status not in ENDED:
            why = f"it is {item.status.value} at {item.stage}; cancel it first (--cancel), and repeat this at its end"
            raise NotForgotten(flow.name, why, goes_on=True)
        settled_at = item.committed_at + SETTLED_AFTER // timedelta(milliseconds=1)
        if self.now < settled_at:
            why = f"it may not have sent its end yet; repeat this after {moment(settled_at, self.now)}"
            raise NotForgotten(flow.name, why)

    def _at_work(self, flow: AnyFlow, run: _Run | None) -> Iterator[Left]:
        """Yield the worker that may still save something: only its commit is fenced."""
        if run is not None and (works_until := _works_until(flow, run, self.now)) > self.now:
            why = "it may still save rows of a group, and texts in S3; repeat this after"
            yield Left("worker", 1, f"{why} {moment(works_until, self.now)}")

    def _remove(self, flow: AnyFlow, of: Child, traces: Traces, run: _Run | None) -> dict[StoredText, str]:
        """Remove what was found. What a call that is cut off here leaves, the next one finds.

        Returns the texts that are still there, with the reasons. The journal and the history name them until then.
        """
        until = self._until(flow, run)
        texts = [*traces.journal, *traces.texts]
        of_answers = [text for early in traces.early for text in early.texts]
        noted = self.forgetting.note_texts(*of, list(dict.fromkeys([*texts, *of_answers])), until)
        self._empty(flow, run, traces, until)
        groups = () if run is None else traces.groups  # without a run they may be of one that begins just now
        # some may have attached meanwhile
        late = [key for key in self.reader.callers_of(of) if key not in traces.callers]
        self.forgetting.remove_rows([*traces.callers, *late, *traces.calls, *groups])
        self.forgetting.empty_asked(traces.asked)
        for started in traces.started:
            self.forgetting.empty_started(started)
        emptied = [early for early in traces.early if self.forgetting.empty_early(early)]
        texts += [text for early in emptied for text in early.texts]
        left = self.forgetting.remove_texts(list(dict.fromkeys(texts)))
        journal = {key["sk"]["S"]: key for key in (*noted, *traces.journal_rows)}
        if not left:
            self.forgetting.remove_rows(list(journal.values()))
        return left

    def _empty(self, flow: AnyFlow, run: _Run | None, traces: Traces, until: int) -> None:
        """Leave a trace of the run. One that is there is written again where rows of groups were found.

        Nobody has claimed the object then before these were, so they are of no newer run.
        """
        if run is None or (run.is_forgotten and not (traces.groups or traces.asked)):
            return
        at = _end_of(flow, run, self.now)
        works_until = _works_until(flow, run, self.now)
        if not self.forgetting.leave_trace(run.raw, now=self.now, at=at, until=until, works_until=works_until):
            raise NotForgotten(flow.name, "it has gone on since it was looked at; repeat this")

    def _until(self, flow: AnyFlow, run: _Run | None) -> int:
        """Return until when the trace is needed (ms): as long as copies of the run's messages may come."""
        lifetimes = Lifetimes(flow)
        lives_until = 0 if run is None else run.item.ttl * 1000
        return lifetimes.not_before(lives_until, lifetimes.of_run(self.now), self.now)


def _end_of(flow: AnyFlow, run: _Run, now: int) -> int:
    """Return when the trace is to say that the run has ended (ms).

    Of a flow that takes callers, requests up to then are answered with the error: those that the result would have
    answered, or the end of a run that had none yet. Later ones have had no answer of this run, and begin their own.
    """
    item = run.item
    if flow.on_conflict is not ATTACH or item.status is Status.FAILED:  # a trace is FAILED too
        return item.committed_at or now
    if item.status is Status.COMPLETED:
        return min(now, flow.good_until(item.committed_at) or item.committed_at)
    return now


def _works_until(flow: AnyFlow, run: _Run, now: int) -> int:
    """Return until when a worker may be in its handler (ms). It is no later than now where none can be.

    Of a stage without a lease nothing shows it: then it is as long as any lease.
    """
    item = run.item
    if run.is_forgotten or not item.done:
        return item.lease_until
    is_seen = item.status in ENDED or all(keeps_lease(flow, stage) for stage in flow.stages)
    return now if is_seen else now + LONGEST_LEASE // timedelta(milliseconds=1)


def _late_until(flow: AnyFlow, run: RunItem, now: int) -> int | None:
    """Return until when a message of a run may come. What one that goes on has sent last was sent until now."""
    until = (run.committed_at if run.status in ENDED else now) + Lifetimes(flow).copies
    return until if until > now else None


class _Run(NamedTuple):
    """A run item as it is stored, and as it is read."""

    raw: Item
    item: RunItem

    @property
    def is_forgotten(self) -> bool:
        return is_forgotten(self.item)

    def is_older_than(self, message: Message) -> bool:
        """Answer whether a message is of a newer request."""
        return message.request_id != self.item.request_id and message.requested_at > self.item.requested_at


@dataclass
class _Letters:
    """The dead letters in a queue. ``chosen`` are those of an object and of its children that were read last.

    ``requests`` are those of the object's letters among them, by id and time.
    """

    of: Child
    every: list[Letter] = field(default_factory=list)
    chosen: list[tuple[Letter, Message]] = field(default_factory=list)
    requests: list[tuple[str, int]] = field(default_factory=list)
    runs: set[Child] = field(default_factory=set)
    undeleted: dict[str, str] = field(default_factory=dict)
    deleted: int = 0
    newer: int = 0

    def read(self, reading: Reading) -> bool:
        """Read the queue to its end. All its letters are hidden until the reading ends.

        Answers whether there were some of the object, or of a child that is known.
        """
        letters = [letter for page in reading.pages() for letter in page]
        self.every += letters
        of_object = [*_letters_of(letters, {self.of})]
        self.requests = [(message.request_id, message.requested_at) for _, message in of_object]
        self.chosen = [*of_object, *_letters_of(letters, self.runs)]
        return bool(self.chosen)

    def may_go_on(self, reading: Reading) -> bool:
        """Answer whether the queue may show letters now that it did not show before some were deleted."""
        return reading.queue.is_fifo and self.deleted > 0

    def add(self, children: Iterable[Child]) -> None:
        """Take the letters of children too, such as requests to them that were not sent."""
        new = {*children} - self.runs
        self.runs |= new
        self.chosen += _letters_of(self.every, new)

    def leave(self, of: Child, run: _Run | None, waiting: Collection[str]) -> None:
        """Leave the letters of requests that are for another time, and of those that are newer than the object's run.

        The former say what to look for then, the latter have not begun.
        """
        self.chosen = [pair for pair in self.chosen if pair[1].request_id not in waiting]
        if run is not None:
            of_object = [pair for pair in self.chosen if (pair[1].flow, pair[0].object_id) == of]
            newer = [pair for pair in of_object if run.is_older_than(pair[1])]
            self.newer += len(newer)
            self.chosen = [pair for pair in self.chosen if pair not in newer]

    @property
    def unread(self) -> int:
        """Return how many nobody can read."""
        return sum(letter.message is None for letter in self.every)

    def delete(self, reading: Reading) -> None:
        """Delete those that are chosen, and keep the reasons for those that SQS has not deleted."""
        failures = reading.delete([letter for letter, _ in self.chosen])
        self.undeleted.update(failures)
        self.deleted = len(self.chosen) - len(failures)

    def not_deleted(self) -> Iterator[Left]:
        if self.undeleted:
            why = next(iter(self.undeleted.values()))
            yield Left("dead letters", len(self.undeleted), f"SQS did not delete them: {why}")


def _letters_of(
    letters: Sequence[Letter], runs: Collection[tuple[str, str | None]]
) -> Iterator[tuple[Letter, Message]]:
    """Yield the letters of runs with their messages."""
    for letter in letters:
        if letter.message is not None and (letter.message.flow, letter.object_id) in runs:
            yield letter, letter.message


def _counts(traces: Traces, run: _Run | None, letters: _Letters) -> dict[str, int]:
    """Return how much there is of each kind that is removed."""
    counts = {
        "run item": 0 if run is None or run.is_forgotten else 1,
        "rows of callers": len(traces.callers),
        "messages of hops in line": len(traces.calls),
        _HISTORY: len(traces.history),
        "rows of groups": 0 if run is None else len(traces.groups),
        "early answers": len(traces.early),
        "entries of Idempotency-Key": len(traces.started),
        "texts in S3": len({*traces.journal, *traces.texts, *(text for early in traces.early for text in early.texts)}),
        "dead letters": len(letters.chosen),
    }
    return {kind: count for kind, count in counts.items() if count}


def _texts_left(left: Mapping[StoredText, str]) -> Iterator[Left]:
    if left:
        yield Left("texts in S3", len(left), f"S3 did not remove them: {next(iter(left.values()))}")


def _left(traces: Traces, letters: _Letters, now: int, *, has_bucket: bool) -> Iterator[Left]:
    """Yield what is found and stays."""
    yield from _not_looked_for(traces)
    if traces.asked:
        until = moment(max(int(row["ttl"]["N"]) * 1000 for row in traces.asked), now)
        why = f"they have not begun, and run when they come; repeat this when they have, or after {until}"
        yield Left("requests to children", len(traces.asked), why)
    yield from _of_waits(traces)
    if not has_bucket:
        yield Left("bucket", 0, "FLOWGUARD_BUCKET is not set, so no texts were looked for but those that items name")
    for request in traces.shared:
        why = (
            f"request {request} is of other objects too, and a text does not say of which; the bucket's rules remove it"
        )
        yield Left("texts in S3", 1, why)
    if traces.young:
        why = "they were written in the last half hour, and may be of a hop that is not committed; repeat this later"
        yield Left("texts in S3", traces.young, why)
    if traces.item is None and traces.groups:
        why = "there is no run, so they may be of one that begins just now; they expire"
        yield Left("rows of groups", len(traces.groups), why)
    if traces.item is None and traces.unbegun:
        why = "there is no run, so their request may wait in its queue; they expire after keep="
        yield Left("entries of Idempotency-Key", traces.unbegun, why)
    if letters.newer:
        why = "they are of newer requests, which have not begun: send them back or drop them, with flowguard dlq"
        yield Left("dead letters", letters.newer, why)
    if letters.unread:
        yield Left("dead letters", letters.unread, "they cannot be read, so whose they are is not known")


def _of_waits(traces: Traces) -> Iterator[Left]:
    """Yield what is left of waits."""
    if traces.awaited:
        why = "they hold ids and no answers, keep a late answer from waiting for another run, and expire"
        yield Left("ids that are or were awaited", traces.awaited, why)
    if traces.free:
        why = "nobody has used them, or waited when they came; they are for the next wait for their id, and expire"
        yield Left("early answers", traces.free, why)


def _not_looked_for(traces: Traces) -> Iterator[Left]:
    """Yield what is left for another time."""
    for request in traces.unknown:
        why = f"request {request} was not asked for by this object's run; forget the child by itself"
        yield Left("texts in S3", 1, why)
    if not traces.followed:
        why = "what it has asked for was not looked for, since its request's id is too long; forget it by itself"
        yield Left("run", 1, why)
    if traces.waiting:
        why = f"what {MOST_REQUESTS} requests have left is removed at once, and these are more; repeat this"
        yield Left("requests", len(traces.waiting), why)


def _stands(run: _Run | None, now: int) -> str:
    if run is None:
        return _NO_RUN
    item = run.item
    if run.is_forgotten:
        return f"request {item.request_id}: {NOW}"
    return f"the run of request {item.request_id}, of {moment(item.requested_at, now)}, is {item.status.value}"
