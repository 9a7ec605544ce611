"""The time of the whole process, standing still until it is moved. That includes ``time.time`` and ``datetime.now``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from flowguard.errors import SettingsError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class VirtualTime:
    """A :class:`flowguard.clock.Clock`, and while its block runs the clock of everything else in the process.

    So a handler that asks the machine for the time gets the same answer in every run, and moto's SQS counts its delays
    by it. Times are ms since 1970. ``asked`` is called each time that somebody asks the machine for the time.
    """

    def __init__(self, start: int, asked: Callable[[], None] | None = None) -> None:
        self._now = start
        self._asked = asked
        self._exit = ExitStack()
        self._traveller: Any = None

    def __enter__(self) -> Self:
        try:
            from time_machine import travel  # comes with an extra
        except ImportError as error:
            problem = "time-machine is not installed; pip install 'flowguard-aws[local]'"
            raise SettingsError("VirtualTime", problem) from error
        self._traveller = self._exit.enter_context(travel(_moment(self._now), tick=False))
        if self._asked is not None:
            self._traveller.time_ns = _telling(self._asked, self._traveller.time_ns)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def now(self) -> int:
        return self._now

    def move_to(self, moment: int) -> None:
        """Move the time forward to that moment. It is never moved back."""
        if moment > self._now:
            self._traveller.shift(timedelta(milliseconds=moment - self._now))  # its move_to sets the time zone anew
            self._now = moment


def _telling(asked: Callable[[], None], time_ns: Callable[[], int]) -> Callable[[], int]:
    def tell() -> int:
        asked()
        return time_ns()

    return tell


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)
