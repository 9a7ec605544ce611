"""Pause and resume a key of a stage's limit. Hops of other keys go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from flowguard.aws.dead_letter_queue import Unusable, explained
from flowguard.aws.pause_rows import Pause, PauseRows
from flowguard.errors import OtherRelease, PlacesBusy
from flowguard.limit import shards_of
from flowguard.protocol.places import Change, KeyPause, Places, paused, resumed
from flowguard.worker.place_store import PlaceKey, PlaceStore


class PausedKey(NamedTuple):
    """A key with its pause. ``is_new`` where nobody has paused it before.

    ``at_work`` counts the hops that hold a place and go on, ``in_line`` those that wait, 50 at most for each shard.
    """

    pause: Pause
    at_work: int
    in_line: int
    is_new: bool


class KeyPauses:
    """Pauses keys and resumes them. Each call may be repeated: what is done already stays.

    ``nonce`` makes what tells two writes of an item apart.
    """

    def __init__(self, rows: PauseRows, places: PlaceStore, nonce: Callable[[], str]) -> None:
        self._rows = rows
        self._places = places
        self._nonce = nonce

    def pause(self, key: PlaceKey, why: str, now: int, shards: int = 1) -> PausedKey:
        """Pause a key in all its shards. An earlier pause keeps its time and reason, but for one of the key's own.

        The row is written before the key's items, and is there after them, also where the key is resumed meanwhile.
        Raises :class:`Unusable`.
        """
        there = self.of(key)
        is_new = there is None or there.until > 0
        pause = Pause(*key[:2], "", now, why, {}, place=key.place) if is_new else there
        assert pause is not None  # noqa: S101 - an earlier one is there
        if is_new or pause.shards < shards:
            pause = pause._replace(shards=shards, nonce=self._nonce())
            self._write(pause, there)
        each = [
            self._change(item, lambda places: paused(places, KeyPause(pause.since, pause.why)))
            for item in _items(key, pause.shards)
        ]
        if self.of(key) is None:
            self._write(pause)
        at_work, in_line = (sum(map(len, of)) for of in zip(*((seen.held, seen.line) for seen in each), strict=True))
        return PausedKey(pause, at_work, in_line, is_new)

    def resume(self, key: PlaceKey, shards: int = 1) -> Pause | None:
        """End the pause of a key, and return it. None where the key was not paused. Raises :class:`Unusable`.

        That is in the shards that it had when it was paused, or in so many where no row says that. Nobody in line is
        called: each looks again within 15 minutes, and calls those before it.
        """
        there = self.of(key)
        before: KeyPause | None = None

        def ended(places: Places) -> Change:
            nonlocal before
            before = before or places.pause
            return resumed(places)

        for item in _items(key, shards if there is None else there.shards):
            self._change(item, ended)
        if there is None:
            return None if before is None else Pause(*key[:2], "", before.since, before.why, {}, place=key.place)
        with _explained(key):
            if there.until:
                self._rows.tell_end(*key)
            elif not self._rows.remove(there):
                raise _changed(key)
        return there

    def of(self, key: PlaceKey) -> Pause | None:
        """Return the row of a key that is paused."""
        with explained(f"table {self._rows.table}"):
            rows = self._rows.all()
        return next((row for row in rows if (row.flow, row.stage, row.place) == key), None)

    def _write(self, pause: Pause, before: Pause | None = None) -> None:
        key = PlaceKey(pause.flow, pause.stage, pause.place)
        with _explained(key):
            if not self._rows.write(pause, before):
                raise _changed(key)

    def _change(self, key: PlaceKey, decide: Callable[[Places], Change]) -> Places:
        with _explained(key):
            try:
                return self._places.change(key, decide, self._nonce(), frees=True).seen.places
            except PlacesBusy as error:
                raise Unusable(_name(key), str(error), "it is done in part at most; repeat the command") from None
            except OtherRelease as error:
                raise Unusable(_name(key), str(error), "it is done in part at most; use the newer release") from None


@contextmanager
def _explained(key: PlaceKey) -> Iterator[None]:
    with explained(_name(key)):
        yield


def _items(key: PlaceKey, shards: int) -> list[PlaceKey]:
    """Return the items of a key, one for each shard."""
    return [key._replace(place=place) for place in shards_of(key.place, shards)]


def _name(key: PlaceKey) -> str:
    return f"key {key.place} of {key.stage}"


def _changed(key: PlaceKey) -> Unusable:
    fix = "look with 'flowguard stats', and repeat the command"
    return Unusable(_name(key), "somebody else paused or resumed it at the same time", fix)
