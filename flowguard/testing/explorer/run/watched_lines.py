"""The lines of handlers that run, noted while they do. Python reports each, which takes time: so it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from flowguard.flow import AnyFlow
from flowguard.testing.explorer.record.ran_lines import RanLines
from flowguard.testing.explorer.record.site import shown_path
from flowguard.testing.explorer.run.async_errors import forget_signal
from flowguard.testing.explorer.run.handler_code import handler_code
from flowguard.testing.explorer.run.plain import PlainFunction


class WatchedLines:
    """The lines of the code of what is explored, by file, and those that ran."""

    def __init__(self, explored: Iterable[AnyFlow | PlainFunction]) -> None:
        self._all: dict[str, set[int]] = {}
        self._ran: dict[str, set[int]] = {}
        for code in handler_code(_handlers(explored)):
            self._all.setdefault(code.co_filename, set()).update(_lines(code))
            self._ran.setdefault(code.co_filename, set())

    def result(self, wanted: float) -> RanLines:
        """Return which lines ran until now."""
        ran = {file: lines & self._all[file] for file, lines in self._ran.items()}
        left = {file: sorted(self._all[file] - ran[file]) for file in sorted(ran)}
        return RanLines(
            sum(map(len, ran.values())),
            sum(map(len, self._all.values())),
            {shown_path(file): lines for file, lines in left.items() if lines},
            wanted,
        )

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the lines that run in this thread until the block ends. Threads of handlers run in it, too."""
        before = sys.gettrace()
        if self._all:
            forget_signal()
            sys.settrace(self._called)
        try:
            yield
        finally:
            if self._all:
                sys.settrace(before)

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        lines = self._ran.get(frame.f_code.co_filename)
        if lines is None:
            return None
        note = lines.add

        def ran(inside: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                note(inside.f_lineno)
            return ran

        note(frame.f_lineno)
        return ran


def _handlers(explored: Iterable[AnyFlow | PlainFunction]) -> Iterator[object]:
    for target in explored:
        if isinstance(target, PlainFunction):
            yield target.handler
        else:
            yield from (target, *target.stages)


def _lines(code: CodeType) -> set[int]:
    """Return the lines of a function. That of its ``def`` is one where there is no other."""
    lines = {line for _, _, line in code.co_lines() if line}
    return lines - {code.co_firstlineno} or lines
