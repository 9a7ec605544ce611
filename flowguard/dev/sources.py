"""The source files below a directory, and whether one has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_SKIPPED: Final = frozenset({"__pycache__", "node_modules"})

Seen = Mapping[str, tuple[int, int]]
"""The time and size of each file."""


class Sources:
    """The ``*.py`` below a directory and some more files. Hidden directories and virtual environments are left out."""

    def __init__(self, directory: Path, *more: Path) -> None:
        self._directory = directory
        self._more = more
        self._loaded = self._last = self._look()

    def changed(self) -> list[str]:
        """Return the files that changed since the last call that returned any.

        A save may take several steps, so a change counts once two looks have found the same.
        """
        before, self._last = self._last, self._look()
        if self._last != before or self._last == self._loaded:
            return []
        different = {*self._last.items()} ^ {*self._loaded.items()}
        self._loaded = self._last
        return sorted({os.path.relpath(name, self._directory) for name, _ in different})

    def _look(self) -> Seen:
        stamps: dict[str, tuple[int, int]] = {}
        for file in (*_python_files(self._directory), *map(str, self._more)):
            try:
                stat = os.stat(file)  # noqa: PTH116 - a thousand times a second
            except OSError:
                continue  # it was there a moment ago
            stamps[file] = (stat.st_mtime_ns, stat.st_size)
        return stamps


def _python_files(directory: Path) -> Iterator[str]:
    for place, directories, files in os.walk(directory):
        if "pyvenv.cfg" in files:
            directories.clear()
            continue
        directories[:] = [name for name in directories if not name.startswith(".") and name not in _SKIPPED]
        yield from (os.path.join(place, file) for file in files if file.endswith(".py"))  # noqa: PTH118
