"""The check that an id stands for one message. Receivers drop the second message under the same id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from flowguard.flow import AnyFlow
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import RunItem
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import History

_Sender: TypeAlias = tuple[str, int, str]
"""A run, by its item's key and the time of its request, and where it sends to."""


def ids_are_of_one_message(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I7: two messages never have one id. Copies have the same.

    This holds whichever flow, object or request they are of.
    """
    known: dict[str, _Sender] = {}
    said: set[str] = set()
    for key, item, send in _committed(history):
        sender = key, item.requested_at, str(send.to)
        first = known.setdefault(send.id, sender)
        if sender != first and send.id not in said:
            said.add(send.id)
            yield Problem(
                "I7", f"{key} → {send.to}", f"the id {send.id} is also that of another message", sender, first
            )


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
