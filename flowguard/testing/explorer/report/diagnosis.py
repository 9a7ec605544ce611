"""The likely fix  of a problem and the line of user code that causes it.

The usual cause is a call that took effect more often than undisturbed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flowguard.protocol.run import Status
from flowguard.sim.sends import SENDS
from flowguard.testing.explorer.checks.either import OneOf
from flowguard.testing.explorer.checks.problem import EQUIVALENCE, HANGS, ORDER, RELEASE, STATE, UNDISTURBED, Problem
from flowguard.testing.explorer.checks.two_versions import cause_of, fix_in_general
from flowguard.testing.explorer.checks.undisturbed import COMING_LIKE_THIS, SENT_TWICE
from flowguard.testing.explorer.record.history import CallRecord, History
from flowguard.testing.explorer.record.noted_calls import ONCE_MORE
from flowguard.testing.explorer.record.outside_call import named_apart
from flowguard.testing.explorer.record.schedule import DEATHS, HOLDS, OF_CODE, OF_SCANS, RAISED, FaultKind
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.report.after_errors import (
    fix_deleted_first,
    fix_locked,
    fix_overtaken,
    fix_taken_back,
    fix_unheard,
    is_taken_back,
)
from flowguard.testing.explorer.report.outside_fixes import call_named, fix_outside

_RECORDED: Final = {"PutItem": "put", "UpdateItem": "update", "DeleteItem": "delete"}

Effects = Counter[tuple[Site, str, str]]
"""How often the calls of each line of user code took effect, by site, operation and target."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """``site`` is the line to change. It is None where no line of user code is to blame.

    ``is_whole`` says that it explains whatever else differs in its schedule. ``option`` is how to say that this is
    meant, and what is not looked at then.
    """

    site: Site | None
    text: str
    is_whole: bool = False
    option: str = ""


def effects(history: History) -> Effects:
    counter: Effects = Counter()
    for made in history.calls:
        if _is_users(made) and not made.is_read:
            counter[made.site, made.operation, made.target] += made.applied
    return counter


def _is_users(made: CallRecord) -> bool:
    """Answer whether a line of the user's makes the call itself. A method of the step is no boto3 of his."""
    return made.site.is_users and not made.site.by_flowguard


def diagnose(
    history: History, undisturbed: Iterable[Effects], problem: Problem, differing: Collection[str] = ()
) -> Diagnosis:
    """Return the likely fix  of one problem of a schedule.

    ``undisturbed`` holds the effects of the runs in which nothing went wrong, ``differing`` what all problems of the
    schedule are about. A call that was repeated is to blame only where what it writes to is among these.
    """
    if problem.rule in _OF_RULES:
        return _OF_RULES[problem.rule](history, problem)
    if (locked := fix_locked(history)) is not None:
        return Diagnosis(*locked, is_whole=True)
    most: Effects = Counter()
    least: Effects | None = None
    for seen in undisturbed:
        most |= seen
        least = seen if least is None else least & seen
    is_plain = is_of_plain_functions(history)
    repeated = _of_repeated_call(history, most, problem, differing, is_plain=is_plain)
    if (diagnosis := repeated or _of_failed_call(history, most, is_plain=is_plain)) is not None:
        return diagnosis
    ours = problem.rule[:1] == "I" and problem.rule[1:].isdigit()
    if not ours and (diagnosis := _of_lost_call(history, least or Counter(), is_plain=is_plain)) is not None:
        return diagnosis
    if problem.rule == EQUIVALENCE and history.schedule.has(OF_CODE):
        about = named_apart(problem.where)[1]
        return Diagnosis(_last_write(history, problem.where), fix_in_general(), option=_mixed(problem, about))
    if problem.rule == EQUIVALENCE:
        return _of_another_end(history, problem, is_plain=is_plain)
    return Diagnosis(None, _in_general(problem.rule, ours=ours))


