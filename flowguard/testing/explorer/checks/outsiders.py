"""Checks of what a message from outside can reach (I19)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from flowguard.callback import Callback
from flowguard.destinations import Destination, Queue, Topic, parse_destination
from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.payload.names import text_at
from flowguard.project.queues import callback_queues, queues_of
from flowguard.protocol.callers import Caller
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem, Status
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import DeliveryRecord, History
from flowguard.testing.explorer.record.question import PARTIES
from flowguard.testing.explorer.record.wait_messages import OF_STAGES
from flowguard.testing.explorer.run.inbox import arn_of
from flowguard.wire.home import Home, is_local
from flowguard.worker.record_sources import RecordKind


def nothing_goes_where_no_flow_sends(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that flowguard sends only to places that a stage or a flow names (I19)."""
    if not flows:
        return
    allowed = {*_named(flows), *_committed(history, flows), *map(_bare, history.inner), *_recorded(history)}
    for sent in history.posted:
        if sent.from_user or not sent.call:
            continue
        worked = history.deliveries[history.calls[sent.call - 1].worker - 1]
        if _bare(sent.to) not in allowed and _bare(sent.to) != worked.queue:
            yield Problem("I19", sent.to, "a message was sent there, and no flow names that place", None, sent.id)


def _named(flows: Sequence[AnyFlow]) -> Iterator[str]:
    """Yield the places that definitions name."""
    for flow in flows:
        yield from (queue for stage in flow.stages for queue in queues_of(flow, stage))
        places = (flow.answers, flow.dead_letters, flow.complete_to, *map(flow.inbox_of, flow.stages))
        yield from (_bare(str(to)) for to in places if to is not None)


def _recorded(history: History | None) -> Iterator[str]:
    """Yield what stages named with their step: what a group asks stands in no outbox."""
    while history is not None:
        yield from history.recorded
        history = history.before


def _committed(history: History, flows: Sequence[AnyFlow]) -> Iterator[str]:
    """Yield the places that stages chose, and those of replies as far as a flow's policy allows them."""
    known = {flow.name: flow for flow in flows}
    for version in history.all_versions():
        outbox = version.item.outbox if version.item is not None else None
        flow = known.get(version.key.split("#")[1])
        for send in outbox.sends if outbox is not None else ():
            if send.kind is not Kind.COMPLETE or flow is None or _may_be_notified(flow, send.to):
                yield _bare(str(send.to))
        if flow is not None:
            yield from (_bare(str(to)) for to in _asked_from(version.item) if _may_be_notified(flow, to))
    yield from (_bare(str(to)) for flow, to in _kept(history, known) if _may_be_notified(flow, to))


def _kept(history: History, known: Mapping[str, AnyFlow]) -> Iterator[tuple[AnyFlow, Destination]]:
    """Yield where those are who were answered with a stored end. No item names them, only the claim does."""
    for _, event in history.events(EventType.KEPT):
        flow = None if event.message is None else known.get(event.message.flow)
        caller = None if event.message is None else Caller.of(event.message)
        if flow is not None and caller is not None:
            yield flow, parse_destination(caller.reply_to)


def _asked_from(item: RunItem | None) -> Iterator[Destination]:
    """Yield where those are who are answered with another run's end, or with that their own was superseded."""
    if item is None:
        return
    lists = [callers.held for callers in (item.callers, item.answered) if callers is not None]
    for text in [text for held in (item.askers, *lists) for text in held.values()]:
        yield parse_destination(Caller.from_text(text).reply_to)


def _may_be_notified(flow: AnyFlow, to: Destination) -> bool:
    if to == flow.complete_to:
        return True
    return to in flow.reply_to if flow.reply_to is not None else is_local(to, Home.of(None, arn_of("inbox")))


def _bare(address: str) -> str:
    return re.split(r"[/:|]", address)[-1]


