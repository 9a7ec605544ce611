"""Undisturbed orders of deliveries, of whole runs and of interleaved ones.

A run is everything that one of the first messages led to: its hops, and the runs of others that it asked for. With two
runs of two hops each, ``A1 A2 B1 B2`` is an order of whole runs, and ``A1 B1 A2 B2`` is an interleaving of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from flowguard.events import EventType
from flowguard.testing.explorer.record.happened import Happened
from flowguard.testing.explorer.record.history import DeliveryRecord, History
from flowguard.testing.explorer.record.question import PARTIES
from flowguard.wire.envelope import Source
from flowguard.wire.message import Message


def is_of_whole_runs(history: History, happened: Happened | None) -> bool:
    """Answer whether the runs followed one another, but for steps that commute by what ``happened``.

    Where that is not known they followed one another without overlap.

    A deadline or an answer that changed nothing does not count: it came when its run was over.
    """
    runs: list[int | None] = []
    for delivery, first in zip(history.deliveries, first_records(history), strict=True):
        runs.append(first if not delivery.settles or _has_changed(history, delivery) else None)
    if happened is not None:
        return happened.is_serial(runs)
    blocks = [first for first, _ in groupby(run for run in runs if run is not None)]
    return len(blocks) == len(set(blocks))


def are_of_one_object(history: History) -> bool:
    """Answer whether two requests for one object met. What follows then is what the flow's ``on_conflict`` says."""
    met: dict[str, set[str]] = {}
    for key, request_id in history.requests:
        met.setdefault(key, set()).add(request_id)
    return any(len(requests) > 1 for requests in met.values())


def overtaken(history: History) -> frozenset[str]:
    """Return the ids of the direct calls that a newer request of their object overtook before their first commit.

    They are asked for when they arrive, so in no undisturbed order is a newer one there first.
    """
    committed = {
        (version.key, str(version.item.request_id))
        for version in history.versions
        if version.item is not None and version.item.done
    }
    return frozenset(
        delivery.envelope.message_id
        for delivery, event in history.events(EventType.STALE, EventType.SUPERSEDED, EventType.FENCED)
        if delivery.envelope is not None and delivery.envelope.source is Source.INVOCATION
        if event.message is not None and _run_of(event.message) not in committed
    )


def _run_of(message: Message) -> tuple[str, str]:
    return f"run#{message.flow}#{message.object_id}", str(message.request_id)


def first_records(history: History) -> Sequence[int]:
    """Return for each delivery the first record of the run that it is part of."""
    of_record: dict[int, int] = {}
    for delivery in history.deliveries:
        for record in (delivery.record, *delivery.batch):
            call = _call_behind(history, delivery, record)
            of_record.setdefault(
                record, record if call is None else of_record[history.deliveries[_worker(history, call)].record]
            )
    return [of_record[delivery.record] for delivery in history.deliveries]


def happened_in(history: History) -> Happened:
    """Return what had to happen before what."""

    def sender_of(delivery: DeliveryRecord) -> int | None:
        call = _call_behind(history, delivery, delivery.record)
        return None if call is None else _worker(history, call)

    return Happened(history, sender_of)


def _worker(history: History, call: int) -> int:
    """Return the place of the delivery whose worker made a call."""
    return history.calls[call - 1].worker - 1


def _call_behind(history: History, delivery: DeliveryRecord, record: int) -> int | None:
    """Return the call that led to a record. None for a message of the beginning.

    An answer counts for the first run that awaits it.
    """
    if record in history.senders or delivery.queue != PARTIES or delivery.envelope is None:
        return history.senders.get(record)
    answer = json.loads(delivery.envelope.message)
    named = answer["flow"], answer["id"]
    question = next(question for question in history.questions.values() if (question.flow, question.id) == named)
    waits = (version for version in history.versions if version.key == f"run#{question.flow}#{question.object_id}")
    return next(wait.call for wait in waits if wait.item is not None and wait.item.request_id == question.request_id)


def _has_changed(history: History, delivery: DeliveryRecord) -> bool:
    made = (history.calls[number - 1] for number in delivery.calls)
    return any(call.applied and not call.is_read for call in made)
