"""Files of recorded events. They hold JSON, or a line of JSON for each event, in any UTF that a shell writes."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from flowguard.cli.connection import CannotRun

STDIN: Final = "-"
EXPECTED: Final = "expected.toml"
"""What the recordings of a directory are meant to end as."""

SKIPPED: Final = "bad"
"""A directory of that name holds examples of what cannot be read."""


class _Expected(BaseModel):
    """What such a file says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    failing: dict[str, list[str]] = {}
    not_explored: list[str] = []


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file or event that cannot be read. ``name`` is the file, with the line where there are several events in it."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


def read_files(names: Iterable[str]) -> Iterator[tuple[str, Any] | Unreadable]:
    """Read every event with its name, in order.

    A directory stands for the ``*.json`` in it and below, in order of names.
    """
    for name in names:
        files = _files(name)
        if not files:
            yield Unreadable(name, "no *.json is in this directory, nor below it")
        for file in files:
            try:
                text = read_text(file)
            except (OSError, ValueError) as error:
                yield Unreadable(file, getattr(error, "strerror", None) or str(error))
                continue
            yield from (_event(part, line) for part, line in _parts(file, text))


def expected_to_fail(names: Iterable[str]) -> tuple[str, ...]:
    """Return what of these files is meant to fail, as the ``expected.toml`` beside each says it.

    ::

        [failing]
        "03-declined.json" = ["pay-3003=Reject"]

    Raises :class:`CannotRun` for such a file that says something else, or names a file that is not there.
    """
    files = [Path(file) for name in names for file in _files(name) if file != STDIN]
    manifests = {folder: _expected(folder / EXPECTED) for folder in dict.fromkeys(file.parent for file in files)}
    return tuple(dict.fromkeys(name for file in files for name in manifests[file.parent].failing.get(file.name, ())))


def to_be_explored(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files of these names, and those that the ``expected.toml`` of their directories leaves out.

    ::

        not_explored = ["03-two-shards.json"]

    A file that is named itself is explored all the same. A directory without files stays, for its reader to name it.
    """
    files: list[str] = []
    left_out: list[str] = []
    for name in names:
        for file in _files(name) or [name]:
            is_left_out = file != name and Path(file).name in _expected(Path(file).parent / EXPECTED).not_explored
            (left_out if is_left_out else files).append(file)
    return tuple(files), tuple(left_out)


def without_reason(name: str) -> str:
    """Return the object of OBJECT=WHY."""
    return _REASON.sub("", name)


_REASON: Final = re.compile(r"=[\w-]+$")


def _expected(file: Path) -> _Expected:
    """Read such a file. Nothing is expected where there is none."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return _Expected()
    except (OSError, ValueError) as error:
        raise CannotRun(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    try:
        expected = _Expected.model_validate(tomllib.loads(text))
        if not expected.model_fields_set:
            raise ValueError("nothing is said")
    except (ValueError, RecursionError) as error:
        is_toml = not isinstance(error, tomllib.TOMLDecodeError)
        why = "write [failing], and below it FILE = [OBJECT, …]" if is_toml else error
        raise CannotRun(f"{file}: {why}") from None
    if vague := [name for names in expected.failing.values() for name in names if name.endswith("=")]:
        raise CannotRun(f"{file}: {', '.join(vague)} names no error; write OBJECT=WHY, or OBJECT for any error")
    if missing := [name for name in (*expected.failing, *expected.not_explored) if not (file.parent / name).is_file()]:
        raise CannotRun(f"{file}: {', '.join(missing)} is not there")
    return expected


def _files(name: str) -> list[str]:
    place = Path(name)
    if name == STDIN or not place.is_dir():
        return [name]
    files = sorted(file for file in place.rglob("*.json") if file.is_file())
    return [str(file) for file in files if SKIPPED not in file.relative_to(place).parts[:-1]]


def read_text(file: str) -> str:
    """Read a file in any UTF. A dash is standard input."""
    data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    return data.decode(json.detect_encoding(data))


def read_payload(file: str) -> str:
    """Read the payload of a request. Raises :class:`CannotRun` for a file that has none."""
    try:
        text = read_text(file)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise CannotRun(f"{file}: {problem}. Nothing was sent") from None
    if not text.strip():
        raise CannotRun(f"{file}: empty. Nothing was sent")
    return text


def _parts(file: str, text: str) -> list[tuple[str, str]]:
    """Split a file into texts of JSON with their names.

    The file is one text, or each of its lines is one where the first is whole by itself and others follow.
    """
    first, _, rest = text.strip().partition("\n")  # not splitlines, which also splits at U+2028 within a string
    if not rest or isinstance(_event(file, first), Unreadable):
        return [(file, text)]
    return [(f"{file}:{number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _event(name: str, text: str) -> tuple[str, Any] | Unreadable:
    try:
        return name, json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return Unreadable(name, f"not JSON: {error}" if text.strip() else "empty")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")
