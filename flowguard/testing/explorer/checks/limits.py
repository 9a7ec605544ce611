"""Checks that no more handlers are at work than a limit has places (I22), and that no place stays free beside a line.

The latter is I23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from flowguard.flow import AnyFlow
from flowguard.protocol.places import SKEW
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import History, LimitedHandler, PlacesVersion


def places_are_kept(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I22 on each handler and on each version of the item of a key, and I23 on the latter.

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
    yield from _at_work(history, limits)


def _at_work(history: History, limits: Mapping[str, int]) -> Iterator[Problem]:
    """Check that each handler which is called finds a place free of those that are at work.

    A hop is at work until its commit, until its attempt has failed, or until its lease is over. A worker that is dead
    does nothing any more.
    """
    for number, handler in enumerate(history.limited):
        for key in handler.keys:
            others = [other for other in history.limited[:number] if key in other.keys and other.until >= handler.at]
            at_work = {other.hop for other in others if _end(history, other) > handler.calls} | {handler.hop}
            if len(at_work) > (at_once := limits[key.rpartition("#")[0]]):
                yield Problem("I22", key, "more hops are at work than may be", at_once, len(at_work))


def _end(history: History, handler: LimitedHandler) -> int:
    """Return the number of the call with which the hop's work has ended."""
    if handler.raised_after is not None:
        return handler.raised_after
    made = [call for call in history.calls[handler.calls :] if call.worker == handler.worker]
    ends = [call.number for call in made if not call.site.is_users and call.site.function in _ENDING]
    return ends[0] if ends else max((call.number for call in made), default=handler.calls)


_ENDING: Final = frozenset({"commit", "release", "note the back-off", "dispatch"})
"""The steps of flowguard's own with which the work of a hop is over, done or failed."""


def _kept(version: PlacesVersion, limits: Mapping[str, int]) -> Iterator[Problem]:
    at_once = limits[version.key.rpartition("#")[0]]
    live = [holder for holder in version.places.held.values() if holder.until + SKEW >= version.at]
    if len(live) > at_once:
        yield Problem("I22", version.key, "more hops hold a place than may", at_once, len(live))
    line = sorted((waiter.arrival, token) for token, waiter in version.places.line.items())
    first = [version.places.line[token] for _, token in line][: max(at_once - len(live), 0)]
    if not all(waiter.called_at for waiter in first):
        yield Problem("I23", version.key, "a place is free, and the first in line is not called")
