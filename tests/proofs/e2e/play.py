"""Scenes that are played at the same time. Each sends, says what it waits for, and checks what is there then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.engines.polling import comes_true

LONGEST: Final = 400.0
"""Seconds that a scene waits for one thing. A quiet machine needs a tenth of it."""

_AT_ONCE: Final = 4
"""Each function begins with a process that imports everything: all of them at once would starve each other."""

_PAUSE: Final = 0.1


@dataclass(frozen=True)
class Until:
    """What a scene waits for."""

    what: str
    holds: Callable[[], bool]


@dataclass(frozen=True)
class Check:
    """Something that must be so."""

    name: str
    expected: object
    found: object

    @property
    def holds(self) -> bool:
        return self.expected == self.found

    def __str__(self) -> str:
        return f"ok     {self.name}" if self.holds else f"WRONG  {self.name}: {self.found!r}, not {self.expected!r}"


Scene = Iterator[Until | Check]


class Play:
    """Plays scenes, four at a time in their order, until each has ended, and hands on their checks."""

    def __init__(self, scenes: Mapping[str, Scene], longest: float = LONGEST) -> None:
        self._scenes = dict(scenes)
        self._longest = longest
        self._waits: dict[str, tuple[Until, float]] = {}

    def checks(self) -> Iterator[Check]:
        """Yield the checks as they are made. A scene that waits too long ends with a check that fails."""
        found: list[Check] = []
        while self._scenes:
            comes_true(lambda: bool(self._go_on(found)) or not self._scenes, self._longest, every=_PAUSE)
            yield from found
            found.clear()

    def _go_on(self, found: list[Check]) -> list[Check]:
        for name in list(self._scenes)[:_AT_ONCE]:
            self._advance(name, found)
        return found

    def _advance(self, name: str, found: list[Check]) -> None:
        if (wait := self._waits.get(name)) is not None:
            until, deadline = wait
            if not until.holds():
                if time.monotonic() > deadline:
                    found.append(Check(f"{name}: {until.what}", f"within {self._longest:.0f} s", "not yet"))
                    self._end(name)
                return
            del self._waits[name]
        for one in self._scenes[name]:
            if isinstance(one, Until):
                self._waits[name] = one, time.monotonic() + self._longest
                return
            found.append(Check(f"{name}: {one.name}", one.expected, one.found))
        self._end(name)

    def _end(self, name: str) -> None:
        self._waits.pop(name, None)
        del self._scenes[name]