def _of_repeated_call(
    history: History, most: Effects, problem: Problem, differing: Collection[str], *, is_plain: bool
) -> Diagnosis | None:
    """Return the fix of a read that was behind, or a call that took effect too often. None where there is neither."""
    stale = [made for made in history.struck() if made.fault is FaultKind.STALE and _is_users(made)]
    if stale:
        return _of_stale(stale[0])
    if scans := [made for made in history.struck() if made.fault in OF_SCANS and _is_users(made)]:
        return _of_scan(scans[0])
    excess = [effect for effect in effects(history) - most if _is_among(effect, differing, problem)]
    if not excess:
        return None
    guilty = min(excess, key=lambda effect: _rank(effect, problem.where, most))
    if (fix := fix_taken_back(guilty, most)) is not None:
        return Diagnosis(guilty[0], fix)
    return _of_call(history, *guilty, is_plain=is_plain)


def _of_lost_call(history: History, least: Effects, *, is_plain: bool) -> Diagnosis | None:
    """Return the fix of a call that was never made, or made too late. None where each undisturbed one was made."""
    if left_out := least - effects(history):
        if (deleted := fix_deleted_first(history)) is not None:
            return Diagnosis(*deleted, is_whole=True)
        return _left_out(*next(iter(left_out)), is_plain=is_plain)
    if late := [made for made in history.calls if _is_late(made, history)]:
        made = late[0]
        check = _check_before(history, made.site, made.target)
        return _checked(made.site, made.operation, check, is_conditional=made.conditional, is_plain=is_plain)
    return None


def _of_another_end(history: History, problem: Problem, *, is_plain: bool) -> Diagnosis:
    """Return the fix of an end that differs though each call was made as often as undisturbed."""
    if (unheard := fix_unheard(history, _work(is_plain))) is not None:
        return Diagnosis(*unheard)
    service, about = named_apart(problem.where)
    site = history.recorded.get(about) or _last_write(history, problem.where)
    cure = "write under a condition on what was read" + _or(is_plain, "let step.modify read and write it")
    if not service and (overtaken := fix_overtaken(history, about, cure)) is not None:
        return Diagnosis(site, overtaken)
    return Diagnosis(site, _of_differing(is_plain=is_plain), option=_free(problem, about))


def _of_failed_call(history: History, most: Effects, *, is_plain: bool) -> Diagnosis | None:
    """Return the fix where user code went on after a call that failed. None where it did not."""
    if in_part := [made for made in history.calls if made.refused and _is_users(made)]:
        made = in_part[0]
        return Diagnosis(
            made.site,
            f"this boto3 {made.operation} at {made.site} was taken in part, and the {_work(is_plain)} went on: "
            f"{_for_a_part(made, is_plain=is_plain)}",
        )
    if forgotten := [made for made in history.calls if _is_forgotten(made, history)]:
        made = forgotten[0]
        return Diagnosis(
            made.site,
            f"this {call_named(made.operation, made.service)} at {made.site} failed, and other records of the batch "
            "were answered as processed: go on with the next one, or list in batchItemFailures each from the one that "
            "failed on",
        )
    if missing := [made for made in history.calls if _is_missing(made, history, most)]:
        made = missing[0]
        recorded = f"record it with step.{_RECORDED.get(made.operation, 'send')}"
        if not is_plain and _is_before_a_claim(made, history):
            return Diagnosis(
                made.site,
                f"this {call_named(made.operation, made.service)} at {made.site} runs while the message is read, "
                f"before its hop is claimed and for each copy of it: move it into the stage's handle, and {recorded}",
            )
        return Diagnosis(
            made.site,
            f"this {call_named(made.operation, made.service)} at {made.site} failed, and the {_work(is_plain)} went on "
            f"without it: let the error out, so that the {_work(is_plain)} is tried again" + _or(is_plain, recorded),
        )
    return None


def _is_before_a_claim(made: CallRecord, history: History) -> bool:
    """Answer whether nobody had asked for a run item yet: validators run while the message is read."""
    before = (call for call in history.calls[: made.number - 1] if call.worker == made.worker)
    return not any(call.service == "dynamodb" and not call.site.is_users for call in before)


