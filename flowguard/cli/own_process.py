"""The process that a command has for itself, and what is done before it ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import click


class OwnProcess:
    """The end of this process. ``code`` is its exit code, once the command has ended.

    ``before_end`` answers whether the process has to end at once, since it would not do so by itself. ``last`` returns
    the exit code, after all else. ``until_end`` is never left.
    """

    def __init__(self) -> None:
        self.code = 0
        self.before_end: Callable[[], bool] = bool
        self.until_end = ExitStack()
        self.last: Callable[[int], int] = int

    def arrange(self) -> None:
        """Ask ``last`` after what is registered with ``atexit`` from now on."""
        atexit.register(self._at_exit)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Run the command in the block, which ends as a program does."""
        try:
            yield
        except SystemExit as ended:
            self.code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            if self.before_end():
                _end(self.last(self.code))
            raise

    def _at_exit(self) -> None:
        if (code := self.last(self.code)) != self.code:
            _end(code)


def own_process() -> OwnProcess | None:
    """Return the process of the command that runs. None where it runs within another program, as in a test."""
    process = click.get_current_context().find_root().obj
    return process if isinstance(process, OwnProcess) else None


def _end(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # whoever reads may have gone
        os._exit(code)
