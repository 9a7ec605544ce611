"""The queues of a deployment, with their readers and retentions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from flowguard.deploy.found import FoundFunction, FunctionKind, plain_name
from flowguard.deploy.needs import QueueNeed, Role
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.permissions import Scope, endings, needs_answers, stage_sends
from flowguard.deploy.queue_arns import account_of, arn_of
from flowguard.destinations import Bus, Destination, Queue, Topic
from flowguard.flow import ATTACH, AnyFlow, shared_problems
from flowguard.lanes import Lane
from flowguard.project.queues import callback_queues, queue_of, queues_of
from flowguard.retry import LONGEST_VISIBILITY
from flowguard.sim.event_source import QueueTimes

TIMES_THE_TIMEOUT: Final = 6
"""A queue's visibility timeout over its function's time-out, as AWS advises: a throttled batch is tried again."""

MOST_RECEIVES: Final = 1_000
"""The largest ``maxReceiveCount`` that SQS takes."""

_LASTS: Final = 0.95
"""The share of a queue's retention after which it gives a record up that was never invoked with: it is to be seen."""

_DAY: Final = 86_400
LONGEST_RETENTION: Final = 14 * _DAY
FIFO_RETENTION: Final = timedelta(days=42)
"""The retention with which a flow with a FIFO queue outlasts what others do: its three queues share it."""

_SHORTEST: Final = 60
_LONGEST_NAME: Final = 80