def _is_among(effect: tuple[Site, str, str], differing: Collection[str], problem: Problem) -> bool:
    """Answer whether a line's calls are about something that differs. Of flowguard's own promises all may be."""
    _, operation, target = effect
    return problem.rule != EQUIVALENCE or any(
        concerns(operation, target, where) for where in {problem.where, *differing}
    )


def concerns(operation: str, target: str, where: str) -> bool:
    """Answer whether a call is about a table, bucket or destination: a topic may have the name of a bucket."""
    service, name = named_apart(where)
    if service == "aws":
        return operation.startswith(ONCE_MORE)
    if name not in target.split(", "):
        return False
    if service in ("outside", "sqlite", "postgres"):
        return True
    if service in ("", "s3"):
        return operation not in SENDS and ("Object" in operation) == (service == "s3")
    return operation in SENDS


def _last_write(history: History, where: str) -> Site | None:
    shown = [made.site for made in _writes(history) if concerns(made.operation, made.target, where)]
    return shown[-1] if shown else None


def is_of_plain_functions(history: History) -> bool:
    """Answer whether only plain functions had records, which have no step to record anything with."""
    return bool(history.inner) and all(f"sqs:{delivery.queue}" in history.inner for delivery in history.deliveries)


def _or(is_plain: bool, fix: str) -> str:
    """Return another fix, which only a stage has."""
    return "" if is_plain else f", or {fix}"


def _work(is_plain: bool) -> str:
    return "function" if is_plain else "stage"


def _of_differing(*, is_plain: bool) -> str:
    """Return the fix of an end that differs though no call was repeated."""
    of = "what the message says" if is_plain else "step.request_id, step.requested_at or step.state"
    subject = "what the function wrote" if is_plain else "what the stage gave"
    return f"{subject} differs from attempt to attempt: make it of {of}"


def _free(problem: Problem, about: str) -> str:
    """Return how to say that a value may differ. Empty where what differs is no value of another content.

    A copy of an item, a longer list or another number is what a fault does to a bug.
    """
    name = problem.text.rpartition(": ")[2].partition(" ")[0]
    if isinstance(problem.expected, OneOf) or isinstance(problem.found, OneOf):
        return ""
    if isinstance(problem.expected, str) and isinstance(problem.found, str) and ": " in problem.text:
        return f'free={{"{about}": ["{name}"]}}: {name} is not compared any more'
    return ""


def _mixed(problem: Problem, about: str) -> str:
    """Return the options for a list, a map or a body."""
    kinds = {type(problem.expected), type(problem.found)}
    names = [problem.text.rpartition(": ")[2]] if kinds <= {list, dict} else _differing_fields(problem)
    if not names:
        return ""
    listed, forms = json.dumps(names), ", ".join(f'"{name}": …' for name in names)
    not_compared = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} not compared any more"
    forms = f'either={{"{about}": [{{{forms}}}]}} with all forms that are right'
    return f'{forms}; or free={{"{about}": {listed}}}: {not_compared}'


def _differing_fields(problem: Problem) -> list[str]:
    """Return the differing fields of two bodies."""
    if not problem.text.startswith("message ") or not isinstance(problem.expected, str):
        return []
    try:
        bodies = json.loads(problem.expected), json.loads(str(problem.found))
    except ValueError:
        return []
    right, wrong = (body if isinstance(body, dict) else {} for body in bodies)
    return sorted(name for name in right.keys() | wrong.keys() if right.get(name, ...) != wrong.get(name, ...))


def _of_scan(made: CallRecord) -> Diagnosis:
    """Return the fix of code that relies on the order or the first page of a Scan or Query."""
    if made.fault is FaultKind.PAGED:
        text = "answers in pages: go on from LastEvaluatedKey until there is none, as a paginator does"
    elif made.operation == "Query":
        text = "answers items of one key in any order: sort what it answers, or give the index a finer range key"
    else:
        text = "answers in no order that may be relied on: sort what it answers, or Query by a sort key"
    return Diagnosis(made.site, f"this boto3 {made.operation} at {made.site} {text}")


_OF_TABLE: Final = "read with ConsistentRead=True, or do not depend on it"
_OF_INDEX: Final = "an index is always behind: read the table by its key, or do not depend on it"


