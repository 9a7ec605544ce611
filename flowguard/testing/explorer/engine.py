"""The AWS that schedules run on: whatever answers boto3's calls in this process."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from flowguard.clock import Clock
from flowguard.local.embedded import EmbeddedAWS
from flowguard.local.memory.aws import MemoryAWS


@runtime_checkable
class Engine(Protocol):
    """Open for the whole of an exploration; what it holds is taken back before each schedule."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def client(self, service: str, /) -> Any: ...

    def create_table(self, name: str, /) -> None:
        """A table as flowguard needs it."""
        ...

    def create_queue(self, name: str, **attributes: str) -> str: ...

    def create_topic(self, name: str, /) -> str: ...


@runtime_checkable
class Snapshots(Protocol):
    """An engine that can also go back to an earlier state at once. One that cannot has its tables emptied by calls."""

    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any, /) -> None: ...

    def items(self, table: str, /) -> list[Any]:
        """All items, low-level."""
        ...


EngineFor: TypeAlias = Callable[[Clock], Engine]
"""Makes an engine that tells the time by this clock."""


def on_moto(clock: Clock) -> Engine:
    """moto, which takes the time from the process: it is virtual there."""
    return EmbeddedAWS()


def in_memory(clock: Clock) -> Engine:
    """The fast one."""
    return MemoryAWS(clock)
