"""Checks of what a hop does before its commit (I17) on the versions of its run item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flowguard.errors import TextGone
from flowguard.flow import AnyFlow
from flowguard.protocol.run import RunItem
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import History, Version


def hops_remember_once(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I17: only the owner of a hop remembers something, before its commit, and nothing of it is lost or replaced.

    A block of ``step.apply`` is remembered in the transaction that applies it.
    """
    for key in dict.fromkeys(version.key for version in history.versions):
        yield from _of_item(key, [version for version in history.versions if version.key == key])


def _of_item(key: str, versions: Sequence[Version]) -> Iterator[Problem]:
    before: RunItem | None = None
    owners: dict[int, RunItem] = {}
    for version in versions:
        item = version.item
        if item is not None and (before is None or _owner(item) != _owner(before)):
            owners[version.worker] = item
        if item is not None and before is not None and _hop(item) == _hop(before):
            was, now = memory(before), memory(item)
            yield from _added(key, before, owners.get(version.worker), sorted(now.keys() - was.keys()))
            if not item.done:
                yield from _kept(key, was, now)
        before = item


def _added(key: str, before: RunItem, claim: RunItem | None, names: Sequence[str]) -> Iterator[Problem]:
    for name in names:
        if claim is None or _owner(claim) != _owner(before):
            yield Problem("I17", key, f"a worker that did not own the hop remembered {name!r}")
        if before.done:
            yield Problem("I17", key, f"{name!r} was remembered after the commit of its hop")


def _kept(key: str, was: Mapping[str, str | None], now: Mapping[str, str | None]) -> Iterator[Problem]:
    for name, text in was.items():
        if name not in now:
            yield Problem("I17", key, f"the hop has forgotten {name!r}")
        elif now[name] != text:
            yield Problem("I17", key, f"{name!r} was remembered twice", text, now[name])


def memory(item: RunItem) -> Mapping[str, str | None]:
    """Return what the item's own hop remembers, as JSON texts. None for one whose text is gone."""
    memo = item.memo
    if memo is None or (memo.request_id, memo.hop) != _hop(item):
        return {}
    results: dict[str, str | None] = {}
    for name, read in memo.results.items():
        try:
            results[name] = read()
        except TextGone:
            results[name] = None
    return results


def _owner(item: RunItem) -> tuple[int, str]:
    return item.epoch, item.owner


def _hop(item: RunItem) -> tuple[str, int]:
    return item.request_id, item.hop