def _of_stale(made: CallRecord) -> Diagnosis:
    return Diagnosis(
        made.site,
        f"this boto3 {made.operation} at {made.site} may not see what was written a moment ago: "
        + (_OF_INDEX if FaultKind.TURNED in made.ways and made.operation == "Query" else _OF_TABLE),
    )


def _for_a_part(made: CallRecord, *, is_plain: bool) -> str:
    if made.operation in SENDS:
        return f"look at {SENDS[made.operation].failures} in its answer{_or(is_plain, 'record it with step.send')}"
    left = "UnprocessedKeys" if made.is_read else "UnprocessedItems"
    return f"ask again for what {left} of its answer names, until there is nothing"


_UNANSWERED: Final = re.compile("no answer to (.+) came in time")

_UNINDEXED: Final = re.compile("does not have the specified index: (.+)")

_ANY_ORDER: Final = "any_order=True"
_NO_ORDERS: Final = "what the order of records or runs changes is not looked at"

_FOR_A_HANG: Final = "let it end: no wait without a time-out, and no loop without an end"


def _of_undisturbed(history: History, problem: Problem) -> Diagnosis:
    for lack in history.lacks:
        if lack.what == problem.text:
            return Diagnosis(lack.site if lack.site.is_users else None, lack.fix)
    if problem.text == SENT_TWICE:
        return Diagnosis(None, "flowguard sends it once where nothing fails: please report it; its id is the same")
    if problem.expected == Status.FAILED.value:
        return Diagnosis(
            None, f"{problem.where} works now", option=f"leave {problem.where} out of failing: its end is compared then"
        )
    if unanswered := _UNANSWERED.search(problem.text):
        name = unanswered[1]
        return Diagnosis(
            None,
            f"nobody answers {name!r}: say what does, as ANSWERS = {{{name!r}: …}} in the flow's module, "
            f"answers={{{name!r}: …}} or --answer {name}=…; or name the stage that goes on without it: on_timeout=…",
        )
    if problem.text.startswith(COMING_LIKE_THIS):
        return Diagnosis(
            _failed_at(history, problem.text),
            "answers and messages come in any order, and an answer may never come: let it work then too, or raise "
            "Reject where that is meant",
            option="failing=[…], --failing …, with its object: it is meant to fail",
        )
    return _of_no_index(history, problem.text) or Diagnosis(
        _failed_at(history, problem.text),
        _FOR_A_HANG
        if history.hung is not None
        else "make it work first, or give it what it needs (items, tables, buckets): till then every end is alike",
        option="" if history.hung is not None else "failing=[…], --failing …, with its object: it is meant to fail",
    )


def _of_no_index(history: History, why: str) -> Diagnosis | None:
    """Name the index that a query asks for and its table has not."""
    refused = [made.target for made in history.calls if made.error is not None and made.is_read]
    if (match := _UNINDEXED.search(why)) is None or not refused:
        return None
    name = match[1]
    return Diagnosis(
        _failed_at(history, why),
        f"the table {refused[-1]!r} has no index {name!r}: look whether the name is spelled as in TABLES, and name the "
        f'index there if it is missing: {{"key": …, "indexes": {{{name!r}: …}}}}',
    )


def _of_hang(history: History, problem: Problem) -> Diagnosis:
    return Diagnosis(history.hung.raised_at if history.hung is not None else None, _FOR_A_HANG)


def _of_order(history: History, problem: Problem) -> Diagnosis:
    """Name the last write to the table that differs."""
    if not is_of_plain_functions(history):
        about = problem.where.rpartition(":")[2]
        return Diagnosis(
            history.recorded.get(about) or _last_write(history, problem.where),
            "two runs met between their stages: read what this depends on in the stage that writes it, and write it "
            "under a condition, or with step.modify",
            option=f"{_ANY_ORDER}, or ANY_ORDER = True in the flow's module: {_NO_ORDERS}",
        )
    return Diagnosis(
        _last_write(history, problem.where),
        "let what was sent last win, whichever arrives last, by a condition on a version or time of the sender's; "
        "or use a FIFO queue with one group",
        option=f"{_ANY_ORDER}: {_NO_ORDERS}",
    )


