"""What workers did, a line each in a file that outlives them: a line once written is there however its writer dies."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flowguard.events import Event

Line = dict[str, Any]


class Journal:
    """One file for all workers. Each line goes out in one unbuffered write at the file's end."""

    def __init__(self, path: Path, worker: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._worker = worker

    def write(self, what: str, **facts: Any) -> None:
        line = {"at": round(time.time(), 3), "what": what, "worker": self._worker, **facts}
        os.write(self._file, json.dumps(line, default=str).encode() + b"\n")

    def happened(self, event: Event) -> None:
        """An observer of flowguard."""
        fields = event.fields()
        self.write(fields.pop("event"), **fields)


def read_journal(path: Path) -> Iterator[Line]:
    """Line by line: a long soak's journal is larger than what one wants in memory."""
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)


def last_lines(path: Path, how_many: int) -> list[str]:
    """The end of a journal, as it stands there: what the last messages met."""
    with path.open() as lines:
        return [line.rstrip() for line in deque(lines, how_many)]
