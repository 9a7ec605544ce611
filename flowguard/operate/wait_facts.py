"""The facts of a wait, as JSON values. Tokens are never among them, nor what one could be made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flowguard.aws.run_reader import SeenRun
from flowguard.operate.moments import iso
from flowguard.protocol.groups import MOST_IN_SHARD, GroupPlan
from flowguard.protocol.run import Status
from flowguard.protocol.waiting import Wait, WaitEnd, WaitPlan
from flowguard.wire.tokens import SEALED_IDS

ReadAnswer = Callable[[str], Any]
"""Reads the answer to a name, as a JSON value."""


def wait_facts(seen: SeenRun, read: ReadAnswer | None) -> dict[str, Any] | None:
    """Return the facts of the run's wait. None for a run that does not wait.

    Answers are among them where ``read`` reads one.
    """
    wait = seen.item.wait if seen.item.status is Status.WAITING else None
    if wait is None or wait.plan is None:
        return None
    plan, is_cancelled = wait.plan, seen.item.cancelled_because is not None
    return {
        "deadline": iso(wait.deadline),
        "ended": "cancelled" if is_cancelled else wait.end.value if wait.end is not None else None,
        "missing": max(0, len(wait.waiting) - max(0, wait.spare)) if wait.end is None else 0,
        "goes_on_at": None if is_cancelled else plan.stage_at(wait.end or WaitEnd.ANSWERED),
        "on_timeout": plan.stage_at(WaitEnd.TIMED_OUT),
        "on_error": plan.stage_at(WaitEnd.FAILED),
        "names": [_of_name(name, wait, plan, seen, read) for name in plan.names],
        **({} if plan.group is None else {"group": _of_group(wait, plan.group)}),
    }


def wait_end(wait: Mapping[str, Any]) -> str:
    """Say how the wait of these facts has ended, and what comes next."""
    stage = wait["goes_on_at"]
    onward = "its next message ends the run" if stage is None else f"the run goes on at {stage}"
    return f"over ({wait['ended']}); {onward}"


def missing_names(seen: SeenRun) -> list[str]:
    """Return the names without an answer. A group has none: its shards are counted."""
    wait = seen.item.wait if seen.item.status is Status.WAITING else None
    if wait is None:
        return []
    if wait.group is not None:
        return [f"a group, of which {len(wait.waiting):,} shards are open"]
    return sorted(wait.waiting)


def awaited_under(seen: SeenRun, name: str) -> str | None:
    """Return the id under which the run waits for the name. None where it does not, or where no one can answer by it.

    What another flow answers has no id, and a token is what its holder alone has.
    """
    plan = _plan_with(seen, name)
    awaited_id = None if plan is None else plan.names[name]
    return None if awaited_id is None or awaited_id.startswith(SEALED_IDS) else awaited_id


def awaited_without_id(seen: SeenRun, name: str) -> str | None:
    """Return what the run waits for under the name, a token or a flow. None where it has an id, or is not awaited."""
    plan = _plan_with(seen, name)
    return None if plan is None or awaited_under(seen, name) is not None else _kind_of(name, plan.names[name])


def _plan_with(seen: SeenRun, name: str) -> WaitPlan | None:
    """Return the plan of the run's wait. None where the wait does not go on, or the name has no place or an answer."""
    item = seen.item
    wait = item.wait if item.status is Status.WAITING and item.cancelled_because is None else None
    if wait is None or wait.plan is None or wait.end is not None or name not in wait.waiting:
        return None
    return wait.plan if name in wait.plan.names else None


def _of_group(wait: Wait, group: GroupPlan) -> dict[str, Any]:
    """Return the facts of a group. How many of an open shard's requests are answered stands in that alone."""
    asked = min(wait.asked * MOST_IN_SHARD, group.size)
    return {"requests": group.size, "asked": asked, "shards": group.shards, "open_shards": len(wait.waiting)}


def _of_name(name: str, wait: Wait, plan: WaitPlan, seen: SeenRun, read: ReadAnswer | None) -> dict[str, Any]:
    awaited_id = plan.names[name]
    what = _kind_of(name, awaited_id)
    facts: dict[str, Any] = {
        "name": name,
        "what": what,
        "id": None if what == "token" else awaited_id,
        "answer": None if name not in wait.answered else "failed" if name in seen.failed_answers else "answered",
    }
    if read is not None and name in wait.answered:
        facts["payload"] = read(name)
    return facts


def _kind_of(name: str, awaited_id: str | None) -> str:
    """Return the kind of what is awaited. The id of an ask begins with its name."""
    if awaited_id is None:
        return "flow"
    if awaited_id.startswith(SEALED_IDS):
        return "token"
    return "asked" if awaited_id.startswith(f"{name}#") else "event"
