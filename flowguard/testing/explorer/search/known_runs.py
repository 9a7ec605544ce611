"""A file of a search's runs, from which one that was cut off goes on.

::

    {"flowguard runs": 1, "of": "…"}        what all runs are of: code, messages and options
    {"id": "2+4/d3", "calls": […], …}       a run that broke nothing, as far as the search goes on with it
    {"id": "2+4/d4", "ca                    the last one may have been cut off: it is run again

A search that finds a run here does not make it. Those without faults are made again, and those that broke something:
they are few, and a report shows them.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, Self

from flowguard.errors import SettingsError

_FORMAT: Final = "flowguard runs"
_VERSION: Final = 1
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class KnownRun:
    """What a search takes from a run that broke nothing. Choices are texts, such as ``d3``.

    ``calls`` are the names of its calls, each with the letters of the faults that it met. ``reads`` and ``writes`` are
    the places that it touched, ``uncounted`` its calls whose effect no comparison sees. ``kept`` says that a module
    kept something. ``end`` is the digest of its end, which ``counts`` where it is compared; ``asked`` are the answers
    and messages that were missing, ``unjudged`` says that nothing could be said of it. ``follow_ups`` are always tried
    next, ``seconds`` come after it in pairs. ``alike`` are the hold-ups that it stands for: how many calls they wait
    for, None for any number, and the calls that have another number then.
    """

    calls: list[list[str]]
    reads: list[list[str]]
    writes: list[list[str]]
    uncounted: list[str]
    kept: bool
    end: str
    counts: bool
    asked: list[Any] | None
    unjudged: bool
    follow_ups: list[str]
    seconds: list[str] | None
    alike: list[list[Any]]


class KnownRuns:
    """A file of runs. It is bound to a ``fingerprint`` of the code, messages and options that decide them.

    Raises :class:`SettingsError` where the file is of others, is none of runs, or cannot be used. It is left as it was
    then.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._head = json.dumps({_FORMAT: _VERSION, "of": fingerprint}) + "\n"
        self._runs: dict[str, KnownRun] = {}

    def __enter__(self) -> Self:
        try:
            self._path.touch()
            self._read(self._path.read_bytes())
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise SettingsError("resume", f"{self._path}: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def find(self, run_id: str) -> KnownRun | None:
        """Return what a run came to. None for one that is not known."""
        return self._runs.get(run_id)

    def note(self, run_id: str, run: KnownRun) -> None:
        """Write what a run came to."""
        self._file.write(json.dumps({"id": run_id, **asdict(run)}, separators=(",", ":")) + "\n")
        self._file.flush()

    def _read(self, content: bytes) -> None:
        whole = content[: content.rfind(b"\n") + 1]
        head, *lines = whole.splitlines() or [content]
        if not content:
            self._path.write_text(self._head)
            return
        if _read(head).get(_FORMAT) != _VERSION:
            raise self._refused("is no file of runs")
        if head != self._head.rstrip().encode():
            raise self._refused("is of other code, messages or options")
        for number, line in enumerate(lines, 2):
            read = _read(line)
            try:
                run_id = read.pop("id")
                self._runs[run_id] = KnownRun(**read)
            except (KeyError, TypeError):
                raise self._refused(f"has no run in line {number}") from None
        if whole != content:
            self._path.write_bytes(whole)

    def _refused(self, why: str) -> SettingsError:
        return SettingsError("resume", f"{self._path} {why}, and was left as it is; name another one")


def _read(line: bytes) -> dict[str, Any]:
    """Return the object that a line is. Empty where it is none."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def fingerprint_of(modules: Iterable[ModuleType], version: str, about: Any) -> str:
    """Return a digest of flowguard's version, Python's, the modules' code and what is given."""
    digest = hashlib.sha256(f"{version} {sys.version}".encode())
    for module in sorted(modules, key=lambda module: module.__name__):
        file = getattr(module, "__file__", None)
        digest.update(module.__name__.encode())
        digest.update(Path(file).read_bytes() if file is not None and Path(file).is_file() else b"")
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
