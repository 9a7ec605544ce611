"""A file of a search's runs, from which one that was cut off goes on.

::

    {"flowguard runs": 3, "of": "…"}             what all runs are of: code, messages and options
    {"module": "shop", "file": "…", …}           user code that was loaded, and its digest
    {"id": "2+4/d3", "run": {"calls": […], …}}   a run that broke nothing, as far as the search goes on with it
    {"id": "2+4/d4", "run": {"ca                 the last one may have been cut off: it is run again

A search that finds a run here does not make it. Those without faults are made again, and those that broke something:
they are few, and a report shows them.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, Self

from pydantic import ConfigDict, PositiveInt, TypeAdapter, with_config

from flowguard.errors import SettingsError
from flowguard.testing.explorer.record.schedule import NoSuchSchedule
from flowguard.testing.explorer.record.site import is_user_code

_FORMAT: Final = "flowguard runs"
_VERSION: Final = 3
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_STRICT: Final = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)
_OF_ANOTHER_SEARCH: Final = "is of other code, messages or options"


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class KnownRun:
    """What a search takes from a run that broke nothing. Choices are texts, such as ``d3``.

    ``calls`` are the names of its calls, each with the letters of the faults that it met. ``reads`` and ``writes`` are
    the places that it touched, ``uncounted`` its calls whose effect no comparison sees. ``kept`` says that a module
    kept something. ``end`` is the digest of its end, which ``counts`` where it is compared; ``asked`` are the answers
    and messages that were missing. ``follow_ups`` are always tried next, ``seconds`` come after it in pairs. ``alike``
    are the hold-ups that it stands for: how many calls they wait for, None for any number, and the calls that have
    another number then.
    """

    calls: list[tuple[str, str]]
    reads: list[tuple[str, ...]]
    writes: list[tuple[str, ...]]
    uncounted: list[str]
    kept: bool
    end: str
    counts: bool
    asked: tuple[list[list[str]], list[str]] | None
    follow_ups: list[str]
    seconds: list[str] | None
    alike: list[tuple[PositiveInt | None, list[tuple[PositiveInt, PositiveInt]]]]


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class _Noted:
    """A line for a run."""

    id: str
    run: KnownRun


@with_config(_STRICT)
@dataclass(frozen=True, slots=True)
class _UserFile:
    """A line for a module of user code. ``sha256`` is that of its file, and empty where there was none.

    ``file`` is relative to the directory of the search where it is below that: the same code in another place is known.
    """

    module: str
    file: str
    sha256: str

    def is_unchanged(self, directory: Path) -> bool:
        return self.sha256 != "" and _digest(directory / self.file) == self.sha256


_LINE: Final = TypeAdapter[_Noted | _UserFile](_Noted | _UserFile)


class KnownRuns:
    """A file of runs. It is bound to a ``fingerprint`` of the code, messages and options that decide them.

    It is also bound to each file of user code that was loaded until its last run. ``check`` raises for a run of which
    a search can make nothing.

    Raises :class:`SettingsError` where the file is of others, is none of runs, or cannot be used. It is left as it was
    then. ``unwritten`` is why it could not be written to later, such as a full disk: the search goes on without it.
    """

    def __init__(self, path: Path, fingerprint: str, check: Callable[[KnownRun], object]) -> None:
        self._path = path
        self._directory = Path.cwd()
        self.unwritten = ""
        self._head = json.dumps({_FORMAT: _VERSION, "of": fingerprint}) + "\n"
        self._check = check
        self._runs: dict[str, KnownRun] = {}
        self._before: dict[str, set[str]] = {}
        self._looked_at: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        try:
            if self._path.exists() and not self._path.is_file():
                raise SettingsError("resume", f"{self._path} is no regular file; name another one")
            self._path.touch()
            self._read(self._path.read_bytes())
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise SettingsError("resume", f"{self._path}: {error.strerror}") from None
        self._write(*self._new_files())
        if self.unwritten:
            self._close()
            raise SettingsError("resume", self.unwritten)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        try:
            self._file.close()
        except OSError as error:  # what is left in the buffer is written now
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Write no more: what is there is read to its last whole line."""
        self.unwritten = self.unwritten or f"{self._path}: {error.strerror}"

    def find(self, run_id: str) -> KnownRun | None:
        """Return what a run came to. None for one that is not known.

        Raises :class:`SettingsError` where a module has been loaded by now from another file than by the earlier
        search.
        """
        self._write(*self._new_files())
        return self._runs.get(run_id)

    def note(self, run_id: str, run: KnownRun) -> None:
        """Write what a run came to, after the user code that was loaded for it."""
        self._write(*self._new_files(), _Noted(run_id, run))

    def _write(self, *lines: _Noted | _UserFile) -> None:
        """Write lines that can be read again. One with half a character of UTF-16 cannot."""
        texts = [json.dumps(asdict(line), separators=(",", ":")) for line in lines]
        if self.unwritten:
            return
        try:
            self._file.writelines(text + "\n" for text in texts if self._parsed(text.encode()) is not None)
            self._file.flush()
        except OSError as error:
            self._give_up(error)

    def _read(self, content: bytes) -> None:
        whole = content[: content.rfind(b"\n") + 1]
        head, *lines = whole.splitlines() or [content]
        if content:
            if _object_in(head).get(_FORMAT) != _VERSION:
                raise self._refused("is no file of runs")
            if head != self._head.rstrip().encode():
                raise self._refused(_OF_ANOTHER_SEARCH)
        for number, text in enumerate(lines, 2):
            line = self._parsed(text)
            if line is None:
                raise self._refused(f"has no run in line {number}")
            self._take(line)
        list(self._new_files(look_only=True))
        if whole != content or not content:
            self._path.write_bytes(whole or self._head.encode())

    def _parsed(self, text: bytes) -> _Noted | _UserFile | None:
        """Return what a line says. None where a search can make nothing of it."""
        try:
            line = _LINE.validate_json(text)
            if isinstance(line, _Noted):
                self._check(line.run)
        except (ValueError, LookupError, NoSuchSchedule):
            return None
        return line

    def _take(self, line: _Noted | _UserFile) -> None:
        if isinstance(line, _Noted):
            self._runs[line.id] = line.run
        elif line.is_unchanged(self._directory):
            self._before.setdefault(line.module, set()).add(line.file)
        else:
            raise self._refused(_OF_ANOTHER_SEARCH)

    def _new_files(self, *, look_only: bool = False) -> Iterator[_UserFile]:
        """Yield the user code that was loaded since the last time."""
        for module, name in _loaded():
            if (module, name) in self._looked_at:
                continue
            file, before = _file_of(name), self._before.get(module)
            shown = str(file.relative_to(self._directory) if file.is_relative_to(self._directory) else file)
            if before is not None and shown not in before:
                raise self._refused(_OF_ANOTHER_SEARCH)
            if not look_only:
                self._looked_at.add((module, name))
                if before is None:
                    yield _UserFile(module, shown, _digest(file))

    def _refused(self, why: str) -> SettingsError:
        return SettingsError("resume", f"{self._path} {why}, and was left as it is; name another one")


