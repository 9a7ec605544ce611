"""Checks of who may write a run item (I1 to I5) on the item's versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flowguard.flow import AnyFlow
from flowguard.protocol.run import RunItem, Status
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import History, Version


def only_owners_commit(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I1 to I5 on the versions of each run item.

    I1: no write under another request id than the stored one. I2: none under a lower epoch. I3: one commit a hop. I4:
    none by an earlier worker whose counters happen to be equal. I5: no older request takes over.
    """
    for key in dict.fromkeys(version.key for version in history.versions):
        yield from _of_item(key, [version for version in history.versions if version.key == key])


def _of_item(key: str, versions: Sequence[Version]) -> Iterator[Problem]:
    before: RunItem | None = None
    owners: dict[int, RunItem] = {}
    for version in versions:
        item = version.item
        if item is not None and (before is None or (item.epoch, item.owner) != (before.epoch, before.owner)):
            owners[version.worker] = item
            yield from _claimed(key, before, item)
        elif item is not None and before is not None and is_commit(before, item):
            yield from _committed(key, before, owners.get(version.worker))
        before = item


def is_commit(before: RunItem, item: RunItem) -> bool:
    """Answer whether a write was a commit and not another change, such as an answer that arrived meanwhile."""
    facts = (before.done, before.committed_at, before.status), (item.done, item.committed_at, item.status)
    return item.done and facts[0] != facts[1]


def _claimed(key: str, before: RunItem | None, item: RunItem) -> Iterator[Problem]:
    if before is None:
        return
    if item.epoch <= before.epoch:
        yield Problem("I2", key, "a claim did not raise the epoch", before.epoch + 1, item.epoch)
    was, now = (before.requested_at, before.request_id), (item.requested_at, item.request_id)
    if now[0] < was[0] or (now[0] == was[0] and now[1] != was[1]):
        yield Problem("I5", key, "a request took over from a newer one, or from one of its time", was, now)
    if item.request_id == before.request_id and _attempt(item) < _attempt(before):
        yield Problem("I3", key, "the run went back to an earlier attempt", _attempt(before), _attempt(item))
    is_open = not before.done or before.status is Status.FAILED  # to a redrive
    if item.done and not is_open and not _is_order(before, item) and _run_and_hop(item) == _run_and_hop(before):
        yield Problem("I3", key, f"hop {before.hop} was committed twice", 1, 2)


def _is_order(before: RunItem, item: RunItem) -> bool:
    """Answer whether a write reset or cancelled the run. Such a write fences its worker, and commits nothing."""
    orders = (before.reset_at, before.reset_by, before.cancellation), (item.reset_at, item.reset_by, item.cancellation)
    return orders[0] != orders[1]


def _run_and_hop(item: RunItem) -> tuple[str, int, int]:
    return item.request_id, item.requested_at, item.hop


def _attempt(item: RunItem) -> tuple[int, int, int]:
    return item.hop, item.redrive, item.retry


def _committed(key: str, before: RunItem, claim: RunItem | None) -> Iterator[Problem]:
    if claim is None or claim.request_id != before.request_id:
        request_id = claim.request_id if claim is not None else None
        yield Problem(
            "I1", key, "a write was applied under the request id of another run", before.request_id, request_id
        )
    elif claim.epoch != before.epoch:
        yield Problem("I2", key, "a worker that no longer owned the hop committed it", before.epoch, claim.epoch)
    elif claim.owner != before.owner:
        yield Problem("I4", key, "a worker of an earlier life of the item committed, its counters being equal")
    if before.done:
        yield Problem("I3", key, f"hop {before.hop} was committed twice", 1, 2)
