"""A debugger in the thread of an invocation: at the line of user code that makes a call, or at an exception."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pdb import Pdb
from types import FrameType, TracebackType
from typing import IO, Any, TypeVar

from flowguard.testing.explorer.record.site import is_user_code
from flowguard.testing.explorer.run.async_errors import forget_signal

Answer = TypeVar("Answer")


@dataclass
class Debugger:
    """Stops once in a schedule. ``call`` is the number of the call before which it does, None for an exception.

    Where no line of user code makes that call, as a commit, it stops where the handler of ``worker`` begins.
    ``stdin`` and ``stdout`` are those of the process where they are not given.
    """

    stdin: IO[str] | None = None
    stdout: IO[str] | None = None
    call: int | None = None
    worker: int | None = None
    is_armed: bool = field(default=False, init=False)

    def arm(self, call: int | None, worker: int | None) -> None:
        """Let the next run of a schedule stop at one place."""
        self.call, self.worker, self.is_armed = call, worker, True

    def before(self, call: int) -> None:
        """Stop where user code makes this call, if it is the one."""
        if self.is_armed and call == self.call and (frame := _users(sys._getframe())) is not None:
            self._say(f"before call {call}")
            debugger = self._debugger()
            debugger.interaction(frame, None)
            _go_on(debugger, frame)

    def raised(self, error: BaseException) -> None:
        """Stop at an exception of user code, if there is no call to stop at."""
        if self.is_armed and self.call is None and self.worker is None:
            trace = _up_to_user_code(error.__traceback__)
            if trace is not None:
                self._say(f"{type(error).__name__}: {error}")
                self._debugger().interaction(None, trace)

    def called(self, worker: int, handler: Callable[..., Answer], *given: Any, **named: Any) -> Answer:
        """Call a handler, and stop in it where it is that of the worker."""
        if not self.is_armed or self.call is not None or worker != self.worker:
            return handler(*given, **named)
        self._say(f"in the handler of w{worker}")
        answer: Answer | None = self._debugger().runcall(handler, *given, **named)
        return answer  # type: ignore[return-value]  # it is what the handler returns

    def _debugger(self) -> Pdb:
        self.is_armed = False
        debugger = Pdb(stdin=self.stdin, stdout=self.stdout, nosigint=True)
        debugger.reset()
        return debugger

    def _say(self, where: str) -> None:
        print(f"stopped {where}", file=self.stdout or sys.stdout)


def _users(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of user code. None where flowguard makes a call by itself."""
    while frame is not None and frame.f_code.co_name != "_work":
        if is_user_code(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def _go_on(debugger: Pdb, frame: FrameType) -> None:
    """Follow the lines from this frame on where the last command was to go on by a step, or there are breakpoints."""
    continues: Any = debugger
    if continues.stoplineno == -1 and not debugger.breaks:
        return
    outer: FrameType | None = frame
    while outer is not None:
        outer.f_trace = debugger.trace_dispatch
        continues.botframe, outer = outer, outer.f_back
    if continues.stoplineno == -1:
        continues.stopframe = continues.botframe  # for a breakpoint alone
    forget_signal()
    sys.settrace(debugger.trace_dispatch)


def _up_to_user_code(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first frame of user code to the innermost one, without the calls that it made."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    users = [place for place, each in enumerate(frames) if is_user_code(each.tb_frame.f_code.co_filename)]
    cut: TracebackType | None = None
    for each in reversed(frames[users[0] : users[-1] + 1] if users else ()):
        cut = TracebackType(cut, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return cut
