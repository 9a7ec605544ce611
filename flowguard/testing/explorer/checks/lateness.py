"""Answers and dead letters that come too late since something went wrong, so that another end is right."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.redriven_letters import letters
from flowguard.testing.explorer.record.schedule import OF_ANSWERS
from flowguard.verdicts import AnswerVerdict

_Awaited: TypeAlias = tuple[str, str, int, str]
"""The key of a run item, and the request id, hop and name that wait."""


def came_late(history: History) -> bool:
    """Answer whether a wait timed out to which an answer came later, though its schedule does not say so."""
    meant = {choice.at for choice in history.schedule.choices if choice.kind in OF_ANSWERS}
    asked = {
        (f"run#{question.flow}#{question.object_id}", question.request_id, question.hop, question.name)
        for number, question in history.questions.items()
        if number in meant
    }
    return bool((set(_expired(history)) & set(_timed_out(history))) - asked)


def was_parked(history: History, flows: Sequence[AnyFlow]) -> bool:
    """Answer whether a message that a flow takes for an answer was refused for good, and a wait timed out."""
    taken = {str(callback.source) for flow in flows for callback in flow.callbacks}
    parked = {str(message.unsent.to) for message in history.posted if message.unsent is not None}
    return bool(taken & parked) and any(True for _ in _timed_out(history))


def came_after_later(history: History, flows: Sequence[AnyFlow], later: Collection[int]) -> bool:
    """Answer whether a dead letter lay there at one of these moments, and was sent back after it.

    Later messages come then. That order is none of those in which nothing goes wrong.
    """
    if not later or not history.redriven:
        return False
    there = letters(history, flows)
    return any(there[letter.number - 1].at < moment for letter in history.redriven for moment in later)


def _expired(history: History) -> Iterator[_Awaited]:
    for _, event in history.events(EventType.ANSWERED):
        message = event.message
        if message is not None and event.facts.get("verdict") == AnswerVerdict.EXPIRED:
            key = f"run#{message.flow}#{message.object_id}"
            yield key, message.request_id, message.hop, str(event.facts.get("name"))


def _timed_out(history: History) -> Iterator[_Awaited]:
    """Yield the names without an answer of each wait that timed out."""
    for version in history.versions:
        item = version.item
        if item is not None and item.wait is not None and item.wait.timed_out and item.done:
            yield from ((version.key, item.request_id, item.hop, name) for name in item.wait.waiting)
