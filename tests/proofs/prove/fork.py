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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import Any, BinaryIO, Final, Never, TypeVar

from flowguard.sim.reused_clients import SameClients
from flowguard.testing.explorer.run import sandbox
from tests.garbage import spare_what_is_there

CPU_SECONDS: Final = 2.0
WALL_SECONDS: Final = 20
"""Of one schedule or test on a mutant: it may run in circles, or wait for ever. Undisturbed, most take milliseconds."""

LONGER: Final = 10
"""So many times what it takes undisturbed: what takes longer comes to no end."""

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


def forked(trial: Callable[[], T], seconds: float = CPU_SECONDS) -> tuple[T] | None:
    """What the trial answers in a process of its own; None for one that came to no end, or to a wrong one.

    A trial of several parts has its ``seconds`` for each that it begins with :func:`grant`.
    """
    answers = forked_in_turn([trial], lambda _: False, seconds)
    return (answers[0],) if answers else None


def forked_in_turn(
    trials: Sequence[Callable[[], T]], is_last: Callable[[T], bool], seconds: float = CPU_SECONDS
) -> list[T]:
    """What the trials answer, one after the other in one process, up to the first answer that is the last.

    There are fewer where a trial came to no end, or to a wrong one: it is the next.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _as_child(writing, trials, is_last, seconds)
    os.close(writing)
    with open(reading, "rb") as answer:  # noqa: PTH123 - a pipe has no path
        answers = [*_read(answer)]
    os.waitpid(child, 0)
    return answers


def _read(answer: BinaryIO) -> Iterator[Any]:
    with suppress(EOFError, pickle.UnpicklingError):  # cut off where the child was ended
        while True:
            yield pickle.load(answer)  # noqa: S301 - our own child's


def grant(seconds: float = CPU_SECONDS, *, undisturbed: float = 0) -> None:
    """Give this process so much CPU time from now on. For one that was forked: it ends when the time is over.

    ``undisturbed`` is how long its work takes on the whole flowguard, on a machine as busy as now: it gets
    ``LONGER`` times that where this is more, and twice as much by the clock on the wall.
    """
    seconds = max(seconds, LONGER * undisturbed)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # the default of this signal and of the next is to end the process
    signal.alarm(max(WALL_SECONDS, math.ceil(2 * seconds)))
    used = resource.getrusage(resource.RUSAGE_SELF)
    whole = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (whole, _UNLIMITED))  # in whole seconds, and for what it starts, too


def _as_child(writing: int, trials: Sequence[Callable[[], T]], is_last: Callable[[T], bool], seconds: float) -> Never:
    try:
        with open(writing, "wb") as answers:
            for trial in trials:
                grant(seconds)
                answer = trial()
                answers.write(pickle.dumps(answer))
                answers.flush()
                if is_last(answer):
                    break
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
