"""Checks that no place of a limit is held twice (I22), and that none stays free beside a line (I23)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flowguard.flow import AnyFlow
from flowguard.protocol.places import SKEW
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import History, PlacesVersion


def places_are_kept(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I22 and I23 on each version of the item of a key.

    I23: the first who stand in line are called, as many as places are free. They come, or look, or are dropped.
    """
    limits = {
        f"limit#{flow.name}#{stage.name}#{limit.title}": limit.at_once
        for flow in flows
        for stage in flow.stages
        for limit in stage.limits
    }
    for version in history.places:
        yield from _kept(version, limits)


def _kept(version: PlacesVersion, limits: Mapping[str, int]) -> Iterator[Problem]:
    at_once = limits[version.key.rpartition("#")[0]]
    live = [holder for holder in version.places.held.values() if holder.until + SKEW >= version.at]
    if len(live) > at_once:
        yield Problem("I22", version.key, "more hops hold a place than may", at_once, len(live))
    line = sorted((waiter.arrival, token) for token, waiter in version.places.line.items())
    first = [version.places.line[token] for _, token in line][: max(at_once - len(live), 0)]
    if not all(waiter.called_at for waiter in first):
        yield Problem("I23", version.key, "a place is free, and the first in line is not called")
