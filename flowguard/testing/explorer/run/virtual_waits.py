"""Waits of user code, which take no real time. The virtual time moves instead.

::

    time.sleep(2) ────────────────┐
    event.wait(2), queue.get(…) ──┼──▶ the virtual time moves by 2 s; beyond the function's time the worker is killed
    asyncio: nothing is ready ────┘

A thread that user code starts runs at once and to its end, in the thread of the invocation. So its calls come in one
order, and are points of fault like all others. A wait that has not ended then can never end.

A loop that asks for the time again and again until it has come moves it, too (:mod:`.invocation`).
"""

from __future__ import annotations

import concurrent.futures
import math
import queue
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, Protocol

from flowguard.testing.explorer.record.site import Site, calling_site, is_flowguards, is_user_code


class WaitsForEver(RuntimeError):
    """User code waits without end: every thread that it started has ended."""


class CurrentInvocation(Protocol):
    """The invocation that runs in the calling thread."""

    def is_inside(self) -> bool:
        """Answer whether the calling thread is that of an invocation."""
        ...

    def pass_time(self, ms: int) -> None:
        """Move the virtual time. Raises what kills the worker where its function's time is over."""
        ...

    def elapsed(self) -> int:
        """Return the virtual time since the schedule began, in ms: small, so that a float holds it exactly enough."""
        ...

    def stuck(self, site: Site, problem: str) -> None:
        """Note a wait that cannot end."""
        ...


@contextmanager
def virtual_waits(waits: CurrentInvocation) -> Iterator[None]:
    """Let waits and threads of invocations be virtual while the block runs. Those of other threads are real."""
    with ExitStack() as changed:
        for place, name, new in _changes(waits):
            old = getattr(place, name)
            setattr(place, name, new(old))
            changed.callback(setattr, place, name, old)
        for module, name, value in _taken_over(changed):
            old = getattr(module, name)
            setattr(module, name, value)
            changed.callback(setattr, module, name, old)
        yield


_Change = tuple[Any, str, Callable[[Any], Any]]


def _changes(waits: CurrentInvocation) -> Iterator[_Change]:
    yield time, "sleep", lambda real: _sleep(waits, real)
    for place, name in ((time, "monotonic"), (time, "perf_counter"), (queue, "time"), (threading, "_time")):
        yield place, name, lambda real: _clock(waits, real)
    for name in ("monotonic_ns", "perf_counter_ns"):
        yield time, name, lambda real: _clock_ns(waits, real)
    yield threading.Condition, "wait", lambda real: _wait(waits, real)
    yield threading.Thread, "start", lambda real: _start(waits, real)
    yield threading.Thread, "join", lambda real: _join(waits, real)
    yield threading.Thread, "is_alive", lambda real: _is_alive(waits, real)
    yield concurrent.futures.ThreadPoolExecutor, "submit", lambda real: _submit(waits, real)
    yield selectors.DefaultSelector, "select", lambda real: _select(waits, real)


_NAMES: Final = ("sleep", "monotonic", "perf_counter", "monotonic_ns", "perf_counter_ns")


def _taken_over(changed: ExitStack) -> list[tuple[ModuleType, str, Any]]:
    """Return the names under which modules of user code keep a function of ``time``, with what replaces it."""
    return [
        (module, alias, getattr(time, name))
        for module in list(sys.modules.values())
        if is_user_code(getattr(module, "__file__", None) or "<frozen")
        if BuiltinFunctionType in map(type, list(vars(module).values()))  # most have none, and hundreds of names
        for alias, value in list(vars(module).items())
        if type(value) is BuiltinFunctionType and value.__module__ == "time"  # there are thousands to look at
        for name in [value.__name__]
        if name in _NAMES
    ]


def _sleep(waits: CurrentInvocation, real: Callable[[float], None]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        if not waits.is_inside() or seconds < 0:
            real(seconds)
        else:
            waits.pass_time(_ms(seconds))

    return sleep


def _clock(waits: CurrentInvocation, real: Callable[[], float]) -> Callable[[], float]:
    def clock() -> float:
        return waits.elapsed() / 1000 if waits.is_inside() else real()

    return clock


def _clock_ns(waits: CurrentInvocation, real: Callable[[], int]) -> Callable[[], int]:
    def clock() -> int:
        return waits.elapsed() * 1_000_000 if waits.is_inside() else real()

    return clock


def _wait(waits: CurrentInvocation, real: Callable[..., bool]) -> Callable[..., bool]:
    def wait(self: threading.Condition, timeout: float | None = None) -> bool:
        if not waits.is_inside() or _is_ours():
            return real(self, timeout)
        if timeout is None:
            raise _stuck(waits, "waits for what nobody brings: each thread that it started has ended")
        waits.pass_time(_ms(timeout))
        return False

    return wait


def _start(waits: CurrentInvocation, real: Callable[..., None]) -> Callable[..., None]:
    def start(self: threading.Thread) -> None:
        if not waits.is_inside() or _is_ours():
            real(self)
            return
        if self._started.is_set():  # type: ignore[attr-defined]  # as threading itself asks
            raise RuntimeError("threads can only be started once")
        self._started.set()  # type: ignore[attr-defined]
        try:
            self.run()
        except Exception:  # it is lost with the thread, and printing it hundreds of times helps nobody
            if threading.excepthook is not threading.__excepthook__:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self)))
        finally:
            changed: Any = self  # so that it is not alive, and join returns
            changed._is_stopped = True

    return start


def _join(waits: CurrentInvocation, real: Callable[..., None]) -> Callable[..., None]:
    def join(self: threading.Thread, timeout: float | None = None) -> None:
        if not (waits.is_inside() and getattr(self, "_is_stopped", False)):
            real(self, timeout)

    return join


def _is_alive(waits: CurrentInvocation, real: Callable[..., bool]) -> Callable[..., bool]:
    """Since Python 3.13 a thread asks the system whether it is alive, which knows only those that it started."""

    def is_alive(self: threading.Thread) -> bool:
        return not (waits.is_inside() and getattr(self, "_is_stopped", False)) and real(self)

    return is_alive


def _submit(waits: CurrentInvocation, real: Callable[..., Any]) -> Callable[..., Any]:
    def submit(
        self: concurrent.futures.ThreadPoolExecutor, work: Callable[..., Any], /, *given: Any, **named: Any
    ) -> concurrent.futures.Future[Any]:
        if not waits.is_inside() or _is_ours():
            return real(self, work, *given, **named)  # type: ignore[no-any-return]
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(work(*given, **named))
        except Exception as error:
            future.set_exception(error)
        return future

    return submit


def _select(waits: CurrentInvocation, real: Callable[..., Any]) -> Callable[..., Any]:
    def select(self: selectors.BaseSelector, timeout: float | None = None) -> Any:
        if not waits.is_inside():
            return real(self, timeout)
        ready = real(self, 0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            raise _stuck(waits, "waits in an event loop in which nothing is left to happen")
        waits.pass_time(_ms(timeout))
        return real(self, 0)

    return select


def _stuck(waits: CurrentInvocation, problem: str) -> WaitsForEver:
    waits.stuck(calling_site(until="_work"), problem)
    return WaitsForEver(problem)


def _is_ours() -> bool:
    """Answer whether a wait is flowguard's own."""
    return is_flowguards(sys._getframe(2).f_code.co_filename)


def _ms(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))
