"""What somebody starts beside an invocation, as Python reports it: a program, a process or a thread of its own.

An exploration sees nothing of its work: a process has its own copy of the tables in memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple


class Started(NamedTuple):
    """What is started. ``name`` is what allows it, ``shown`` how a problem says it."""

    name: str
    shown: str
    is_thread: bool = False


_FORKS: Final = ("os.fork", "os.forkpty")
_FORK_EXEC: Final = "flowguard.fork_exec"
_THREAD: Final = "flowguard.start_new_thread"
_UNREPORTED: Final = (
    ("_posixsubprocess", "fork_exec", _FORK_EXEC),
    ("_thread", "start_new_thread", _THREAD),
    ("_thread", "start_joinable_thread", _THREAD),
)
_PROGRAMS: Final = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.spawn", _FORK_EXEC)

_TELL_THE_LINE: Final = ("subprocess.Popen", "os.posix_spawn")
"""Of a program that ``subprocess`` starts by ``posix_spawn``, as it does since Python 3.14, there are both events."""

STARTS: Final = frozenset({*_FORKS, _THREAD, *_PROGRAMS})

_READ_THE_MACHINE: Final = frozenset(
    {
        ("uname", "-p"),
        ("ldconfig", "-p"),
        ("ip", "link"),
        ("ifconfig",),
        ("ifconfig", "-a"),
        ("ifconfig", "-av"),
        ("arp", "-an"),
        ("netstat", "-ian"),
        ("lanscan", "-ai"),
    }
)
"""What ``platform``, ``ctypes.util`` and ``uuid`` start to read what machine this is. It changes and sends nothing."""


def started(event: str, arguments: Any) -> Started | None:
    """Return what an event of :data:`STARTS` is about. None for what only reads the machine."""
    if event in _FORKS:
        return Started("fork", "another process (fork)")
    if event == _THREAD:
        return Started("_thread", "a thread by _thread instead of threading", is_thread=True)
    program = _program(event, arguments)
    if event in _TELL_THE_LINE and _line(program, arguments[1]) in _READ_THE_MACHINE:
        return None
    return Started(program, f"the program {program}")


def _program(event: str, arguments: Any) -> str:
    """Return the bare name of the program that an event is about: a shell where that runs a command."""
    if event == _FORK_EXEC:
        named = arguments[1][0]
    else:
        named = "sh" if event == "os.system" else arguments[1 if event == "os.spawn" else 0]
    return os.path.basename(os.fsdecode(named))  # noqa: PTH119 - it may be bytes, and of another system


def _line(program: str, given: Any) -> tuple[str, ...]:
    """Return the program and its arguments, without empty ones."""
    rest = [given] if isinstance(given, (str, bytes)) else list(given)
    return program, *filter(None, map(os.fsdecode, rest[1:]))


@contextmanager
def reported_starts() -> Iterator[None]:
    """Report what Python itself does not: the programs that ``multiprocessing`` starts, and threads of ``_thread``.

    ``subprocess`` and ``threading`` keep the functions as they were when they were imported.
    """
    with ExitStack() as changed:
        for place, name, event in _UNREPORTED:
            module: Any = import_module(place)
            if hasattr(module, name):
                real = getattr(module, name)
                setattr(module, name, _reported(event, real))
                changed.callback(setattr, module, name, real)
        yield


def _reported(event: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def starts(*given: Any, **named: Any) -> Any:
        sys.audit(event, *given)
        return real(*given, **named)

    return starts
