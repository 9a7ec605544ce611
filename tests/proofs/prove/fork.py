"""Work in processes that may break as they like."""

from __future__ import annotations

import functools
import math
import multiprocessing
import os
import pickle
import resource
import signal
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final, Never, TypeVar

from flowguard.sim.reused_clients import SameClients
from flowguard.testing.explorer.run import sandbox
from tests.garbage import spare_what_is_there

CPU_SECONDS: Final = 15
WALL_SECONDS: Final = 150
"""Of one schedule or test on a mutant: it may run in circles, or wait for ever."""

_UNLIMITED: Final = resource.RLIM_INFINITY

T = TypeVar("T")


def pool(jobs: int) -> ProcessPoolExecutor:
    """Processes that have everything which this one has now, and whose garbage collectors pass over it."""
    spare_what_is_there()
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork"))


@functools.cache
def share_clients() -> None:
    """Let all explored handlers of this process, and of those forked from it, have the same clients of AWS."""
    made_anew: Any = sandbox
    made_anew.SameClients = functools.cache(SameClients)


def forked(trial: Callable[[], T], seconds: int = CPU_SECONDS) -> tuple[T] | None:
    """What the trial answers in a process of its own; None for one that came to no end, or to a wrong one.

    A trial of several parts has its ``seconds`` for each that it begins with :func:`grant`.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _as_child(writing, trial, seconds)
    os.close(writing)
    with open(reading, "rb") as answer:  # noqa: PTH123 - a pipe has no path
        said = answer.read()
    os.waitpid(child, 0)
    return (pickle.loads(said),) if said else None  # noqa: S301 - our own child's


def grant(seconds: int = CPU_SECONDS) -> None:
    """Give this process so much CPU time from now on. For one that was forked: it ends when the time is over."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime) + seconds, _UNLIMITED))
    signal.alarm(WALL_SECONDS)  # whose default is to end the process


def _as_child(writing: int, trial: Callable[[], T], seconds: int) -> Never:
    try:
        grant(seconds)
        said = pickle.dumps(trial())
        with open(writing, "wb") as answer:
            answer.write(said)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