def _writes(history: History) -> list[CallRecord]:
    return [made for made in history.calls if made.site.is_users and not made.is_read and made.applied]


def _of_state(history: History, problem: Problem) -> Diagnosis:
    """Name the write that shows what was kept: the last one to the table that differs."""
    fix = f"keep nothing of a record in {problem.where}: make it anew in each invocation"
    shown = [
        made.site
        for made in _writes(history)
        if f" {made.target}," in problem.text or f":{made.target}," in problem.text
    ]
    return Diagnosis(shown[-1] if shown else None, fix)


def _of_release(history: History, problem: Problem) -> Diagnosis:
    cause = cause_of(history)
    return Diagnosis(None, fix_in_general()) if cause is None else Diagnosis(cause.site, cause.fix)


_OF_RULES: Final[Mapping[str, Callable[[History, Problem], Diagnosis]]] = {
    UNDISTURBED: _of_undisturbed,
    HANGS: _of_hang,
    STATE: _of_state,
    ORDER: _of_order,
    RELEASE: _of_release,
}


def _failed_at(history: History, why: str) -> Site | None:
    """Return the line at which an undisturbed run failed: that of its error, or of the call that was refused so."""
    for delivery in reversed(history.deliveries):
        if delivery.raised_at is not None and (delivery.why is None or delivery.why in why):
            return delivery.raised_at
    refused = [made.site for made in history.calls if made.error and made.error in why and made.site.is_users]
    return refused[-1] if refused else None


def _in_general(rule: str, *, ours: bool) -> str:
    if ours:
        return "flowguard itself promises this: please report it, with the schedule's id and the flow"
    return "no call of boto3 in your code was repeated: look at what the stages record, and at the order"


def _rank(effect: tuple[Site, str, str], where: str, most: Effects) -> tuple[bool, bool, bool, str]:
    """Return a sort key that puts a deletion after an error first, for it leads to the others.

    Then come calls on the problem's own target, and the user's own before those that a library makes for him.
    """
    site, operation, target = effect
    return not is_taken_back(effect, most), not concerns(operation, target, where), site.by_library, str(site)


def _is_late(made: CallRecord, history: History) -> bool:
    """Answer whether a write came after another worker's, which the read that decided it had not seen."""
    if made.operation not in (*_RECORDED, "PutObject") or not (_is_users(made) and made.applied):
        return False
    before = [call for call in history.calls[: made.number - 1] if _is_check(call, made, made.target)]
    if not before:
        return False
    between = history.calls[before[-1].number : made.number - 1]
    return bool(made.held) or any(call.worker != made.worker and _is_other_write(call, made) for call in between)


def _is_other_write(made: CallRecord, write: CallRecord) -> bool:
    return bool(made.applied) and not made.is_read and made.target == write.target and made.key == write.key


def _checked(site: Site, operation: str, check: Site | None, *, is_conditional: bool, is_plain: bool) -> Diagnosis:
    if operation == "PutObject":
        return Diagnosis(
            site,
            f"between the read at {check} and this boto3 {operation} at {site} another worker wrote: give each "
            "message an object of its own, or write under IfMatch, with the ETag of what was read",
        )
    condition = "ConditionExpression too, which does not see it" if is_conditional else "own ConditionExpression"
    return Diagnosis(
        site,
        f"between the check at {check} and this boto3 {operation} at {site} another worker wrote: put the "
        f"check into the write's {condition}{_or(is_plain, f'record it with step.{_RECORDED[operation]}')}",
    )


def _left_out(site: Site, operation: str, target: str, *, is_plain: bool) -> Diagnosis:
    return Diagnosis(
        site,
        f"this {call_named(operation)} at {site} was never made: the first attempt ended just before it, and the next "
        "one found what the first had written and left this call out: write both in one transaction"
        + _or(is_plain, f"record it with step.{_RECORDED.get(operation, 'send')}"),
        is_whole=True,
    )


