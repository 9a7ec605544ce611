"""What a project says that it depends on, and which of that it pins."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flowguard.deploy.problems import CannotPackage
from flowguard.deploy.wheel import normal
from flowguard.text.printable import bounded, printable

FILES: Final = ("requirements.txt", "pyproject.toml")
"""Where a project's dependencies are looked for, the first that is there."""

_NAME: Final = r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?"
_PINNED: Final = re.compile(rf"^\s*{_NAME}\s*===?\s*[^\s*;,]+\s*(?:[;#\\].*|--hash.*)?$", re.MULTILINE)
_OTHER: Final = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ =]\s*(?P<file>[^\s#]+)", re.MULTILINE)
_STARTS: Final = re.compile(rf"^{_NAME}", re.MULTILINE)


@dataclass(frozen=True)
class Requirements:
    """``lines`` are requirements by themselves, ``file`` is one of pip's. ``text`` is all that they say."""

    origin: str
    text: str = ""
    file: Path | None = None
    lines: tuple[str, ...] = ()

    @property
    def pinned(self) -> frozenset[str]:
        """Return the distributions that are pinned to one version."""
        return frozenset(normal(match["name"]) for match in _PINNED.finditer(self.text))

    @property
    def hashed(self) -> bool:
        """Return whether pip takes only files whose hashes are here."""
        return "--hash=" in self.text

    def names(self, distribution: str) -> bool:
        """Return whether a line is about that distribution."""
        return any(normal(match["name"]) == distribution for match in _STARTS.finditer(self.text))


def requirements_of(file: Path | None, *, directory: Path) -> Requirements:
    """Read the requirements of a file, or those of the project in a directory. Without any there are none.

    Raises :class:`CannotPackage` where a file is not there, or cannot be read.
    """
    chosen = file
    if chosen is None:
        there = [directory / name for name in FILES if (directory / name).is_file()]
        if not there:
            return Requirements("no requirements.txt and no pyproject.toml here")
        chosen = there[0]
    if chosen.suffix == ".toml":
        lines = _of_project(chosen)
        return Requirements(chosen.name, "\n".join(lines), lines=lines)
    return Requirements(chosen.name, _whole(chosen.resolve(), set()), file=chosen.resolve())


def _of_project(file: Path) -> tuple[str, ...]:
    try:
        data: Any = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise CannotPackage(printable(str(file)), f"cannot be read: {error}") from None
    project = data.get("project", {})
    lines = project.get("dependencies", []) if isinstance(project, dict) else None
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise CannotPackage(printable(str(file)), "project.dependencies is not a list of texts")
    for line in lines:
        if not _STARTS.match(line) or not line.isprintable():
            raise CannotPackage(printable(str(file)), f"the dependency {bounded(line)!r} is no requirement")
    return tuple(lines)


def _whole(file: Path, seen: set[Path]) -> str:
    """Return the text of a file with that of the files that it names."""
    seen.add(file)
    text = _text(file)
    others = [(file.parent / match["file"]).resolve() for match in _OTHER.finditer(text)]
    return "\n".join([text, *(_whole(other, seen) for other in others if other not in seen and other.is_file())])


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotPackage(printable(str(file)), f"cannot be read: {error}") from None
