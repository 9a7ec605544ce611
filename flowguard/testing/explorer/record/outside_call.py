"""Calls that leave the process and are none of AWS.

Each is recorded as a call, so that a fault can come before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from flowguard.sim.calls import ApiCall
from flowguard.testing.explorer.record.schedule import FaultKind

HTTP: Final = "https"
MAIL: Final = "smtp"
SQL: Final = "sqlite"
POSTGRES: Final = "postgres"
OUTSIDE: Final = frozenset({HTTP, MAIL, SQL, POSTGRES})

DATA_API: Final = "rds-data"
"""A service of AWS whose calls are statements of such a database."""

ASKS: Final = frozenset({"GET", "HEAD", "OPTIONS", "SELECT"})
"""What changes nothing at the other side."""

OF_PARTIES: Final = "outside:"
OF_DATABASES: Final = "sqlite:"
OF_POSTGRES: Final = "postgres:"
OF_SERVICES: Final = "aws:"
"""What the names of these have before them where they stand beside those of tables."""


@dataclass(frozen=True)
class OutsideCall(ApiCall):
    """A call of another party. ``failure`` makes what the caller gets where it is not answered."""

    failure: Callable[[FaultKind], Exception] = ConnectionError


def outside_call(
    service: str, operation: str, about: Mapping[str, Any], failure: Callable[[FaultKind], Exception]
) -> OutsideCall:
    """Return a call of another party, before it is counted."""
    return OutsideCall(service, operation, about, 0, None, failure)  # type: ignore[arg-type]  # no client of AWS makes it


def named_apart(where: str) -> tuple[str, str]:
    """Return what a name has before it and the name itself. A host may have a port."""
    for before in (OF_PARTIES, OF_DATABASES, OF_POSTGRES, OF_SERVICES):
        if where.startswith(before):
            return before[:-1], where[len(before) :]
    service, _, name = where.rpartition(":")
    return service, name
