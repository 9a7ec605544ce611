"""Who did it, and what is likely to help: a call of user code that took effect more often than undisturbed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from flowguard.testing.explore.history import History, Made
from flowguard.testing.explore.posted import SENDING
from flowguard.testing.explore.problem import EQUIVALENCE, Problem
from flowguard.testing.explore.schedule import DEATHS, ERRORS, HOLDS, Kind
from flowguard.testing.explore.site import Site

_RECORDED: Final = {"PutItem": "put", "UpdateItem": "update", "DeleteItem": "delete"}

Effects = Counter[tuple[Site, str, str]]
"""How often the calls of each line of user code took effect, by site, operation and target."""


@dataclass(frozen=True, slots=True)
class Cure:
    """``site`` is the line to change, None where no line of user code is to blame."""

    site: Site | None
    text: str


def effects(history: History) -> Effects:
    found: Effects = Counter()
    for made in history.calls:
        if made.site.is_users and not made.is_read:
            found[made.site, made.operation, made.target] += made.applied
    return found


def cure(history: History, undisturbed: Iterable[Effects], problem: Problem) -> Cure:
    """For one problem of a schedule, given the effects of the runs in which nothing went wrong."""
    most: Effects = Counter()
    for one in undisturbed:
        most |= one
    excess = effects(history) - most
    about = problem.where.rpartition(":")[2]
    guilty = sorted(excess, key=lambda one: (about not in one[2].split(", "), str(one[0])))
    if guilty:
        return _of_call(history, *guilty[0])
    if missing := [made for made in history.calls if _is_missing(made, history, most)]:
        made = missing[0]
        return Cure(
            made.site,
            f"this boto3 {made.operation} at {made.site} failed, and the stage went on without it: let the error "
            f"out, so that the stage is tried again, or record it with step.{_RECORDED.get(made.operation, 'send')}",
        )
    if problem.rule == EQUIVALENCE:
        name = problem.text.rpartition(": ")[2].partition(" ")[0]
        return Cure(
            None,
            f"what the stage gave differs from attempt to attempt: make it of step.request_id, step.requested_at or "
            f'step.state; or say that it may differ: free={{"{about}": ["{name}"]}}',
        )
    if problem.rule[:1] == "I" and problem.rule[1:].isdigit():
        return Cure(None, "flowguard itself promises this: please report it, with the schedule's id and the flow")
    return Cure(None, "no call of boto3 in your code was repeated: look at what the stages record, and at the order")


def _is_missing(made: Made, history: History, most: Effects) -> bool:
    key = made.site, made.operation, made.target
    return made.site.is_users and made.error is not None and effects(history)[key] < most[key]


def _of_call(history: History, site: Site, operation: str, target: str) -> Cure:
    again = _again(history, site)
    if operation in SENDING:
        cause = f"this boto3 {operation} at {site} {again}, and nothing on the message says that it is a copy"
        return Cure(site, f"{cause}: record it with step.send, which gives it an id and sends it after the commit")
    if operation not in _RECORDED:
        return Cure(site, f"this boto3 {operation} at {site} {again}: make it safe to repeat, or move it into the step")
    if history.schedule.has(HOLDS) and (check := _check_before(history, site, target)) is not None:
        return Cure(
            site,
            f"between the check at {check} and this boto3 {operation} at {site} another worker did the same: put the "
            f"check into the write's own ConditionExpression, or record it with step.{_RECORDED[operation]}",
        )
    return Cure(
        site,
        f"this boto3 {operation} at {site} {again}: record it with step.{_RECORDED[operation]}, or make it conditional",
    )


def _again(history: History, site: Site) -> str:
    kinds = {choice.kind for choice in history.schedule.choices}
    if any(made.site == site and made.fault is Kind.LOST for made in history.calls):
        return "is repeated by botocore when its answer is lost"
    if kinds & DEATHS:
        return "runs again after a crash"
    if kinds & HOLDS:
        return "runs in two workers at once"
    if Kind.DUPLICATED in kinds:
        return "runs again for a duplicate"
    return "runs again when the stage is tried again" if kinds & ERRORS else "runs more often than undisturbed"


def _check_before(history: History, site: Site, target: str) -> Site | None:
    """Where the same worker had read the same table before it wrote."""
    writes = [made for made in history.calls if made.site == site and made.applied]
    for write in reversed(writes):
        for made in history.calls[: write.number - 1]:
            if _is_check(made, write, target):
                return made.site
    return None


def _is_check(made: Made, write: Made, target: str) -> bool:
    return made.worker == write.worker and made.is_read and made.site.is_users and made.target == target
