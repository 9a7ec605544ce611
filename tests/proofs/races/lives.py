"""Processes that are started again when they were killed, until each has come to its own end."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess

from tests.proofs.races.run import WorkerFailed
from tests.proofs.races.shared import Shared
from tests.proofs.races.worker import Race

Work = Callable[[Race, int, int, Shared], None]
"""The life of a process: of which race, its number, its life's number, and what it shares with the others."""


def live(race: Race, work: Work) -> int:
    """How many processes were killed. Raises :class:`WorkerFailed` where one of them broke."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.proofs.races.warm"])
    shared, killed = Shared(context), 0
    running = {number: _process(context, work, race, number, 0, shared) for number in range(race.processes)}
    lives = dict.fromkeys(running, 0)
    while running:
        for number, process in list(running.items()):
            process.join(0.02)
            if process.exitcode is None:
                continue
            del running[number]
            if process.exitcode == -signal.SIGKILL:
                killed, lives[number] = killed + 1, lives[number] + 1
                running[number] = _process(context, work, race, number, lives[number], shared)
            elif process.exitcode:
                raise WorkerFailed(f"process {number}: see above")
    return killed


def _process(
    context: ForkServerContext, work: Work, race: Race, number: int, life: int, shared: Shared
) -> ForkServerProcess:
    process = context.Process(target=work, args=(race, number, life, shared))
    process.start()
    return process