def _object_in(line: bytes) -> dict[str, Any]:
    """Return the object that a line is. Empty where it is none."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _loaded() -> Iterator[tuple[str, str]]:
    """Yield the names of all modules of user code with their files. A package is one, as its ``__init__.py``."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and is_user_code(file):
            yield name, file


def _file_of(name: str) -> Path:
    """Return the file that a module is in: of one in an archive, that archive."""
    path = Path(name).absolute()
    return next((place for place in (path, *path.parents) if place.is_file()), path)


def _digest(file: Path) -> str:
    """Return the digest of a file. Empty where it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def fingerprint_of(modules: Iterable[ModuleType], version: str, about: Any) -> str:
    """Return a digest of both versions with the modules' names and what is given.

    Of installed modules the code is in it as well. That of the user's has lines of its own.
    """
    digest = hashlib.sha256(f"{version} {sys.version}".encode())
    for module in sorted(modules, key=lambda module: module.__name__):
        file = getattr(module, "__file__", None)
        digest.update(module.__name__.encode())
        is_installed = file is not None and not is_user_code(file) and Path(file).is_file()
        digest.update(Path(file).read_bytes() if file is not None and is_installed else b"")
    digest.update(json.dumps(about, sort_keys=True, default=_named).encode())
    return digest.hexdigest()


def _named(value: Any) -> Any:
    """Return the text of a value that is no JSON, without its address in memory."""
    if isinstance(value, Mapping):
        return {str(key): part for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return _ADDRESS.sub("", repr(value)) + (_source(value) if callable(value) else "")


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""