@dataclass(frozen=True)
class Retentions:
    """The retentions of the queues of a flow, in seconds.

    ``killed`` is that of the queue of records given up, ``dead`` that of the dead letters. Each is longer than the one
    before, and a record lives in ``inbox`` and ``killed`` no longer than the flow's ``retention``. SQS counts its age
    in a standard dead-letter queue from its first sending: both times are those of one outage. In a FIFO one it starts
    again with the move, so that there all three add up.
    """

    inbox: int
    killed: int
    dead: int

    @classmethod
    def of(cls, whole: timedelta, *, fifo: bool, handled: bool) -> Retentions:
        """Split a flow's retention between its queues. ``handled``: a dlq_handler reads the dead-letter queue."""
        seconds = whole // timedelta(seconds=1)
        if handled and not fifo:
            seconds = min(seconds, LONGEST_RETENTION)
            return cls(_within(seconds * 12 // 14), _within(seconds * 13 // 14), _within(seconds))
        inbox, killed = _within(seconds * 2 // 7), _within(seconds * 9 // 28)
        return cls(inbox, killed, _within(seconds - (inbox + killed if handled else inbox)))


def _within(seconds: int) -> int:
    return min(max(seconds, _SHORTEST), LONGEST_RETENTION)


class QueuePlan:
    """The queues of some functions. ``problems`` say what cannot be."""

    def __init__(
        self,
        scope: Scope,
        functions: Mapping[str, FoundFunction],
        timeouts: Mapping[str, int],
        windows: Mapping[str, int],
        options: DeployOptions,
    ) -> None:
        self._scope = scope
        self._flows = scope.flows
        self._functions = functions
        self._timeouts = timeouts
        self._windows = windows
        self._options = options
        self.problems: list[str] = []
        self._found: dict[str, QueueNeed] = {}
        self._sources: dict[str, Queue] = {}
        self._owners: dict[str, AnyFlow] = {}
        self._used_by: dict[str, list[AnyFlow]] = {}
        self._lanes: dict[str, dict[tuple[Lane, ...], None]] = {}
        self.undelivered_schedules: str | None = None
        self.undelivered_ticks: dict[AnyFlow, str] = {}
        self.undelivered_records: dict[AnyFlow, str] = {}
        self.topics: tuple[str, ...] = ()
        self._inboxes()
        self._answers()
        self._callbacks()
        self._batches()
        self._dead_letter_queues()
        self._outside()
        self.problems += [problem for queue in self._found.values() for problem in _problems(queue)]
        self.queues = tuple(self._with_existing(queue) for _, queue in sorted(self._found.items()))
        self.problems += [problem for queue in self.queues for problem in _bucket_problems(queue)]

    def read_by(self, function: str) -> dict[str, Queue]:
        """Return the queues that a function reads, by name."""
        return {name: self._sources[name] for name, queue in sorted(self._found.items()) if queue.reader == function}

    def lanes_of(self, function: str) -> Sequence[tuple[Lane, ...]]:
        """Return the lanes of the inboxes that a function reads, of each inbox once."""
        return tuple(self._lanes.get(function, ()))

    def fifo_of(self, flow: AnyFlow) -> list[QueueNeed]:
        """Return the FIFO queues of the template that bring a flow its records."""
        read = [name for name, flows in self._used_by.items() if flow in flows]
        return [queue for queue in self.queues if queue.fifo and queue.made and queue.name in read]

    # -- the queues that functions read

    def _inboxes(self) -> None:
        for name, function in self._functions.items():
            for flow, stage in function.stages:
                for inbox in flow.inboxes_of(stage):
                    queue = inbox if isinstance(inbox, Queue) else Queue(queue_of(flow, stage))
                    self._read(queue, name, Role.INBOX, flow, inbox)
                if lanes := flow.lanes_of(stage):
                    self._lanes.setdefault(name, {})[lanes] = None
        served = [pair for function in self._functions.values() for pair in function.stages]
        self.problems += shared_problems(
            (f"{flow.name}/{stage.name}", flow.inboxes_of(stage), flow.lanes_of(stage)) for flow, stage in served
        )

    def _answers(self) -> None:
        for flow in self._flows:
            if not isinstance(flow.answers, Queue) or flow.answers.short_name in self._found or not needs_answers(flow):
                continue
            readers = [name for name, function in self._functions.items() if flow in function.flows]
            answering = [name for name in readers if self._functions[name].kind is FunctionKind.ANSWERS]
            entering = [name for name in readers if (flow, flow.entry()) in self._functions[name].stages]
            if flow.on_conflict is ATTACH:  # orders to reset are for a function of stages
                answering = []
            self._read(flow.answers, (answering or entering)[0], Role.ANSWERS, flow, None)

    def _callbacks(self) -> None:
        for name, function in self._functions.items():
            if function.kind is FunctionKind.ANSWERS:
                for flow in function.flows:
                    for queue, source in _callback_sources(flow):
                        self._read(queue, name, Role.CALLBACK, flow, source)

    def _batches(self) -> None:
        """Add the queue of each function under ``@once``, and its dead letters."""
        for name, function in self._functions.items():
            if function.once is not None:
                given = self._options.of_function(function.attribute, function.handler).queue
                self._batch(name, function, given if given is not None else plain_name(function.once))

    def _batch(self, reader: str, function: FoundFunction, name: str) -> None:
        plain = name.removesuffix(".fifo")
        dead, owner = f"{plain}-dead-letters{name.removeprefix(plain)}", function.owner
        for taken in sorted({name, dead} & self._found.keys()):
            self.problems.append(
                f"{function.handler} reads {name!r} and gives up to {dead!r}, and {taken!r} is another function's; "
                f'name another queue: [functions."{function.handler}"] queue = "…"'
            )
        times = Retentions.of(timedelta(seconds=LONGEST_RETENTION), fifo=False, handled=False)
        self._sources[name] = Queue(name)
        self._found[name] = QueueNeed(
            name,
            Role.INBOX,
            existing=False,
            retention=times.inbox,
            visibility=self._visibility(reader),
            reader=reader,
            give_up_to=dead,
            max_receive_count=self._options.of_queue(name).max_receive_count,
            owner=owner,
        )
        self._found[dead] = QueueNeed(dead, Role.DEAD_LETTERS, existing=False, retention=times.dead, owner=owner)

    def _read(self, queue: Queue, reader: str, role: Role, flow: AnyFlow, source: Destination | None) -> None:
        name = queue.short_name
        known = self._found.get(name)
        if known is not None and known.reader != reader:
            ours, theirs = self._functions[reader].handler, self._functions[known.reader or reader].handler
            self.problems.append(
                f"{ours} and {theirs} both read the queue {name!r}, and SQS gives each message to one of them, "
                f"whichever it is for; serve its stages by one function, or give them an inbox= each"
            )
            return
        topics = (source.arn,) if isinstance(source, Topic) else ()
        rules = (source,) if isinstance(source, Bus) else ()
        self.topics = tuple(dict.fromkeys((*self.topics, *topics)))
        self._sources[name] = queue
        self._owners.setdefault(name, flow)
        self._used_by.setdefault(name, []).append(flow)
        self._found[name] = QueueNeed(
            name=name,
            role=known.role if known is not None else role,
            existing=False,
            retention=LONGEST_RETENTION,
            visibility=self._visibility(reader),
            reader=reader,
            give_up_to=known.give_up_to if known is not None else self._give_up_to(flow, queue),
            max_receive_count=self._receives(flow, queue),
            topics=tuple(dict.fromkeys((*(known.topics if known is not None else ()), *topics))),
            rules=tuple(dict.fromkeys((*(known.rules if known is not None else ()), *rules))),
            arn=arn_of(queue),
        )

    def _receives(self, flow: AnyFlow, queue: Queue) -> int:
        """Return how often SQS delivers a record of the queue.

        In a FIFO queue a record is also received with each failed attempt of up to nine others in front of it.
        """
        options = self._options.of_queue(queue.short_name)
        attempts = max((stage.retry.attempts for stage in flow.stages if flow.inbox_of(stage) == queue), default=1)
        receives = options.max_receive_count
        if not queue.fifo:
            return receives
        if "max_receive_count" not in options.model_fields_set:
            return min(max(receives, 11 * attempts), MOST_RECEIVES)
        if receives <= attempts:
            self.problems.append(
                f"SQS gives a record of the FIFO queue {queue.short_name!r} up after {receives} receives, and its "
                f"stage may make {attempts} attempts, a receive each; raise max_receive_count"
            )
        return receives

    # -- where they go that SQS gives up

    def _killed_reader(self, flow: AnyFlow) -> str | None:
        killed = (
            name
            for name, function in self._functions.items()
            if function.kind is FunctionKind.KILLED and flow in function.flows
        )
        return next(killed, None)

    def _give_up_to(self, flow: AnyFlow, queue: Queue) -> str:
        """Return the queue of a redrive policy. Without a dlq_handler it is the flow's dead letters."""
        dead = flow.dead_letters
        if self._killed_reader(flow) is None and isinstance(dead, Queue) and self._takes_redrives(dead, queue.fifo):
            return dead.short_name
        return f"{flow.name}-killed" + (".fifo" if queue.fifo else "")

    def _dead_letter_queues(self) -> None:
        for flow in self._flows:
            reader = self._killed_reader(flow)
            killed = {f"{flow.name}-killed", f"{flow.name}-killed.fifo"}
            names = sorted(killed & {queue.give_up_to or "" for queue in self._found.values()})
            fifo = any(name.endswith(".fifo") for name in names)
            times = Retentions.of(flow.retention, fifo=fifo, handled=reader is not None)
            for name in [name for name, flows in self._used_by.items() if flow in flows]:
                self._lasts_an_outage(name, times, handled=reader is not None)
            for name in names:
                self._killed(flow, name, reader, times)
                if reader is not None:
                    self._give_up_at_last(flow, name, times)
            if isinstance(flow.dead_letters, Queue):
                self._dead_letters(flow, flow.dead_letters, times.dead)
            for name in [name for name, owner in self._owners.items() if owner is flow]:
                self._fed(flow, self._found[name], times)
            if flow.streams:
                self.undelivered_records[flow] = self._undelivered(flow, times, fifo=False)
            if flow.every:
                self.undelivered_ticks[flow] = self._undelivered(flow, times, fifo=False)
            if flow.long_delays and self.undelivered_schedules is None:
                self.undelivered_schedules = self._undelivered(flow, times, fifo=False)

    def _lasts_an_outage(self, name: str, times: Retentions, *, handled: bool) -> None:
        """Let a queue keep its records for as long as an outage may last.

        What nobody but its own function can read, as answers from outside, is not given up before.
        """
        queue = self._found[name]
        retention = min(queue.retention, times.inbox)
        self._found[name] = replace(queue, retention=retention)
        if handled and queue.role is Role.CALLBACK:
            receives = self._given_receives(name, MOST_RECEIVES)
            visibility = max(queue.visibility, lasting(retention, receives))
            self._found[name] = replace(self._found[name], max_receive_count=receives, visibility=visibility)

    def _given_receives(self, queue: str, otherwise: int) -> int:
        """Return the receives that the options give a queue, or others."""
        options = self._options.of_queue(queue)
        return options.max_receive_count if "max_receive_count" in options.model_fields_set else otherwise

    def _killed(self, flow: AnyFlow, name: str, reader: str | None, times: Retentions) -> None:
        if name in self._found:
            self.problems.append(f"{name!r} is for the records that SQS gives up; give {flow.name} another inbox")
            return
        self._sources[name] = Queue(name)
        self._owners.setdefault(name, flow)
        self._found[name] = QueueNeed(
            name,
            Role.KILLED,
            existing=False,
            retention=times.killed if reader is not None else times.dead,
            visibility=self._visibility(reader) if reader is not None else 30,
            reader=reader,
        )

    def _give_up_at_last(self, flow: AnyFlow, killed: str, times: Retentions) -> None:
        """Give the queue ``killed`` a dead-letter queue, for records that its function cannot read either.

        Its receives last nearly as long as it keeps a record, also where nobody is invoked with them.
        """
        queue, receives = self._found[killed], self._given_receives(killed, MOST_RECEIVES)
        self._found[killed] = replace(
            queue,
            give_up_to=self._undelivered(flow, times, fifo=queue.fifo),
            max_receive_count=receives,
            visibility=max(queue.visibility, lasting(queue.retention, receives)),
        )

    def _fed(self, flow: AnyFlow, queue: QueueNeed, times: Retentions) -> None:
        """Keep what the topics and rules that feed a queue cannot deliver. A FIFO topic asks for a FIFO queue."""
        kinds = {topic.endswith(".fifo") for topic in queue.topics} | ({False} if queue.rules else set())
        kept = tuple(self._undelivered(flow, times, fifo=fifo) for fifo in sorted(kinds))
        self._found[queue.name] = replace(self._found[queue.name], undelivered=kept)

    def _undelivered(self, flow: AnyFlow, times: Retentions, *, fifo: bool) -> str:
        """Return the queue of what nobody can read or deliver.

        It is that of the flow's dead letters. Where that is elsewhere, or of the other kind, the flow gets one more.
        """
        dead = flow.dead_letters
        if isinstance(dead, Queue) and self._takes_redrives(dead, fifo):
            return dead.short_name
        name = f"{flow.name}-undelivered" + (".fifo" if fifo else "")
        self._owners.setdefault(name, flow)
        if name in self._found and self._found[name].role is not Role.DEAD_LETTERS:
            self.problems.append(f"{name!r} is for what nobody can read or deliver; give {flow.name} another inbox")
        self._found[name] = QueueNeed(name, Role.DEAD_LETTERS, existing=False, retention=times.dead)
        return name

    def _takes_redrives(self, queue: Queue, fifo: bool) -> bool:
        """Answer whether SQS may move records to a queue: to one of the same kind and account alone."""
        name = self._options.of_queue(queue.short_name).name or ""
        arn = arn_of(queue) or arn_of(Queue(name))
        return queue.fifo == fifo and (arn is None or account_of(arn) == self._options.account)

    def _visibility(self, reader: str) -> int:
        return TIMES_THE_TIMEOUT * self._timeouts[reader] + self._windows[reader]

    def _dead_letters(self, flow: AnyFlow, queue: Queue, retention: int) -> None:
        """Add the queue of a flow's dead letters. Flows that share it have it as long as one of them needs it.

        What keeps less would delete letters of the others, also those that lie there when a flow is added.
        """
        name = queue.short_name
        known = self._found.get(name)
        if known is not None and known.reader is not None:
            self.problems.append(
                f"the dead letters of {flow.name} go to {name!r}, which {known.reader} reads; name another queue: "
                f"dead_letters="
            )
            return
        self._owners.setdefault(name, flow)
        most = retention if known is None else max(retention, known.retention)
        self._found[name] = QueueNeed(name, Role.DEAD_LETTERS, existing=False, retention=most, arn=arn_of(queue))

    # -- those that others read

    def _outside(self) -> None:
        for flow in self._flows:
            for stage in flow.stages:
                self._sent_to(flow, stage_sends(flow, stage))
            self._sent_to(flow, endings(flow, self._scope))

    def _sent_to(self, flow: AnyFlow, sends: Iterable[Destination]) -> None:
        for to in sends:
            if isinstance(to, Queue) and to.short_name not in self._found:
                self._owners.setdefault(to.short_name, flow)
                self._found[to.short_name] = QueueNeed(
                    to.short_name, Role.OUTSIDE, existing=False, retention=4 * _DAY, arn=arn_of(to)
                )

    def _with_existing(self, queue: QueueNeed) -> QueueNeed:
        owner, options = self._owners.get(queue.name), self._options.of_queue(queue.name)
        name = owner.name if owner is not None else queue.owner
        hops_only = self._takes_hops_alone(queue)
        queue = replace(queue, existing=options.existing, senders=options.senders, buckets=options.buckets)
        return replace(queue, owner=name, hops_only=hops_only, lists_senders="senders" in options.model_fields_set)

    def _takes_hops_alone(self, queue: QueueNeed) -> bool:
        """Answer whether a queue is an inbox to which only the flow itself sends."""
        flows = self._used_by.get(queue.name, [])
        entered = {name for flow in flows for name in _entrances(flow)}
        return bool(flows) and not queue.topics and queue.name not in entered


def _entrances(flow: AnyFlow) -> Iterator[str]:
    """Yield the names of the queues through which others than the flow's own functions reach it."""
    yield from (queue for stage in flow.stages if stage.name in flow.entries for queue in queues_of(flow, stage))
    yield from (queue.short_name for queue, _ in _callback_sources(flow))
    if isinstance(flow.answers, Queue) and needs_answers(flow):
        yield flow.answers.short_name


def times_of(flows: Iterable[AnyFlow]) -> QueueTimes:
    """Return what the queues of a template do with the records of these flows, where each has a dlq_handler.

    The shortest retention holds for all, and so does a FIFO queue.
    """
    flows = list(flows)
    inboxes = [flow.inbox_of(stage) for flow in flows for stage in flow.stages]
    fifo = any(isinstance(inbox, Queue) and inbox.fifo for inbox in inboxes)
    kept_for = Retentions.of(min(flow.retention for flow in flows), fifo=fifo, handled=True)
    hidden = lasting(kept_for.killed, MOST_RECEIVES)
    outside = frozenset(callback_queues(flows))
    return QueueTimes(MOST_RECEIVES, hidden * 1000, kept_for.inbox * 1000, kept_for.killed * 1000, outside)


def lasting(retention: int, receives: int) -> int:
    """Return a visibility timeout with which so many receives last nearly as long as a queue keeps a record."""
    return min(math.ceil(retention * _LASTS / receives), LONGEST_VISIBILITY // timedelta(seconds=1))


def _problems(queue: QueueNeed) -> Iterator[str]:
    if len(queue.name) > _LONGEST_NAME:
        yield (
            f"the queue {queue.name!r} would have a name of {len(queue.name)} characters, and SQS takes "
            f"{_LONGEST_NAME}; give the flow or stage a shorter name, or the queue one: inbox=, or queue = for @once"
        )


def _bucket_problems(queue: QueueNeed) -> Iterator[str]:
    """Yield what keeps buckets from telling a queue, or its function from hearing it."""
    if queue.buckets and queue.fifo:
        yield (
            f"[queues.{queue.name!r}] has buckets, and S3 sends nothing to a FIFO queue; let the first stage have a "
            "standard queue as its inbox, or the bucket send its events to EventBridge"
        )
    elif queue.buckets and queue.role not in (Role.INBOX, Role.CALLBACK):
        yield f"[queues.{queue.name!r}] has buckets, and no request enters there; name them for a first stage's inbox"


def _callback_sources(flow: AnyFlow) -> Iterator[tuple[Queue, Destination]]:
    """Yield the queues of a flow's callbacks, each with the source of its messages."""
    by_topic = callback_queues([flow])
    for callback in flow.callbacks:
        match callback.source:
            case Queue() as queue:
                yield queue, queue
            case Topic(arn) as topic:
                name = f"{flow.name}-{arn.rpartition(':')[2]}"
                assert name in by_topic  # noqa: S101 - the simulator names it alike
                yield Queue(name), topic
            case bus:
                yield Queue(f"{flow.name}-events"), bus
