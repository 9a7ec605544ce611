"""The parts of a schedule that its run never met. They name a call, a delivery or a dead letter that there was not."""

from __future__ import annotations

from typing import assert_never

from flowguard.errors import FlowguardError
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import HOLDS, Choice, FaultKind


class UnmetSchedule(FlowguardError):
    """A part of the schedule changes nothing in this run. ``why`` says what the run has instead."""

    def __init__(self, schedule: str, part: str, why: str) -> None:
        super().__init__(schedule, part, why)
        self.schedule = schedule
        self.part = part
        self.why = why

    def __str__(self) -> str:
        return f"{self.part} of the schedule {self.schedule!r} changes nothing: {self.why}"


def check_met(history: History) -> None:
    """Raise :class:`UnmetSchedule` for the first part of the schedule that its run did not meet."""
    for choice in history.schedule.choices:
        if (why := _why_unmet(history, choice)) is not None:
            raise UnmetSchedule(history.schedule.id, str(choice), why)


def _why_unmet(history: History, choice: Choice) -> str | None:
    match choice.kind:
        case FaultKind.DUPLICATED | FaultKind.REORDERED | FaultKind.CODE:
            return _of_delivery(history, choice)
        case FaultKind.INSIDER:
            return None if history.forged else "no run waits then that an insider could reach"
        case FaultKind.WEATHER:
            return None if choice.at <= len(history.calls) else f"the run has {_many(len(history.calls), 'call')}"
        case FaultKind.STAYS:
            return None if history.expired else "nothing of the run expires"
        case FaultKind.TURNED | FaultKind.PAGED:
            met = any(made.fault is choice.kind for made in history.calls)
            return None if met else "no Scan or Query in the run could answer otherwise"
        case FaultKind.MISSING:
            met = choice.at in history.questions
            return None if met else f"parties outside were asked {_many(len(history.questions), 'question')}"
        case FaultKind.REDRIVEN:
            met = any(redriven.number == choice.at for redriven in history.redriven)
            return None if met else f"{_many(len(history.redriven), 'dead letter')} could be sent back"
        case (
            FaultKind.DIES_BEFORE
            | FaultKind.DIES_AFTER
            | FaultKind.ERROR
            | FaultKind.THROTTLED
            | FaultKind.LOST
            | FaultKind.UNANSWERED
            | FaultKind.PARTIAL
            | FaultKind.STALE
            | FaultKind.SEEN_EARLY
            | FaultKind.HELD_UP
            | FaultKind.REFUSED
        ):
            return _of_call(history, choice)
        case _:
            assert_never(choice.kind)


def _of_delivery(history: History, choice: Choice) -> str | None:
    if choice.at > len(history.deliveries):
        return f"the run has {_many(len(history.deliveries), 'delivery', 'deliveries')}"
    others = history.deliveries[choice.at - 1].others
    if choice.kind is FaultKind.REORDERED and not 0 < choice.more <= others:
        return f"{_many(others, 'other record')} waited at delivery {choice.at}"
    return None


def _of_call(history: History, choice: Choice) -> str | None:
    if choice.at > len(history.calls):
        return f"the run has {_many(len(history.calls), 'call')}"
    made = history.calls[choice.at - 1]
    if made.fault is not None or choice.kind in HOLDS:  # of two the first is noted; whoever is held makes a later call
        return None
    return f"call {choice.at}, {made.service} {made.operation}, cannot meet that"


def _many(count: int, noun: str, several: str = "") -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {several or noun + 's'}"
