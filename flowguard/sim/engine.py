"""The AWS that schedules run on: the engine that answers boto3's calls in this process."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from flowguard.clock import Clock
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS


@runtime_checkable
class Engine(Protocol):
    """An engine is open for the whole of an exploration. What it holds is taken back before each schedule."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def client(self, service: str, /) -> Any: ...

    def create_table(self, name: str, /) -> None:
        """Create a table as flowguard needs it."""
        ...

    def create_queue(self, name: str, **attributes: str) -> str: ...

    def create_topic(self, name: str, /) -> str: ...


@runtime_checkable
class Snapshots(Protocol):
    """An engine that can go back to an earlier state at once. One that cannot has its tables emptied by calls."""

    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any, /) -> None: ...

    def items(self, table: str, /) -> list[Any]:
        """Return all items of a table in low-level form."""
        ...


EngineFor: TypeAlias = Callable[[Clock], Engine]
"""Makes an engine that tells the time by this clock."""


def on_moto(clock: Clock) -> Engine:
    """Build an engine of moto, which takes the time from the process. That time is virtual."""
    return EmbeddedAWS()


def in_memory(clock: Clock) -> Engine:
    """Build the fast engine."""
    return MemoryAWS(clock)
