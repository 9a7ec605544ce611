"""A package or module of a project as the files that a function gets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from flowguard.deploy.problems import CannotPackage
from flowguard.text.printable import printable


class SourceTree:
    """A module, package or directory of data. It is at the top of the zip under its own name.

    Hidden files, compiled caches and compiled sources are left out. Links to files are followed.
    """

    def __init__(self, place: Path) -> None:
        self._root = place.parent
        self.name = printable(place.name)
        self.sizes: Mapping[str, int] = dict(self._found(place))

    def read(self, path: str) -> bytes:
        """Read a file. Raises :class:`CannotPackage` where that is not possible."""
        try:
            return (self._root / path).read_bytes()
        except OSError as error:
            raise CannotPackage(printable(path), f"cannot be read: {error.strerror}") from None

    def _found(self, place: Path) -> Iterator[tuple[str, int]]:
        for file in [place] if place.is_file() else _files(place):
            try:
                status = file.stat()
            except OSError as error:
                raise CannotPackage(printable(str(file)), f"cannot be read: {error.strerror}") from None
            if not stat.S_ISREG(status.st_mode):
                raise CannotPackage(printable(str(file)), "this is a pipe or device, not a file: move it elsewhere")
            yield file.relative_to(self._root).as_posix(), status.st_size


def _files(place: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(place, onerror=_refuse):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for link in (here / name for name in folders if (here / name).is_symlink()):
            raise CannotPackage(printable(str(link)), "a link to a directory is not followed: move or copy it here")
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith((".pyc", ".pyo")):
                yield here / name


def _refuse(error: OSError) -> None:
    raise CannotPackage(printable(str(error.filename)), f"cannot be read: {error.strerror}") from None
