"""What the memory answers where it does not play AWS."""

from __future__ import annotations

from collections.abc import Iterable

from flowguard.errors import FlowguardError


class NotInMemory(FlowguardError):
    """A call needs something of AWS that the memory does not play. Nothing has been sent to anybody.

    ``there`` is what it has instead: services, operations or parameters.
    """

    def __init__(self, what: str, there: Iterable[str]) -> None:
        self.what = what
        self.there = tuple(sorted(there))
        super().__init__(self.what, self.there)

    def __str__(self) -> str:
        return f"{self.what} is not there in memory; there is {', '.join(self.there)}"
