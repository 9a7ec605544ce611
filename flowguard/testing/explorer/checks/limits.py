"""Checks that no more handlers are at work than a limit has places (I22), and that no place stays free beside a line.

The latter is I23. That no more of them begin in a time than a limit lets is I24, and that none begins while its key has
paused itself, but one at a time that tries it, is I25.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from flowguard.flow import AnyFlow
from flowguard.limit import PerKey
from flowguard.protocol.places import NOBODY, SKEW, Places, trials
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.history import History, LimitedHandler, PlacesVersion


def places_are_kept(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I22 and I24 on each handler. Check I22, I23 and I25 on each version of a key's item.

    I23: the first who stand in line are called, as many as places are free. They come, or look, or are dropped.
    """
    limits = {
        f"limit#{flow.name}#{stage.name}#{limit.title}": limit
        for flow in flows
        for stage in flow.stages
        for limit in stage.limits
    }
    before: dict[str, Places] = {}
    for version in history.places:
        yield from _kept(version, limits)
        yield from _paused(version, before.get(version.key, NOBODY))
        before[version.key] = version.places
    yield from _at_work(history, {name: limit for name, limit in limits.items() if limit.at_once is not None})
    yield from _begun(history, limits)


def _paused(version: PlacesVersion, before: Places) -> Iterator[Problem]:
    """Check that a write gives no place while its key is paused, but that of a trial when nobody else tries."""
    pause, places = before.pause, version.places
    given = [name for name, holder in places.held.items() if holder != before.held.get(name)]
    if pause is None or not given:
        return
    other = before.held.get(pause.trial)
    may_try = other is None or pause.trial in given or other.until + SKEW < version.at
    if not (0 < pause.until <= version.at and may_try and places.pause == pause._replace(trial=given[0])):
        yield Problem("I25", version.key, "a hop begins while its key is paused", "no place, or a trial's", given)


def _begun(history: History, limits: Mapping[str, PerKey]) -> Iterator[Problem]:
    """Check I24 on each call of a handler: that of those before it no more lie within its limit's time."""
    for number, handler in enumerate(history.limited):
        for key in handler.keys:
            limit = limits[key.rpartition("#")[0]]
            if limit.per is None:
                continue
            since = handler.at - limit.per // _MS
            begun = [other for other in history.limited[: number + 1] if key in other.keys and other.at > since]
            if len(begun) > (most := limit.most_of(key)):
                yield Problem("I24", key, f"more handlers have begun in {limit.per} than may", most, len(begun))


def _at_work(history: History, limits: Mapping[str, PerKey]) -> Iterator[Problem]:
    """Check that each handler which is called finds a place free of those that are at work.

    A hop is at work until its commit, until its attempt has failed, or until its lease is over. A worker that is dead
    does nothing any more.
    """
    for number, handler in enumerate(history.limited):
        for key in handler.keys:
            if (limit := limits.get(key.rpartition("#")[0])) is None:
                continue
            at_once = limit.most_of(key)
            others = [other for other in history.limited[:number] if key in other.keys and other.until >= handler.at]
            at_work = {other.hop for other in others if _end(history, other) > handler.calls} | {handler.hop}
            if len(at_work) > at_once:
                yield Problem("I22", key, "more hops are at work than may be", at_once, len(at_work))


def _end(history: History, handler: LimitedHandler) -> int:
    """Return the number of the call with which the hop's work has ended."""
    if handler.raised_after is not None:
        return handler.raised_after
    made = [call for call in history.calls[handler.calls :] if call.worker == handler.worker]
    ends = [call.number for call in made if not call.site.is_users and call.site.function in _ENDING]
    return ends[0] if ends else max((call.number for call in made), default=handler.calls)


_MS: Final = timedelta(milliseconds=1)

_ENDING: Final = frozenset({"commit", "release", "note the back-off", "dispatch"})
"""The steps of flowguard's own with which the work of a hop is over, done or failed."""


def _kept(version: PlacesVersion, limits: Mapping[str, PerKey]) -> Iterator[Problem]:
    limit = limits[version.key.rpartition("#")[0]]
    beyond = 0 if limit.window else SKEW
    live = [holder for holder in version.places.held.values() if holder.until + beyond >= version.at]
    most = limit.most_of(version.key)
    if len(live) > most:
        yield Problem("I22", version.key, "more hops hold a place than may", most, len(live))
    others = [token for token in version.places.line if token not in version.places.held]
    line = sorted((version.places.line[token].arrival, token) for token in others)
    free = max(most - len(live), 0)
    if version.places.pause is not None:
        free = min(free, trials(version.places))
    first = [version.places.line[token] for _, token in line][:free]
    if not all(waiter.called_at for waiter in first):
        yield Problem("I23", version.key, "a place is free, and the first in line is not called")
