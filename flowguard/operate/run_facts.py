"""The facts of a run, as JSON values. Texts of payloads are among them only where they are asked for."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from flowguard.aws.history_rows import FullHistory
from flowguard.aws.packing import is_sealed
from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.destinations import Queue
from flowguard.errors import KeyUnavailable, OtherRelease, TextGone
from flowguard.flow import UNTIL_RESET, AnyFlow
from flowguard.operate.attempts import REST, failed_attempt, may_be_parked
from flowguard.operate.history_facts import NO_ROWS, history_facts, own_history
from flowguard.operate.moments import distance, iso, moment
from flowguard.operate.own_letters import refusal
from flowguard.operate.wait_facts import wait_facts
from flowguard.protocol.callers import Caller
from flowguard.protocol.forgotten import NOW, is_forgotten
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import ENDED, BackOff, RunItem, Status
from flowguard.protocol.run_history import How
from flowguard.text.printable import LONGEST_PART, bounded
from flowguard.wire.token_form import without_tokens
from flowguard.worker.again import again_command, again_refusal

_UNCOMMITTED: Final = (How.RETRIED, How.TAKEN_OVER, How.SUPERSEDED, How.RESET)


def place_facts(seen: SeenRun) -> dict[str, Any]:
    """Return which run it is, and where it stands, as JSON values."""
    item = seen.item
    return {
        "flow": seen.flow,
        "object_id": seen.object_id,
        "request_id": item.request_id,
        "status": item.status.value,
        "stage": item.stage,
        "hop": item.hop,
    }


def run_facts(
    seen: SeenRun,
    runs: RunReader,
    now: int,
    *,
    flow: AnyFlow | None = None,
    rows: Iterable[Sequence[Caller]] = (),
    full: FullHistory = NO_ROWS,
    payloads: bool = False,
) -> dict[str, Any]:
    """Return what is known of a run at the time ``now``.

    ``flow`` is its class, if known: it says how long a result is good. ``rows`` are its callers beside those in the
    item, ``full`` the history beside the item.
    """
    item = seen.item
    return {
        "flow": seen.flow,
        "object_id": seen.object_id,
        "request_id": item.request_id,
        "requested_at": iso(item.requested_at),
        "status": item.status.value,
        "stage": item.stage,
        "hop": item.hop,
        "attempt": item.retry + 1,
        "redrive": 0 if is_forgotten(item) else item.redrive,
        "version": item.version,
        "now": standing(item, now, flow),
        "look": look_at(seen, now, flow),
        "committed": item.done,
        "committed_at": iso(last_commit(item)) if item.committed_at and _is_own_commit(item) else None,
        "lease_until": None if item.done else iso(item.lease_until),
        "stages": list(item.stages),
        "history": history_facts(item, full),
        "history_goes_on": full.more,
        "wait": _wait(seen, runs, payloads=payloads),
        "error": stored_text(seen, runs, "error", opens=payloads) if item.status is Status.FAILED else None,
        "back_off": _back_off(item),
        "failed": _failed(item),
        "retry_refused": refusal(item, now, flow),
        "again_refused": again_refusal(item, flow),
        "cancelled": _cancelled(item),
        "reset_at": iso(item.reset_at) if item.reset_at is not None else None,
        "callers": _callers(item, rows),
        "outbox": _outbox(seen, runs, payloads=payloads),
        "result_good_until": _good_until(item, flow),
        "expires_at": iso(item.ttl * 1000) if item.ttl else None,
        **_payloads(seen, runs, shown=payloads),
    }


def look_at(seen: SeenRun, now: int, flow: AnyFlow | None = None) -> str | None:
    """Return the command that shows whether a message of the run is parked. None while one may still be on its way.

    Without its flow's class the queue is that of the flow's name: a flow may have named another one.
    """
    item = seen.item
    if not may_be_parked(item, now):
        return None
    known = None if flow is None else flow.dead_letters
    queue = known.name if isinstance(known, Queue) else f"{seen.flow}-dead-letters"
    return shlex.join(["flowguard", "dlq", "list", queue, "--request-id", item.request_id])


def standing(item: RunItem, now: int, flow: AnyFlow | None = None) -> str:
    """Say in a sentence where the run stands, and what it needs to go on."""
    if item.status in ENDED:
        return _ended(item, flow)
    if item.cancelled_because is not None:
        return "it is cancelled: its next message ends it"
    if item.reset_at is not None:
        return "it was reset: its next message begins the work anew"
    if item.status is Status.WAITING and item.wait is not None:
        return _waiting(item, now)
    if item.done:
        return f"hop {item.hop} is committed; the message of hop {item.hop + 1} is on its way"
    if item.back_off is not None:
        return _resting(item, item.back_off, now)
    if item.burst is not None and is_put_off(item, now):
        return f"it waits for newer requests of its object, and begins at {moment(item.burst.until, now)}, by itself"
    return _at_work(item, now)


def is_put_off(item: RunItem, now: int) -> bool:
    """Answer whether the run has not begun, and waits for newer requests of its object."""
    burst = item.burst
    return burst is not None and burst.until >= now and not item.retry and item.lease_until <= now and not item.done


def _at_work(item: RunItem, now: int) -> str:
    """Say who has the hop.

    An attempt may have failed whose short rest is not noted, so this names the log that has its error.
    """
    before, until = f"attempt {item.retry} has failed; " if item.retry else "", moment(item.lease_until, now)
    this, at_rest_until = f"attempt {item.retry + 1}", item.lease_until + REST
    if at_rest_until < now:
        return f"{before}no worker has it since {until}; its message comes again, is parked, or was given up by SQS"
    error = f"its error is in the log of {bounded(item.stage, LONGEST_PART)}, as 'retried'"
    rest = f"attempt {item.retry + 2} comes by itself, at {moment(at_rest_until, now)} at the latest, and {error}"
    if item.lease_until <= now:
        return f"{before}no worker has it since {until}: its message comes again, or {this} failed: {rest}"
    return f"{before}a worker has {this} until {until}, or it has failed: {rest}"


def _resting(item: RunItem, back_off: BackOff, now: int) -> str:
    if back_off.look is not None:
        looks = f"looks again at {moment(back_off.until, now)}" if back_off.until >= now else "looks again any moment"
        return f"it waits {back_off.error.text}: it is called, or {looks}"
    before = failed_attempt(item)
    failed = f"attempt {before} has failed ({back_off.error.type}), which is tried again"
    if back_off.until >= now:
        return f"{failed}: attempt {before + 1} comes at {moment(back_off.until, now)}, by itself"
    return (
        f"{failed}: attempt {before + 1} was to come at {moment(back_off.until, now)}; does a function read its "
        "queue, is its message parked, or has SQS given it up?"
    )


def _ended(item: RunItem, flow: AnyFlow | None) -> str:
    if is_forgotten(item):
        return NOW
    if item.status is Status.COMPLETED:
        return "it has ended well"
    if item.own_failure is not None and not item.own_failure.undone:
        return "it has failed for good, and so has what takes it back; the dead letter of that can be sent back"
    if item.cancelled_because is not None:
        undone = ", and its on_failed stage took it back" if item.own_failure is not None else ""
        return f"it was cancelled{undone}; there is no dead letter of it"
    if item.own_failure is not None:
        why = again_refusal(item, flow)
        anew = f"'{again_command(item)}' begins it anew" if why is None else why
        return f"it has failed for good, and its on_failed stage took it back; {anew}"
    return "it has failed for good; its dead letter can be sent back"


def _waiting(item: RunItem, now: int) -> str:
    wait = item.wait
    if wait is None:
        return "it waits"
    if wait.end is not None:
        return f"its wait is over ({wait.end.value}); the message of hop {item.hop + 1} is on its way"
    if wait.deadline < now:
        return f"it waits, and its deadline passed {distance(wait.deadline, now)}: did that message come?"
    return f"it waits until {moment(wait.deadline, now)}"


def _is_own_commit(item: RunItem) -> bool:
    """Answer whether the last commit is this run's. That in the item may be of the run before."""
    return item.done or item.hop > 1


