"""The workers of a soak or a test: real processes, started again when they were killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from tests.proofs.soak import worker
from tests.proofs.soak.sandbox import Sandbox

_SECONDS_TO_STOP = 10


class WorkerFailed(Exception):
    """A worker ended by itself, which is a mistake of the worker's: nobody killed it."""


@dataclass
class Workers:
    """``deaths`` are the signals that ended workers."""

    sandbox: Sandbox
    journal: Path
    deaths: list[signal.Signals] = field(default_factory=list)
    _running: dict[str, tuple[tuple[str, ...], ForkServerProcess]] = field(default_factory=dict)

    def start(self, name: str, flow: str, queue: str, *arguments: str) -> None:
        """``arguments`` are those of ``tests.proofs.soak.worker``. Every other worker is on the lean client."""
        words = (
            *("--name", name, "--flow", flow, "--queue", queue),
            *("--dynamodb", self.sandbox.dynamodb_url, "--sqs", self.sandbox.sqs_url),
            *("--access-key", self.sandbox.access_key, "--journal", str(self.journal)),
            *(() if len(self._running) % 2 else ("--lean",)),
            *arguments,
        )
        self._running[name] = words, _process(words)

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._running)

    def kill(self, name: str) -> bool:
        """Kills it wherever it is, and waits until it is gone; False where it was gone before."""
        process = self._running[name][1]
        if process.exitcode is not None or process.pid is None:
            return False
        os.kill(process.pid, signal.SIGKILL)
        process.join(_SECONDS_TO_STOP)
        return True

    def tend(self) -> None:
        """Starts those again that were killed."""
        for name, (words, process) in self._running.items():
            code = process.exitcode
            if code is None:
                continue
            if code >= 0:
                raise WorkerFailed(f"{name} ended with {code}")
            self.deaths.append(signal.Signals(-code))
            self._running[name] = words, _process(words)

    def stop(self, *names: str) -> None:
        """Each after its batch; all of them where none is named."""
        ending = [self._running.pop(name)[1] for name in names or tuple(self._running)]
        for process in ending:
            process.terminate()
        for process in ending:
            process.join(_SECONDS_TO_STOP)
            if process.exitcode is None:
                process.kill()
                process.join()


@contextmanager
def workers_on(sandbox: Sandbox, journal: Path) -> Iterator[Workers]:
    """Workers that end with the block."""
    workers = Workers(sandbox, journal)
    try:
        yield workers
    finally:
        workers.stop()


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.proofs.soak.warm"])
    return context


def _process(words: tuple[str, ...]) -> ForkServerProcess:
    process = _context().Process(target=worker.main, args=(words,), daemon=True)
    process.start()
    return process