def _is_forgotten(made: CallRecord, history: History) -> bool:
    """Answer whether a call failed for one record of a batch and others of it were acknowledged."""
    entry = history.deliveries[made.worker - 1]
    answered = {entry.record: entry.acked, **entry.batch}.values()
    return made.fault in RAISED and _is_users(made) and bool(entry.failures) and any(answered) and bool(entry.batch)


def _is_missing(made: CallRecord, history: History, most: Effects) -> bool:
    key = made.site, made.operation, made.target
    failed = made.error is not None and made.fault is not None  # a condition that does not hold is no failure
    worker = history.deliveries[made.worker - 1]
    if worker.stage is not None and f"sqs:{worker.queue}" in history.inner and not worker.acked:
        return False  # its function let the error out
    return _is_users(made) and failed and effects(history)[key] < most[key]


def _of_call(history: History, site: Site, operation: str, target: str, *, is_plain: bool) -> Diagnosis:
    again = _again(history, site)
    if (outside := fix_outside(operation, target)) is not None:
        return Diagnosis(site, f"this {call_named(operation)} at {site} {again}: {outside}")
    if operation in SENDS:
        cause = f"this boto3 {operation} at {site} {again}, and nothing on the message says that it is a copy"
        if is_plain:
            return Diagnosis(
                site,
                f"{cause}: give it an id made of the message that led to it, as the attribute uniquerequestid",
                option=f'same={{"{target}": "…"}}: messages whose body has the same in this field count once',
            )
        return Diagnosis(site, f"{cause}: record it with step.send, which gives it an id and sends it after the commit")
    if operation == "PutObject" and (check := _check_before(history, site, target)) is not None:
        return _checked(site, operation, check, is_conditional=False, is_plain=is_plain)
    if operation not in _RECORDED:
        fix = f"make it safe to repeat{_or(is_plain, 'move it into the step')}"
        return Diagnosis(site, f"this {call_named(operation)} at {site} {again}: {fix}")
    is_conditional = any(made.conditional for made in history.calls if made.site == site)
    check = _check_before(history, site, target)
    if check is not None and history.schedule.has(HOLDS):
        return _checked(site, operation, check, is_conditional=is_conditional, is_plain=is_plain)
    if check is not None:
        place = "ConditionExpression too, which does not see it" if is_conditional else "own ConditionExpression"
        fix = f"put the check into the write's {place} (what is read at {check})"
        step = _or(is_plain, f"record it with step.{_RECORDED[operation]}")
        return Diagnosis(site, f"this boto3 {operation} at {site} {again}: {fix}{step}")
    fix = "make its condition one that fails the second time" if is_conditional else "make it conditional"
    step = "" if is_plain else f"record it with step.{_RECORDED[operation]}, or "
    return Diagnosis(site, f"this boto3 {operation} at {site} {again}: {step}{fix}")


def _again(history: History, site: Site) -> str:
    kinds = {choice.kind for choice in history.schedule.choices}
    if any(made.site == site and made.fault is FaultKind.LOST for made in history.calls):
        return "is repeated by botocore when its answer is lost"
    if any(made.site == site and made.fault is FaultKind.UNANSWERED for made in history.calls):
        return "runs again when its answer never comes, though it was applied"
    if kinds & DEATHS:
        return "runs again after a crash"
    if kinds & HOLDS:
        return "runs in two workers at once"
    if FaultKind.DUPLICATED in kinds:
        return "runs again for a duplicate"
    if FaultKind.REDRIVEN in kinds:
        return "runs again after a redrive"
    return "runs again when the stage is tried again" if kinds & RAISED else "runs more often than undisturbed"


def _check_before(history: History, site: Site, target: str) -> Site | None:
    """Return where the same worker had read the same table before it wrote."""
    writes = [made for made in history.calls if made.site == site and made.applied]
    for write in reversed(writes):
        for made in history.calls[: write.number - 1]:
            if _is_check(made, write, target):
                return made.site
    return None


def _is_check(made: CallRecord, write: CallRecord, target: str) -> bool:
    return made.worker == write.worker and made.is_read and _is_users(made) and made.target == target
