"""A zip that has equal bytes for equal files.

It has no times, no permissions and no order of a machine's own."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from flowguard.deploy.problems import CannotPackage
from flowguard.text.printable import bounded, printable

LARGEST_UNPACKED: Final = 250 * 1024 * 1024
"""Bytes that the code of a function may have at Lambda, with its layers."""

NAMED: Final = 5
"""How many of the biggest packages a refusal names."""

_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the first that a zip knows
_MODE: Final = 0o100755  # may be read and run by all: Lambda's user does not own the files
_UNIX: Final = 3


class CodeSource(Protocol):
    """A source of files for the zip.

    It is a wheel or a part of the project."""

    @property
    def name(self) -> str: ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of each file by its path in the zip."""

    def read(self, path: str) -> bytes:
        """Read a file by its path in the zip."""


def unpacked(sources: Iterable[CodeSource]) -> int:
    """Return the bytes of all files."""
    return sum(sum(source.sizes.values()) for source in sources)


def megabytes(size: int) -> str:
    """Write a number of bytes as Lambda counts megabytes."""
    return f"{size / 1024 / 1024:.1f} MB"


def homes_of(sources: Iterable[CodeSource]) -> dict[str, CodeSource]:
    """Return the source of each path, in the order of the zip.

    Raises :class:`CannotPackage` where the files are too large for Lambda, have a path that leads out of the zip, or
    differ between two sources.
    """
    given = tuple(sources)
    _check_size(given)
    homes: dict[str, CodeSource] = {}
    for source in given:
        for path in source.sizes:
            _check_path(source, path)
            other = homes.setdefault(path, source)
            if other is not source and other.read(path) != source.read(path):
                problem = f"{other.name} has another file of that name; both would be at one place: rename one"
                raise CannotPackage(f"{printable(path)} of {source.name}", problem)
    return dict(sorted(homes.items()))


def write_zip(file: Path, homes: Mapping[str, CodeSource]) -> None:
    """Write the files in the order given."""
    with zipfile.ZipFile(file, "w") as packed:
        for path, source in homes.items():
            entry = zipfile.ZipInfo(path, _TIME)
            entry.create_system = _UNIX
            entry.external_attr = _MODE << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, source.read(path), compresslevel=9)


def _check_size(sources: tuple[CodeSource, ...]) -> None:
    size = unpacked(sources)
    if size <= LARGEST_UNPACKED:
        return
    biggest = sorted(sources, key=lambda source: -unpacked([source]))[:NAMED]
    named = ", ".join(f"{source.name} {megabytes(unpacked([source]))}" for source in biggest)
    raise CannotPackage(
        f"{megabytes(size)} unpacked",
        f"Lambda takes at most {megabytes(LARGEST_UNPACKED)}; the biggest are {named}. Drop what no function imports, "
        "or leave out boto3, which Lambda has",
    )


def _check_path(source: CodeSource, path: str) -> None:
    parts = PurePosixPath(path).parts
    if not path or path.startswith("/") or ".." in parts or "\\" in path or ":" in parts[0] or not path.isprintable():
        raise CannotPackage(f"{source.name} has the file {bounded(path)!r}", "this path may lead out of the zip")
