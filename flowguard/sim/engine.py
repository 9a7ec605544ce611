"""What an engine is: the AWS that answers boto3's calls in this process."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from flowguard.clock import Clock


@runtime_checkable
class Engine(Protocol):
    """An AWS that is open for a block and answers every call in it. It has what was created, and refuses the rest.

    What else one can do is a protocol of its own.
    """

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

    def create_function(self, name: str, /) -> None:
        """Let a function exist. It is not run: an invocation is accepted, and that is all."""
        ...

    def subscribe(self, topic_arn: str, queue_url: str, /) -> str:
        """Let what is published to the topic arrive in the queue as a notification."""
        ...


@runtime_checkable
class Snapshots(Protocol):
    """An engine that can go back to an earlier state at once. One that cannot has its tables emptied by calls."""

    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any, /) -> None: ...

    def items(self, table: str, /) -> list[Any]:
        """Return all items of a table in low-level form."""
        ...


@runtime_checkable
class Forgets(Protocol):
    """An engine of which some services have a state that is in no snapshot."""

    @property
    def elsewhere(self) -> frozenset[str]:
        """Return the services that another engine answers."""
        ...

    def forget(self) -> None:
        """Empty these services."""
        ...


EngineFor: TypeAlias = Callable[[Clock], Engine]
"""Makes an engine that tells the time by this clock."""
