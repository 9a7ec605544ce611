"""The error for what the AWS in memory does not have."""

from __future__ import annotations

from collections.abc import Iterable

from flowguard.errors import FlowguardError


class NotInMemory(FlowguardError):
    """A call needs something that the AWS in memory does not have. Nothing has been sent to anybody.

    ``there`` is what it has instead: services, operations or parameters. ``service`` is whose call it is.
    """

    def __init__(self, what: str, there: Iterable[str], service: str = "") -> None:
        self.service = service
        self.what = what
        self.there = tuple(sorted(there))
        super().__init__(self.what, self.there)

    def __str__(self) -> str:
        return f"{self.what} is not there in memory; there is {', '.join(self.there)}"
