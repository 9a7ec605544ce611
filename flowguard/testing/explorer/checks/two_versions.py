"""What one version of the code does not take of what the other has left: the cause of a wrong end, and its cure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from flowguard.events import Event, EventType
from flowguard.testing.explorer.checks.problem import EQUIVALENCE, RELEASE, Problem
from flowguard.testing.explorer.checks.remembering import memory
from flowguard.testing.explorer.record.history import DeliveryRecord, History
from flowguard.testing.explorer.record.site import Site
from flowguard.wire.message import FLOW_STAGE

_OTHER: Final = {"old": "new", "new": "old"}

_OF_STAGE: Final = {
    "new": "a stage's name travels in messages: with this release take it out of then= alone, and out of stages= when "
    "no message for it can be left",
    "old": "a rollback meets messages for a stage that only this release has: add the stage with one release, and name "
    "it in then= with the next",
}
_OF_VERSION: Final = "read both versions first (accepts=), and begin runs of the new one with the next release"
_OF_MODEL: Final = {
    "new": "give a new field a default, let a renamed one be read under both names (AliasChoices), or give the flow a "
    "version= and read both",
    "old": "a rollback meets what this release writes: let the old code read it first (a default, AliasChoices, "
    "accepts=), and write it with the next release",
}
_OF_QUEUE: Final = "keep inbox= as it was, or let a function of the other release read the queue until it is empty"
_OF_MEMORY: Final = "keep the name: what is remembered under another one is done again"
_OF_FAILURE: Final = "let this code go on from what the other one has left: its payloads, its state, its answers"
_IN_GENERAL: Final = (
    "the stages of the old code and of the new one do not fit together: keep in each stage what it did, and put what "
    "moves into a stage with a new name, beside the old one until no message for that can be left"
)


class Cause(NamedTuple):
    """What went wrong between the versions. ``site`` is the line of the user's that shows it, if there is one."""

    where: str
    text: str
    fix: str
    site: Site | None = None


def of_cause(history: History, problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems of a schedule. A cause between the versions stands for the problems that follow from it."""
    cause = cause_of(history, {problem.rule for problem in problems})
    if not problems or cause is None:
        return list(problems)
    users = [problem for problem in problems if not _follows(problem)]
    differs = next((problem for problem in problems if problem.rule == EQUIVALENCE), None)
    if differs is None:
        return [Problem(RELEASE, cause.where, cause.text), *users]
    text = f"{cause.text}; so {differs.where}, {differs.text}"
    return [Problem(RELEASE, cause.where, text, differs.expected, differs.found), *users]


def untaken(history: History) -> Iterator[Problem]:
    """Yield the given messages refused by one version alone."""
    if (cause := cause_of(history, ())) is not None:
        yield Problem(RELEASE, cause.where, cause.text)


def cause_of(history: History, rules: Collection[str] = ("I14",)) -> Cause | None:
    """Return the cause. None where only the end shows it."""
    return next(_causes(history, rules), None)


def fix_in_general() -> str:
    """Return the cure of an unexplained end."""
    return _IN_GENERAL


def _follows(problem: Problem) -> bool:
    return problem.rule == EQUIVALENCE or (problem.rule[:1] == "I" and problem.rule[1:].isdigit())


def _causes(history: History, rules: Collection[str]) -> Iterator[Cause]:
    for delivery, event in history.events(EventType.PARKED, EventType.UNROUTABLE):
        if _is_left(history, delivery):
            why, code = str(event.facts.get("why")), delivery.code or "new"
            text = f"the {code} code does not take a message of the {_OTHER[code]} one: {why}"
            yield Cause(_named(delivery, event), text, _fix_of(why, code))
    for delivery, event in history.events(EventType.UNTRUSTED):
        if _is_of_no_stage(delivery, event) and delivery.record not in history.forged and _is_left(history, delivery):
            flow, _, stage = _stage_of(delivery).partition("/")
            text = f"the {delivery.code} code of {flow} has no stage {stage!r} that reads {delivery.queue}"
            yield Cause(_stage_of(delivery), text, f"{_OF_STAGE[delivery.code]}; and keep its inbox= as it was")
    for queue in history.unread:
        yield Cause(queue, "no function of the code reads this queue any more, and a message lies there", _OF_QUEUE)
    yield from _remembered_twice(history)
    for delivery, event in history.events(EventType.FAILED) if "I14" in rules else ():
        if delivery.code:
            text = f"the {delivery.code} code fails where the other one was before: {event.facts.get('why')}"
            yield Cause(_named(delivery, event), text, _OF_FAILURE, delivery.raised_at)


def _is_of_no_stage(delivery: DeliveryRecord, event: Event) -> bool:
    """Answer whether no stage reads a later hop."""
    return bool(delivery.code and _stage_of(delivery)) and "came through the queue" in str(event.facts.get("why"))


def _stage_of(delivery: DeliveryRecord) -> str:
    """Return the flow and stage of a record, ``orders/bill``."""
    attribute = delivery.envelope.attributes.get(FLOW_STAGE) if delivery.envelope is not None else None
    return "" if attribute is None else attribute.value


def _is_left(history: History, delivery: DeliveryRecord) -> bool:
    """Answer whether this was the last delivery of its record."""
    last = [other for other in history.deliveries if other.record == delivery.record][-1]
    return last is delivery


def _named(delivery: DeliveryRecord, event: Event) -> str:
    return f"{event.message.flow}/{event.message.stage}" if event.message else delivery.stage or str(delivery.queue)


def _fix_of(why: str, code: str) -> str:
    if "has no stage" in why:
        return _OF_STAGE[code]
    return _OF_VERSION if "does not read version" in why else _OF_MODEL[code]


def _remembered_twice(history: History) -> Iterator[Cause]:
    """Yield renamed results of a hop."""
    asked = {(delivery.code, *recalled) for delivery in history.deliveries for recalled in delivery.recalled}
    names: dict[tuple[str, str, int], dict[str, str]] = {}
    for version in history.versions:
        code = history.deliveries[version.worker - 1].code
        if version.item is None or not code:
            continue
        hop = version.key, version.item.request_id, version.item.hop
        known = names.setdefault(hop, {})
        new = [name for name in memory(version.item) if name not in known]
        for name in new:
            others = [other for other, of in known.items() if of != code and (code, *hop[1:], other) not in asked]
            if others:
                text = f"the {_OTHER[code]} code remembers {others[0]!r} in hop {hop[2]}, and the {code} one {name!r}"
                yield Cause(version.key, text, _OF_MEMORY, _site(history, version.call))
            known[name] = code


def _site(history: History, call: int) -> Site | None:
    site = history.calls[call - 1].site
    return site if site.is_users else None