def last_commit(item: RunItem) -> int:
    """Return when the last commit was made, ms. The item has when its handler began, and the history when it ended."""
    hop = item.hop if item.done else item.hop - 1
    ended = (line.at for line in own_history(item) if (line.hop, line.how not in _UNCOMMITTED) == (hop, True))
    return max((item.committed_at, *ended))


def _wait(seen: SeenRun, runs: RunReader, *, payloads: bool) -> dict[str, Any] | None:
    return wait_facts(seen, (lambda name: answer_value(seen, runs, name)) if payloads else None)


def _back_off(item: RunItem) -> dict[str, Any] | None:
    """Return why the last attempt failed, and when the next one comes."""
    if (back_off := item.back_off) is None or back_off.look is not None:
        return None
    error = f"{back_off.error.type}: {back_off.error.text}"
    return {"error": error, "at": iso(back_off.error.at), "next_attempt_at": iso(back_off.until)}


def _failed(item: RunItem) -> dict[str, Any] | None:
    """Return where the run failed for good before it went on at ``on_failed``."""
    failed = item.own_failure
    if failed is None:
        return None
    error = f"{failed.error.type}: {failed.error.text}"
    return {"hop": failed.hop, "error": error, "at": iso(failed.error.at), "undone": failed.undone}


def _cancelled(item: RunItem) -> dict[str, Any] | None:
    if item.cancellation is None or item.cancelled_because is None:
        return None
    return {"why": item.cancellation.why, "at": iso(item.cancellation.at)}


