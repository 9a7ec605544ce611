"""The data keys that a process keeps, and for how long.

::

    new key ── seals for minutes ──▶ another new key      its sealed form stands beside each value
                                     └▶ the old one opens what it sealed, for as long
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from flowguard.clock import Clock
from flowguard.errors import KeyUnavailable
from flowguard.payload.data_keys import Context, DataKeys, NewDataKey
from flowguard.startup.named_tuple import NamedTuple

MOST_OPENED: Final = 4_096
"""Data keys that a process keeps open at a time, some hundred bytes each. More than a fleet has environments: each of
them seals under a key of its own. Of more the one that was used least recently is asked for again."""

MOST_SEALED: Final = 1 << 24
"""Values that one data key seals at most: far fewer than its random nonces are good for."""


AWAY_MS: Final = 5_000
"""How long a data key that could not be opened is not asked for again (ms): the records of an invocation that have it
do not each wait for a service that is away."""

_STAND_INS: Final[list[DataKeys]] = []


@contextmanager
def standing_in(keys: DataKeys) -> Iterator[None]:
    """Let these keys stand in for AWS's in the block: nothing of a simulation asks a real service."""
    _STAND_INS.append(keys)
    try:
        yield
    finally:
        _STAND_INS.remove(keys)


def data_keys_here(make: Callable[[], DataKeys]) -> DataKeys:
    """Return the keys that stand in, else those that are made of AWS's own."""
    return _STAND_INS[-1] if _STAND_INS else make()


_Name = TypeVar("_Name")
_Kept = TypeVar("_Kept")


class _Sealing(NamedTuple):
    """The data key that seals for one scope until ``until`` (ms)."""

    made: NewDataKey
    until: int


class KeptKeys:
    """The data keys that a process has at hand, each for ``interval`` ms at most. Never shown.

    The ``scope`` of a data key is one text for what it is for: the environment and the flow.
    """

    def __init__(self, source: DataKeys, clock: Clock, interval: int) -> None:
        self.source = source
        self._clock = clock
        self._interval = interval
        self._sealing: dict[str, _Sealing] = {}
        self._uses: dict[str, int] = {}
        self._opened: dict[tuple[bytes, str], tuple[bytes, int]] = {}
        self._away: dict[tuple[bytes, str], tuple[KeyUnavailable, int]] = {}

    def sealing(self, key: str, scope: str, context: Context) -> NewDataKey:
        """Return the data key that seals now for a scope, which may be a new one."""
        now, kept = self._clock.now(), self._sealing.get(scope)
        uses = self._uses.get(scope, 0) + 1
        if kept is None or not _holds(kept.until, now, self._interval) or uses > MOST_SEALED:
            kept, uses = _Sealing(self.source.make(key, context), now + self._interval), 1
            self._sealing[scope] = kept
            self._keep(kept.made.sealed, scope, kept.made.secret, now)
        self._uses[scope] = uses
        return kept.made

    def opening(self, sealed: bytes, scope: str, keys: Sequence[str], context: Context) -> bytes | None:
        """Return the data key that has sealed a value of a scope. None where no key here opens it.

        One that could not be opened less than five seconds ago is not asked for again. Others are: the sender of a
        message chooses its data key, and may choose one whose key is disabled.
        """
        now, kept = self._clock.now(), self._opened.get((sealed, scope))
        if kept is not None and _holds(kept[1], now, self._interval):
            _put_last(self._opened, (sealed, scope), kept)
            return kept[0]
        if (away := self._away.get((sealed, scope))) is not None and _holds(away[1], now, AWAY_MS):
            raise KeyUnavailable(away[0].key, away[0].why)
        try:
            secret = self.source.opened(sealed, keys, context)
        except KeyUnavailable as error:
            told = KeyUnavailable(error.key, error.why)  # without the frames of a traceback, and what they hold
            self._note(self._away, (sealed, scope), (told, self._clock.now() + AWAY_MS), AWAY_MS)
            raise
        if secret is not None:
            self._keep(sealed, scope, secret, now)
        return secret

    def _keep(self, sealed: bytes, scope: str, secret: bytes, now: int) -> None:
        self._note(self._opened, (sealed, scope), (secret, now + self._interval), self._interval)

    def _note(self, kept: dict[_Name, tuple[_Kept, int]], name: _Name, value: tuple[_Kept, int], span: int) -> None:
        """Keep a value as the last one. Of the others those leave whose time is over, and the first of too many."""
        _put_last(kept, name, value)
        noted, now = kept.copy(), self._clock.now()  # a copy, for other threads put into it and take out of it
        over = [each for each, (_, until) in noted.items() if not _holds(until, now, span)]
        for each in (*over, *list(noted)[:-MOST_OPENED]):
            kept.pop(each, None)


def _put_last(kept: dict[_Name, _Kept], name: _Name, value: _Kept) -> None:
    """Keep a value behind all others: the first one is then the one that was used least recently."""
    kept.pop(name, None)
    kept[name] = value


def _holds(until: int, now: int, span: int) -> bool:
    """Answer whether what was noted for a span is good now (all ms). After a clock has stepped back it is not."""
    return 0 < until - now <= span
