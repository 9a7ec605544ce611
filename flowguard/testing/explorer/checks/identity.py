"""The check that an id stands for one message. Receivers drop the second message under the same id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from flowguard.flow import AnyFlow
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import RunItem
from flowguard.sim.posted_messages import Posted
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import History
from flowguard.wire.message import FLOW_STAGE


class _Identified(NamedTuple):
    """The deduplication id of one message.

    ``of`` identifies the message: where two messages of one id differ in it, one is lost. ``at`` is where it was sent,
    for the text of a problem.
    """

    id: str
    at: str
    of: tuple[object, ...]


def ids_are_of_one_message(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I7: two messages never have one id. Copies have the same.

    This holds whichever flow, object or request they are of. FIFO queues and topics drop what has a known id, so
    everything that is sent there is looked at, letters and redrives too.
    """
    yield from _shared(_in_outboxes(history))
    yield from _shared(_in_order(history))


def _shared(messages: Iterable[_Identified]) -> Iterator[Problem]:
    known: dict[str, _Identified] = {}
    reported: set[str] = set()
    for message in messages:
        first = known.setdefault(message.id, message)
        if message.of != first.of and message.id not in reported:
            reported.add(message.id)
            yield Problem(
                "I7", message.at, f"the id {message.id} is also that of another message", message.of, first.of
            )


def _in_outboxes(history: History) -> Iterator[_Identified]:
    """Yield what commits send. A message is that of a run, of the time of its request and of a destination."""
    for key, item, send in _committed(history):
        yield _Identified(send.id, f"{key} → {send.to}", (key, item.requested_at, str(send.to)))


def _in_order(history: History) -> Iterator[_Identified]:
    """Yield what flowguard sent under a deduplication id."""
    for message in history.posted:
        if message.copy_of is not None and not message.from_user:
            yield _Identified(f"{message.to} {message.copy_of}", f"{message.run} → {message.to}", _sent(message))


def _sent(message: Posted) -> tuple[object, ...]:
    stage, place = message.attributes.get(FLOW_STAGE), message.place
    where = (place.hop, place.retry, place.redrive, place.is_unsent)
    return (message.run, stage.value if stage is not None else None, message.id, *where)


def side_messages(history: History) -> Iterator[Send]:
    """Yield what stages asked to be sent beside the next hop's message."""
    return (send for _, _, send in _committed(history) if send.kind is Kind.SIDE)


def _committed(history: History) -> Iterator[tuple[str, RunItem, Send]]:
    """Return each commit once as it was made. A later claim keeps the outbox of the run before it."""
    seen: set[tuple[str, int]] = set()
    for version in history.versions:
        item = version.item
        if item is None or not item.done or item.outbox is None or item.outbox.request_id != item.request_id:
            continue
        commit = version.key, item.committed_at
        if commit not in seen:
            seen.add(commit)
            yield from ((version.key, item, send) for send in item.outbox.sends if send.kind is not Kind.DEAD)
