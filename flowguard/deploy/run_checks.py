"""Checks of the runs that the live table holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from flowguard.aws.dead_letter_queue import Unusable
from flowguard.aws.items import read_item
from flowguard.aws.run_reader import SeenRun, readable
from flowguard.deploy.account import Account
from flowguard.deploy.finding import LiveFinding, note, warning
from flowguard.deploy.needs import Deployment
from flowguard.flow import AnyFlow
from flowguard.operate.run_facts import last_commit, look_at
from flowguard.operate.run_rows import is_late, is_left
from flowguard.protocol.run import RunItem, Status

_STUCK: Final = 12 * 3_600_000
"""Milliseconds after a lease, by which SQS has shown the longest hidden record again."""

_LATE: Final = 3_600_000
"""Milliseconds after a deadline: its message is delayed by quarters of an hour, and may be retried."""

_HELD: Final = "flowguard stats names what is paused, and the queue's oldest message tells of a backlog"


class _Quiet(NamedTuple):
    """A run whose next message has not come since then (ms)."""

    seen: SeenRun
    since: int


def check_runs(needed: Deployment, live: Account, now: int, most: int) -> Iterator[LiveFinding]:
    """Yield the findings about runs that are late. At most ``most`` items are read. ``now`` is ms."""
    flows = {flow.name: flow for flow in needed.flows}
    between: defaultdict[tuple[str, str], list[_Quiet]] = defaultdict(list)
    for seen in _seen(live.runs(needed.run_table, most)):
        if (flow := flows.get(seen.flow)) is None:
            continue
        if is_left(seen.item, now):
            yield from _stuck(_Quiet(seen, _due(seen.item)), flow, now)
        elif is_late(seen.item, now):
            yield from _late(seen, now)
        elif (since := _between(seen.item)) is not None and since + _STUCK < now:
            between[seen.flow, seen.item.stage].append(_Quiet(seen, since))
    for (name, stage), runs in between.items():
        yield _on_the_way(runs, stage, flows[name], now)


def _seen(items: Iterator[Mapping[str, Any]]) -> Iterator[SeenRun]:
    """Yield the runs of this version, without their texts. Lists tell how many others there are."""
    for raw in items:
        kind, _, rest = str(raw["pk"]["S"]).partition("#")
        flow, _, object_id = rest.partition("#")
        if kind == "run" and raw["sk"]["S"] == "run":
            try:
                with readable(flow, object_id):
                    yield SeenRun(flow, object_id, read_item(dict(raw)))
            except Unusable:
                continue


def _due(item: RunItem) -> int:
    """Return when the next attempt of a hop could come at the latest, ms."""
    rests_until = 0 if item.back_off is None else item.back_off.until
    return max(item.lease_until, rests_until, 0 if item.burst is None else item.burst.until)


def _between(item: RunItem) -> int | None:
    """Return since when the message of the next hop is on its way. None where none is.

    When a wait was over is not in the item, but it was by its deadline.
    """
    if item.status is Status.WAITING and item.wait is not None:
        return None if item.wait.end is None else max(item.wait.deadline, last_commit(item))
    return last_commit(item) if item.done else None


def _stuck(run: _Quiet, flow: AnyFlow, now: int) -> Iterator[LiveFinding]:
    item = run.seen.item
    if run.since + _STUCK < now:
        yield warning(
            "run-stuck",
            f"{run.seen.flow} of {run.seen.object_id}",
            f"it is RUNNING at {item.stage}, and nobody has worked on it for {_hours(now - run.since)}",
            "its message waits in a backlog or at a stage that is paused; or it is parked, or was given up by SQS, or "
            "deleted by hand: then the run never ends by itself",
            f"{_HELD}; else look for its message, and send that back: {_look(run.seen, flow, now)}, and the queue of "
            "records given up",
        )


def _late(seen: SeenRun, now: int) -> Iterator[LiveFinding]:
    wait = seen.item.wait
    if wait is not None and wait.deadline + _LATE < now:
        yield warning(
            "wait-late",
            f"{seen.flow} of {seen.object_id}",
            f"it waits at {seen.item.stage}, and its deadline is over for {_hours(now - wait.deadline)}",
            "the message of its deadline waits in a backlog or at a stage that is paused; or it was lost or given up: "
            "then the run waits for ever",
            f"{_HELD}; does a function read the flow's answers queue? Look for the record among those given up",
        )


def _on_the_way(runs: Sequence[_Quiet], stage: str, flow: AnyFlow, now: int) -> LiveFinding:
    """Return the note on runs of a flow that are between a stage and the next one. A delay is not in their items."""
    oldest = min(runs, key=lambda run: run.since)
    return note(
        "run-between",
        oldest.seen.flow,
        f"the next messages of {len(runs):,} runs after the stage {stage} are on their way for more than "
        f"{_hours(_STUCK)}; that of {oldest.seen.object_id} for {_hours(now - oldest.since)}",
        "a delay, a pause or a backlog holds them, and they go on by themselves; or they are parked or were deleted, "
        "and do not",
        f"{_HELD}; a parked one is shown by {_look(oldest.seen, flow, now)}",
    )


def _look(seen: SeenRun, flow: AnyFlow, now: int) -> str:
    return str(look_at(seen, now, flow))


def _hours(ms: int) -> str:
    return f"{ms / 3_600_000:.0f} h"
