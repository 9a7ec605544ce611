"""Notes that processes forked from this one leave for it."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Final

_END: Final = b"\n"


class ForkedNotes:
    """A file without a name, which each fork of this process has too."""

    def __init__(self) -> None:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as this object is there
        weakref.finalize(self, file.close)
        self._number = file.fileno()
        self._file = _identity(self._number)
        self._pid = os.getpid()
        self._read = 0

    @property
    def are_elsewhere(self) -> bool:
        """Answer whether this is a fork of the process that reads the notes."""
        return os.getpid() != self._pid

    def leave(self, note: str) -> None:
        """Leave a note of one line, unless this process has closed the file."""
        try:
            if _identity(self._number) == self._file:
                os.write(self._number, note.encode() + _END)
        except OSError:
            return

    def take(self) -> list[str]:
        """Return the notes that were left since they were taken last."""
        text = os.pread(self._number, os.fstat(self._number).st_size - self._read, self._read)
        whole = text[: text.rfind(_END) + 1]
        self._read += len(whole)
        return whole.decode().splitlines()


def _identity(number: int) -> tuple[int, int]:
    status = os.fstat(number)
    return status.st_dev, status.st_ino
