"""The schedules to try next.

They are every fault at every call and delivery of a history, pairs of faults and random walks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.run import Status
from flowguard.sim.shards import shard_of
from flowguard.testing.explorer.record.history import DeliveryRecord, History, Version
from flowguard.testing.explorer.record.redriven_letters import letters
from flowguard.testing.explorer.record.schedule import (
    AFTER_THE_DEADLINE,
    AS_LATE_AS_CAN_BE,
    AT_THE_DEADLINE,
    DEATHS,
    HOLDS,
    OF_ANSWERS,
    OF_CODE,
    OF_DELIVERIES,
    TO_THE_OLD,
    TWICE,
    Choice,
    FaultKind,
    Schedule,
)
from flowguard.testing.explorer.run.expiry import MOST_LATE
from flowguard.testing.explorer.run.fault_effects import LAST_RECEIVE, kinds_at, variants
from flowguard.testing.explorer.search.lasting import lasting, lasting_for_letters
from flowguard.testing.explorer.search.repeated_looks import repeated_looks

TO_THE_END: Final = 999
"""Calls that others make before a worker which is held up goes on: all there are."""

MOST_SWITCHES: Final = 3
"""Of the code in a schedule without a fault: to the other version, back for a delivery, and there again."""

INTERLEAVED: Final = (0, 1, 2, 3, 4, TO_THE_END)
WALKED: Final = tuple(
    kind
    for kind in FaultKind
    if kind
    not in {
        FaultKind.REORDERED,
        FaultKind.REDRIVEN,
        FaultKind.REFUSED,
        FaultKind.STALE,
        FaultKind.MISSING,
        FaultKind.STAYS,
        FaultKind.TURNED,
        FaultKind.PAGED,
        FaultKind.INSIDER,
        FaultKind.WEATHER,
        FaultKind.CODE,
    }
)


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """How many schedules are tried.

    ``bound`` is how many schedules of two faults are tried and ``walks`` how many of more. After ``most`` different
    violations the search ends, and after ``seconds`` by the clock on the wall where they are given. ``for_good`` says
    that refusals which never end are tried, too. ``distrusted`` are the flows that an insider attacks.
    With ``weather`` it begins before each call in turn. ``old`` is the undisturbed run of the older code, where there
    is one: then schedules switch from one to the other, and with ``rollback`` back for good. Without ``twin``, pairs
    and walks the only message is run by itself alone.
    """

    bound: int
    walks: int
    seed: int
    most: int
    for_good: bool = True
    seconds: float | None = None
    distrusted: Collection[str] = ()
    weather: str = ""
    twin: bool = False
    old: History | None = None
    rollback: bool = True


def planned(
    first: History,
    budget: SearchBudget,
    pairs: Callable[[int], Sequence[Schedule]] = lambda _: (),
    refusals: Iterable[Choice] | None = None,
) -> Iterator[Schedule]:
    """Yield all schedules in the order in which they are tried. ``pairs`` are asked for after the single faults.

    ``refusals`` are those that never end: each that the history meets, where they are not given.
    """
    yield Schedule()
    if budget.old is not None:
        yield from _switches(budget.old, 0)
    if budget.old is not None and budget.rollback:
        yield from _switches(first, TO_THE_OLD)
    yield from (Schedule((choice,)) for choice in sorted(choices_in(first), key=_is_hold))
    yield from (Schedule((Choice(1, kind),)) for kind in scans_in(first))
    yield from (Schedule((choice,)) for choice in insiders(first, budget.distrusted))
    if budget.weather:
        yield from (Schedule((Choice(made.number, FaultKind.WEATHER),)) for made in first.calls)
    if len(first.questions) > 1:
        yield Schedule(tuple(Choice(number, FaultKind.MISSING) for number in sorted(first.questions)))
    never_ending = lasting(first) if refusals is None else refusals
    yield from (Schedule((choice,)) for choice in never_ending if budget.for_good)
    if budget.old is not None:
        yield from _before_a_switch(budget.old, 0)
    if budget.old is not None and budget.rollback:
        yield from _before_a_switch(first, TO_THE_OLD)
    yield from pairs(budget.bound)
    yield from _walks(first, budget)


def _switches(history: History, to: int) -> Iterator[Schedule]:
    """Yield the switches to the other code before each delivery of a run but the first."""
    for number in range(2, len(history.deliveries) + 1):
        yield Schedule((Choice(number, FaultKind.CODE, to),))


def _before_a_switch(history: History, to: int) -> Iterator[Schedule]:
    """Yield each fault of a run with a switch right after its delivery: the other code takes up what it has left."""
    for choice in sorted(choices_in(history, after=_BEFORE_ALL), key=_is_hold):
        yield _switched_after(choice, history.calls[choice.at - 1].worker, to)
    for number in range(1, len(history.deliveries) + 1):
        yield _switched_after(Choice(number, FaultKind.DUPLICATED), number, to)


def _switched_after(choice: Choice, delivery: int, to: int) -> Schedule:
    return Schedule((choice, Choice(delivery + 1, FaultKind.CODE, to)))


def scans_in(history: History) -> Sequence[FaultKind]:
    """Return in which other ways Scans and Queries of user code may answer."""
    read = [made.ways for made in history.calls if made.site.is_users and made.applied]
    return tuple(dict.fromkeys(kind for ways in sorted(read, key=len, reverse=True) for kind in ways))


def races(history: History) -> Iterator[Schedule]:
    """Yield a hold-up before each call of user code while another record waits: what two messages do to one another."""
    waited = {delivery.worker for delivery in history.deliveries if delivery.others}
    held = {made.number for made in history.calls if made.site.is_users and made.worker in waited}
    for choice in choices_in(history):
        if choice.kind in HOLDS and choice.at in held:
            yield Schedule((choice,))


def _is_hold(choice: Choice) -> bool:
    """Answer whether a worker is held up: what a death shows as well is plainer with that."""
    return choice.kind in HOLDS


def reorderings(history: History) -> Iterator[Choice]:
    last = max((choice.at for choice in history.schedule.choices if choice.kind in OF_DELIVERIES), default=0)
    for number, delivery in enumerate(history.deliveries, 1):
        if number > last:
            yield from (Choice(number, FaultKind.REORDERED, more) for more in range(1, delivery.others + 1))


_BEFORE_ALL: Final = Choice(0, FaultKind.DIES_BEFORE)
"""What comes after it is every call, with one variant of each fault."""

_OF_OUTSIDE = frozenset({"keep early", "find rows"})
"""Calls for an answer from outside. A template lets it be received a thousand times: no one death is the last."""


def _is_of_shard(delivery: DeliveryRecord) -> bool:
    """Answer whether a shard delivers the record, which gives none up by the number of its receives."""
    return delivery.envelope is not None and shard_of(delivery.envelope) is not None


def choices_in(history: History, *, after: Choice | None = None) -> Iterator[Choice]:
    """Yield every fault at every call and delivery that is later than ``after``, but for looks that repeat others.

    A second fault has one variant.
    """
    repeated = repeated_looks(history)
    firsts = {delivery.calls[0] for delivery in history.deliveries if delivery.calls}
    from_dlq = {delivery.worker for delivery in history.deliveries if delivery.from_dlq}
    from_dlq |= {made.worker for made in history.calls if str(made.site) in _OF_OUTSIDE}
    from_dlq |= {delivery.worker for delivery in history.deliveries if _is_of_shard(delivery)}
    queued = {delivery.worker for delivery in history.deliveries if delivery.queue is not None}
    for made in history.calls[_beyond(history, after) :]:
        if made.worker in repeated:
            continue
        for kind in kinds_at(made, first=made.number in firsts, queued=made.worker in queued):
            several = variants(kind, made, from_dlq=made.worker in from_dlq, interleaved=INTERLEAVED)
            yield from (Choice(made.number, kind, more) for more in (several if after is None else several[:1]))
    if after is None:
        for number in range(1, len(history.deliveries) + 1):
            if number not in repeated:
                yield from (Choice(number, FaultKind.DUPLICATED, more) for more in (0, 1, AS_LATE_AS_CAN_BE))
        for number in sorted(history.questions):
            yield from (Choice(number, FaultKind.MISSING, more) for more in (0, AFTER_THE_DEADLINE, AT_THE_DEADLINE))


def insiders(history: History, flows: Collection[str]) -> Iterator[Choice]:
    """Yield an insider after each delivery that has changed what runs of these flows wait for."""
    of_worker: dict[int, list[Version]] = {}
    for version in history.versions:
        of_worker.setdefault(version.worker, []).append(version)
    for number, delivery in enumerate(history.deliveries, 1):
        changed = False
        for version in of_worker.get(delivery.worker, ()):
            is_waiting = version.item is not None and version.item.status is Status.WAITING
            changed |= is_waiting and version.key.split("#")[1] in flows
        if changed:
            yield Choice(number + 1, FaultKind.INSIDER)


def _beyond(history: History, after: Choice | None) -> int:
    if after is None or after.kind in OF_DELIVERIES | OF_ANSWERS | OF_CODE:
        return 0
    return history.redriven[-1].after_call if after.kind is FaultKind.REDRIVEN and history.redriven else after.at


def follow_ups(history: History, flows: Sequence[AnyFlow]) -> Iterator[Choice]:
    """Yield what is always tried after a schedule, beyond the bound too.

    Each dead letter is sent back, but for what is parked for another version of the code: it would be parked again.
    Where nothing else went wrong than that SQS gave a record up, it is also sent back
    twice at once, and once more later. A copy of what arrived late arrives as late again. What has expired stays as
    well. Where something is refused for good the dead letters' queue refuses, too. The code is switched back for one
    delivery, and then for good.
    """
    choices = history.schedule.choices
    if history.forged:
        return
    redrives = [choice for choice in choices if choice.kind is FaultKind.REDRIVEN]
    is_plain = all(choice in redrives or _gives_up(choice) for choice in choices)
    if not redrives and not (history.schedule.has(OF_CODE) and any(history.events(EventType.PARKED))):
        for number, _ in enumerate(letters(history, flows), 1):
            yield from (Choice(number, FaultKind.REDRIVEN, more) for more in ((0, TWICE) if is_plain else (0,)))
    elif is_plain and len(redrives) == 1 and not redrives[0].more:
        yield redrives[0]
    if 0 < len(choices) < MOST_SWITCHES and all(choice.kind is FaultKind.CODE for choice in choices):
        yield from _switched_back(history, choices[-1])
    if len(choices) == 1 and choices[0].kind is FaultKind.REFUSED:
        yield from lasting_for_letters(history)
    if history.expired and len(choices) <= 1:
        yield Choice(1, FaultKind.STAYS)
    if len(choices) == 1 and choices[0].more == AS_LATE_AS_CAN_BE and choices[0].kind is FaultKind.DUPLICATED:
        yield from (Choice(number, FaultKind.DUPLICATED, AS_LATE_AS_CAN_BE) for number in _after_the_copy(history))


def _switched_back(history: History, last: Choice) -> Iterator[Choice]:
    """Yield the switch back at the next delivery: a rollback, or a warm worker of the older code."""
    if last.at < len(history.deliveries):
        yield Choice(last.at + 1, FaultKind.CODE, 0 if last.more == TO_THE_OLD else TO_THE_OLD)


def _gives_up(choice: Choice) -> bool:
    return choice.kind in DEATHS and choice.more == LAST_RECEIVE


def _after_the_copy(history: History) -> list[int]:
    """Return the deliveries since the late copy, without that copy."""
    copies = [place for place, delivery in enumerate(history.deliveries) if delivery.record in history.copies]
    return list(range(copies[0] + 2, len(history.deliveries) + 1)) if copies else []


def _walks(first: History, budget: SearchBudget) -> Iterator[Schedule]:
    draw = random.Random(budget.seed)  # noqa: S311 - repeatable on purpose
    calls, deliveries = len(first.calls), len(first.deliveries)
    if not calls:  # nothing can go wrong but that a record is delivered twice, which was tried
        return
    for _ in range(budget.walks):
        choices: list[Choice] = []
        for _ in range(draw.randint(2, 5)):
            kind = draw.choice(WALKED)
            at = draw.randint(1, 2 * (deliveries if kind is FaultKind.DUPLICATED else calls))
            choices.append(Choice(at, kind, draw.choice(_WALKED_VARIANTS.get(kind, (0,)))))
        late = [
            choice for choice in choices if choice.kind is FaultKind.DUPLICATED and choice.more == AS_LATE_AS_CAN_BE
        ]
        yield Schedule(tuple(sorted(choice for choice in choices if choice not in late[MOST_LATE:])))


_WALKED_VARIANTS: Final = {
    FaultKind.HELD_UP: INTERLEAVED,
    FaultKind.DUPLICATED: (0, 1, AS_LATE_AS_CAN_BE),
    FaultKind.PARTIAL: (1, 2),
}
