"""The workers of a soak or a test: real processes, started again when they were killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.ground import Ground

ROOT = Path(__file__).parents[2]
_SECONDS_TO_STOP = 10


class WorkerFailed(Exception):
    """A worker ended by itself, which is a mistake of the worker's: nobody killed it."""


@dataclass
class Workers:
    """``deaths`` are the signals that ended workers."""

    ground: Ground
    journal: Path
    deaths: list[signal.Signals] = field(default_factory=list)
    _running: dict[str, tuple[tuple[str, ...], subprocess.Popen[bytes]]] = field(default_factory=dict)

    def start(self, name: str, flow: str, queue: str, *arguments: str) -> None:
        """``arguments`` are those of ``python -m tests.soak.worker --help``."""
        command = (
            *(sys.executable, "-m", "tests.soak.worker", "--name", name, "--flow", flow, "--queue", queue),
            *("--dynamodb", self.ground.dynamodb_url, "--sqs", self.ground.sqs_url),
            *("--access-key", self.ground.access_key, "--journal", str(self.journal)),
            *arguments,
        )
        self._running[name] = command, _process(command)

    def tend(self) -> None:
        """Starts those again that were killed."""
        for name, (command, process) in self._running.items():
            code = process.poll()
            if code is None:
                continue
            if code >= 0:
                raise WorkerFailed(f"{name} ended with {code}")
            self.deaths.append(signal.Signals(-code))
            self._running[name] = command, _process(command)

    def stop(self, *names: str) -> None:
        """Each after its batch; all of them where none is named."""
        ending = [self._running.pop(name)[1] for name in names or tuple(self._running)]
        for process in ending:
            process.terminate()
        for process in ending:
            try:
                process.wait(_SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def workers_on(ground: Ground, journal: Path) -> Iterator[Workers]:
    """Workers that end with the block."""
    workers = Workers(ground, journal)
    try:
        yield workers
    finally:
        workers.stop()


def _process(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
