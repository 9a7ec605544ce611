"""The checks after each schedule: flowguard's own promises and the user's invariants."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from flowguard.flow import AnyFlow
from flowguard.testing.explorer.checks.answering import (
    answers_name_what_is_left,
    messages_stay_as_they_were,
    nothing_breaks_undisturbed,
)
from flowguard.testing.explorer.checks.awaiting import (
    nothing_is_asked_for_another_run,
    verdicts_of_answers_are_true,
    waits_end_once,
    waits_have_deadlines,
)
from flowguard.testing.explorer.checks.calling import callers_are_answered
from flowguard.testing.explorer.checks.fencing import only_owners_commit
from flowguard.testing.explorer.checks.identity import ids_are_of_one_message
from flowguard.testing.explorer.checks.lifetimes import no_life_is_shortened
from flowguard.testing.explorer.checks.limits import places_are_kept
from flowguard.testing.explorer.checks.outsiders import (
    answers_reach_only_what_they_name,
    insiders_change_nothing,
    nothing_goes_where_no_flow_sends,
    runs_are_those_that_messages_name,
)
from flowguard.testing.explorer.checks.problem import EXPLODED, HANGS, Problem
from flowguard.testing.explorer.checks.remembering import hops_remember_once
from flowguard.testing.explorer.checks.retrying import redrives_are_judged_right, retries_keep_to_their_policy
from flowguard.testing.explorer.checks.settling import outboxes_are_sent, requests_are_settled, success_stays
from flowguard.testing.explorer.checks.standing import comes_until_it_expires, refusals_are_settled
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.view import Same, View

Invariant: TypeAlias = Callable[[View], object]
"""Looks at the end of a schedule. Raises (``assert`` will do), or answers what is wrong, or None, or True."""

Promise: TypeAlias = Callable[[History, Sequence[AnyFlow]], Iterator[Problem]]
"""One of flowguard's own, as a function of what happened."""

PROMISES: Final[tuple[Promise, ...]] = (
    nothing_breaks_undisturbed,
    only_owners_commit,
    requests_are_settled,
    outboxes_are_sent,
    ids_are_of_one_message,
    refusals_are_settled,
    retries_keep_to_their_policy,
    messages_stay_as_they_were,
    answers_name_what_is_left,
    redrives_are_judged_right,
    success_stays,
    waits_end_once,
    verdicts_of_answers_are_true,
    nothing_is_asked_for_another_run,
    waits_have_deadlines,
    no_life_is_shortened,
    nothing_goes_where_no_flow_sends,
    runs_are_those_that_messages_name,
    answers_reach_only_what_they_name,
    insiders_change_nothing,
    callers_are_answered,
    hops_remember_once,
    places_are_kept,
)
"""I1 to I17, I19, I22 to I25. I18 is the equivalence of batches."""


def invariant(function: Invariant) -> Invariant:
    """Mark a function beside a flow as one that ``flowguard explore`` checks."""
    function.__flowguard_invariant__ = True  # type: ignore[attr-defined]  # a mark
    return function


def is_invariant(value: object) -> bool:
    """Answer whether a function was marked as an invariant."""
    return callable(value) and getattr(value, "__flowguard_invariant__", False) is True


def broken(
    history: History, flows: Sequence[AnyFlow], users: Iterable[Invariant], same: Same | None = None
) -> Iterator[Problem]:
    """Yield every promise and invariant that does not hold."""
    for past in [history] if history.after is None else [history, history.after]:
        if (hung := past.hung) is not None:  # nothing that holds at an end need hold here
            yield Problem(HANGS, hung.stage or hung.queue or "a function", str(hung.why))
            return
        if not past.at_rest and not comes_until_it_expires(past, flows):
            yield Problem(EXPLODED, "queues", "messages still come after hundreds of deliveries")
        for promise in PROMISES:
            yield from promise(past, flows)
    view = View(history, same)
    for function in users:
        if (why := _verdict(function, view)) is not None:
            yield Problem(getattr(function, "__name__", "invariant"), "the user's invariant", why)


def _verdict(function: Invariant, view: View) -> str | None:
    try:
        answer = function(view)
    except Exception as error:  # an invariant may raise any error
        return str(error) or f"{type(error).__name__} was raised{_place(error)}"
    if answer is False:
        return "it does not hold"
    return None if answer is None or answer is True else str(answer)


def _place(error: Exception) -> str:
    """Return the line that raised an error without a text, such as a bare assert."""
    raised = traceback.extract_tb(error.__traceback__)[-1]
    return f" at {Path(raised.filename).name}:{raised.lineno}: {raised.line}"
