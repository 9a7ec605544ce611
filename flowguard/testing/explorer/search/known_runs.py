"""The runs of a search in a file, so that a search which was cut off goes on where it was.

::

    flowguard runs 1 <fingerprint>\\n
    length  key and history, packed
    length  key and history, packed      the last one may have been cut off

A search is decided by its runs alone. So one that finds them here ends as if it had made them.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import re
import struct
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType, TracebackType
from typing import Any, Final, Self, TypeAlias

from flowguard.errors import SettingsError
from flowguard.testing.explorer.record.history import History

_MAGIC: Final = b"flowguard runs 1 "
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_LENGTH: Final = struct.Struct(">I")

RunKey: TypeAlias = tuple[str, ...]
"""What a run is decided by, beside all that the fingerprint is of."""


class KnownRuns:
    """A file of runs. It is opened by the ``fingerprint`` of the code, messages and options that decide them.

    Raises :class:`SettingsError` where the file is of others, is none of runs, or cannot be used.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._head = _MAGIC + fingerprint.encode() + b"\n"
        self._places: dict[RunKey, int] = {}

    def __enter__(self) -> Self:
        try:
            self._path.touch()
            self._file = self._path.open("r+b")
            self._open()
        except OSError as error:
            raise SettingsError("resume", f"{self._path}: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def find(self, key: RunKey) -> History | None:
        """Return the history of a run. None for one that is not known."""
        if (place := self._places.get(key)) is None:
            return None
        self._file.seek(place)
        return self._frame()[1]

    def note(self, key: RunKey, history: History) -> None:
        """Write a run at the end of the file. One that cannot be packed is made again the next time."""
        packed = io.BytesIO()
        try:
            _Pickler(packed, pickle.HIGHEST_PROTOCOL).dump((key, history))
        except Exception:  # what user code has raised or sent may be anything
            return
        content = zlib.compress(packed.getvalue(), 1)
        self._places[key] = self._file.seek(0, io.SEEK_END)
        self._file.write(_LENGTH.pack(len(content)) + content)
        self._file.flush()

    def _open(self) -> None:
        head = self._file.readline()
        if not head:
            self._file.write(self._head)
            self._file.flush()
        elif not head.startswith(_MAGIC):
            self._file.close()
            raise SettingsError("resume", f"{self._path} is no file of runs, and was left as it is; name another one")
        elif head != self._head:
            self._file.close()
            raise SettingsError(
                "resume", f"{self._path} is of other code, messages or options, and was left as it is; name another one"
            )
        else:
            self._index()

    def _index(self) -> None:
        """Find where each run stands, and cut off one that was not written to its end."""
        whole = self._file.tell()
        while True:
            try:
                key, _ = self._frame()
            except (EOFError, struct.error, zlib.error):
                self._file.truncate(whole)
                return
            self._places[key] = whole
            whole = self._file.tell()

    def _frame(self) -> tuple[RunKey, History]:
        (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
        content = self._file.read(length)
        if len(content) < length:
            raise EOFError
        frame: tuple[RunKey, History] = pickle.loads(zlib.decompress(content))  # noqa: S301 - the user's own file
        return frame


def fingerprint_of(modules: Iterable[ModuleType], version: str, about: Any) -> str:
    """Return a text that is equal where code, messages and options are."""
    digest = hashlib.sha256(f"{version} {sys.version}".encode())
    for module in sorted(modules, key=lambda module: module.__name__):
        file = getattr(module, "__file__", None)
        digest.update(module.__name__.encode())
        digest.update(Path(file).read_bytes() if file is not None and Path(file).is_file() else b"")
    digest.update(json.dumps(about, sort_keys=True, default=_named).encode())
    return digest.hexdigest()


def _named(value: Any) -> Any:
    """Return what stands for a value that is no JSON: no address in memory, which differs each time."""
    if isinstance(value, Mapping):
        return {str(key): part for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return _ADDRESS.sub("", repr(value))


class _Pickler(pickle.Pickler):
    """It also packs mappings that cannot be changed."""

    def reducer_override(self, value: Any) -> Any:
        return (_proxy, (dict(value),)) if isinstance(value, MappingProxyType) else NotImplemented


def _proxy(values: dict[Any, Any]) -> Any:
    return MappingProxyType(values)