def insiders_change_nothing(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that what an insider without a key says changes no run, and is refused or a dead letter (I19).

    A request that repeats the run's id may be taken for its copy, which sends what the run has sent once more.
    """
    before = {message.id for message in history.posted if not history.is_of_insider(message.call)}
    for delivery in history.deliveries:
        if (kind := history.forged.get(delivery.record)) is None:
            continue
        events = {event.type for event in delivery.events}
        refusals = _REFUSALS | _OF_COPIES if kind == RecordKind.REQUEST.value else _REFUSALS
        if not events & refusals or events & _BELIEVED:
            text = f"a forged record was believed that came through {delivery.queue}"
            yield Problem("I19", kind, text, None, _words(events))
    for version in history.versions:
        if history.is_of_insider(version.call):
            yield Problem("I19", version.key, "a forged record changed the run")
    for message in history.posted:
        if history.is_of_insider(message.call) and not message.is_letter and message.id not in before:
            yield Problem("I19", message.to, "a forged record led to a message", None, message.id)


_REFUSALS: Final = frozenset({EventType.UNTRUSTED, EventType.UNROUTABLE, EventType.UNREADABLE, EventType.BROKEN})
"""What a function tells of a record that it does not believe."""

_OF_COPIES: Final = frozenset({EventType.DUPLICATE, EventType.DONE, EventType.STALE, EventType.SUPERSEDED})
"""What it tells of a request that it takes for a copy of one that it knows."""

_BELIEVED: Final = frozenset(
    {EventType.CLAIMED, EventType.ANSWERED, EventType.TIMED_OUT, EventType.WAS_RESET, EventType.WAS_CANCELLED}
)
"""What it tells of one that it believes."""


def _words(events: Iterable[EventType]) -> str:
    return ", ".join(sorted(event.value for event in events)) or "no event"


def runs_are_those_that_messages_name(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that a request begins only the run of the object in its payload (I19)."""
    known = {flow.name: flow for flow in flows}
    for _, event in history.events(EventType.CLAIMED):
        message = event.message
        if message is None:
            continue
        flow = known.get(message.flow)
        if flow is None:
            yield Problem("I19", message.flow, "a run of a flow was begun that the functions do not serve")
        elif message.hop == 1 and isinstance(flow.object_id, str):
            named = _object_in(flow.object_id, message.body)
            if named is not None and named != message.object_id:
                text = "a request began the run of another object than its payload names"
                yield Problem("I19", f"run#{flow.name}#{message.object_id}", text, named, str(message.object_id))


def _object_in(path: str, body: str) -> str | None:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return text_at(payload, path) if isinstance(payload, dict) else None


def answers_reach_only_what_they_name(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that an answer changes only a waiting run, and only a name that it may answer (I19).

    An address in a message is believed only in the flow's own queue of answers.
    """
    outside = {queue: _callbacks(queue, declaring) for queue, declaring in callback_queues(flows).items()}
    outside[PARTIES] = [_PARTY]
    workers: dict[int, list[DeliveryRecord]] = {}
    for delivery in history.deliveries:
        if delivery.settles:
            workers.setdefault(delivery.worker, []).append(delivery)
    before: dict[str, RunItem | None] = {}
    for version in history.versions:
        was, item = before.get(version.key), version.item
        before[version.key] = item
        given = workers.get(version.worker)
        if given is None or item is None:
            continue
        worked = given[0]
        if worked.shared and str(history.calls[version.call - 1].site) in OF_STAGES:
            continue  # it was written for a stage's message that came with the answer
        if was is None or was.status is not Status.WAITING or was.wait is None or item.wait is None:
            yield Problem("I19", version.key, "an answer wrote to a run that does not wait", None, worked.queue)
        elif worked.queue in outside:
            for name in sorted(item.wait.answered - was.wait.answered):
                if not any(_may_answer(delivery, outside[worked.queue], item, name) for delivery in given):
                    text = (
                        f"an answer from {worked.queue} was kept as {name!r}, which it does not name or may not answer"
                    )
                    yield Problem("I19", version.key, text)


_PARTY: Final = Callback(PARTIES)
"""What the explorer's own answers come through: they name what they answer, whole."""


def _callbacks(queue: str, flows: Sequence[AnyFlow]) -> list[Callback]:
    """Return the callbacks that arrive in the queue."""
    return [callback for flow in flows for callback in flow.callbacks if _arrives_in(queue, callback)]


def _arrives_in(queue: str, callback: Callback) -> bool:
    match callback.source:
        case Queue() as source:
            return source.short_name == queue
        case Topic(arn):
            return queue.endswith(f"-{_bare(arn)}")
        case _:
            return False


def _may_answer(worked: DeliveryRecord, callbacks: Sequence[Callback], item: RunItem, name: str) -> bool:
    plan = item.wait.plan if item.wait is not None else None
    awaited_id = plan.names.get(name) if plan is not None else None
    if awaited_id is None or worked.envelope is None:
        return False
    texts = set(_texts(worked.envelope.message))
    texts |= {attribute.value for attribute in worked.envelope.attributes.values()}
    return any(
        awaited_id.startswith(callback.prefix)
        and awaited_id.removeprefix(callback.prefix) in texts
        and (not callback.names or name in callback.names)
        for callback in callbacks
    )


def _texts(text: str) -> Iterator[str]:
    """Yield every value in a JSON text, as text."""
    try:
        ahead: list[Any] = [json.loads(text)]
    except (ValueError, RecursionError):
        ahead = [text]
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            ahead += value.values()
        elif isinstance(value, list):
            ahead += value
        else:
            yield str(value)