def _callers(item: RunItem, rows: Iterable[Sequence[Caller]]) -> list[dict[str, Any]]:
    """Return the callers that wait for the end of this run, without its own request."""
    if item.callers is None:
        return []
    callers = [*item.callers.in_item, *(caller for page in rows for caller in page)]
    return [
        {"request_id": caller.request_id, "requested_at": iso(caller.requested_at), "reply_to": caller.reply_to}
        for caller in sorted(callers, key=lambda caller: (caller.requested_at, caller.request_id))
    ]


def _outbox(seen: SeenRun, runs: RunReader, *, payloads: bool) -> dict[str, Any] | None:
    outbox = runs.outbox(seen)
    if outbox is None:
        return None
    facts: dict[str, Any] = {"request_id": outbox.request_id or None, "committed_at": iso(outbox.committed_at)}
    if is_sealed(seen.stored["outbox"]) and not payloads:
        return facts | {"sends": [], "problem": SEALED}
    try:
        return facts | {"sends": [_of_send(send, payloads=payloads) for send in outbox.sends]}
    except _UNREADABLE as gone:
        return facts | {"sends": [], "problem": str(gone)}


def _of_send(send: Send, *, payloads: bool) -> dict[str, Any]:
    facts = {"kind": send.kind.value, "to": str(send.to), "id": send.id}
    return facts | {"payload": without_tokens(send.body)} if payloads else facts


def _good_until(item: RunItem, flow: AnyFlow | None) -> str | None:
    """Return how long the result is good for newer requests. None where nobody keeps it."""
    if flow is None or item.status is not Status.COMPLETED or item.reset_at is not None:
        return None
    if flow.keep_result is UNTIL_RESET:
        return "it is reset"
    until = flow.good_until(item.committed_at)
    return None if until is None else iso(until)


# -- texts of payloads


def _payloads(seen: SeenRun, runs: RunReader, *, shown: bool) -> dict[str, Any]:
    """Return state and result, or their sizes as they are stored. A result is of a run that has ended well."""
    owned = {"state": _is_own_commit(seen.item), "result": seen.item.status in ENDED}
    there = [name for name, is_own in owned.items() if is_own and name in seen.stored]
    sizes: Mapping[str, Any] = {f"{name}_size": seen.size(name) for name in there}
    values = {name: _value(seen, runs, seen.stored[name], name) for name in there} if shown else {}
    return {**sizes, **values}


SEALED: Final = "(sealed, and shown with payloads alone)"
"""What stands for a sealed text where nobody has asked for payloads."""

_UNREADABLE: Final = (TextGone, OtherRelease, KeyUnavailable)


def answer_value(seen: SeenRun, runs: RunReader, name: str) -> Any:
    """Return the answer to a name as a value. Of one that cannot be read, it is a text that says so."""
    return _value(seen, runs, seen.answers[name], f"answer {name}")


def _value(seen: SeenRun, runs: RunReader, stored: Any, kind: str) -> Any:
    """Return the value of a text that is JSON. Of one that cannot be read, it is a text that says so."""
    try:
        return json.loads(without_tokens(runs.text(seen, stored, kind)))
    except _UNREADABLE as gone:
        return str(gone)


def stored_text(seen: SeenRun, runs: RunReader, name: str, *, opens: bool = False) -> str | None:
    """Return a long text of the item. One that is sealed is not opened unless it ``opens``."""
    if name not in seen.stored:
        return None
    if is_sealed(seen.stored[name]) and not opens:
        return SEALED
    try:
        return without_tokens(runs.text(seen, seen.stored[name], name))
    except _UNREADABLE as gone:
        return str(gone)
