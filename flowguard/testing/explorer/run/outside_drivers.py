"""Drivers of databases that an exploration does not play: their connections are refused and named.

Python sees the sockets of most of them. Those that are written in C open theirs unseen, so they are stopped where they
connect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NoReturn

from flowguard.testing.explorer.record.site import calling_site
from flowguard.testing.explorer.run.late_imports import Change, replaced
from flowguard.testing.explorer.run.network import NetworkRefused, Refusals

_CONNECTING: Final[Mapping[str, tuple[str, ...]]] = {
    "psycopg": ("Connection.connect", "AsyncConnection.connect", "connect", "BaseConnection._connect_gen"),
    "psycopg2": ("_connect", "connect"),
    "MySQLdb": ("Connection", "Connect", "connect"),
    "oracledb": ("connect", "connect_async"),
    "pyodbc": ("connect",),
    "pymssql": ("connect",),
}
"""What opens a connection, by the name of the library. What a version does not have is left out."""


def refused_drivers(refusals: Refusals, allowed: tuple[str, ...]) -> dict[str, Change]:
    """Return the changes with which libraries that are not ``allowed`` open no connection."""
    return {name: _refusing(name, refusals) for name in _CONNECTING if name not in allowed}


def _refusing(library: str, refusals: Refusals) -> Change:
    @contextmanager
    def change(module: Any) -> Iterator[None]:
        with ExitStack() as refused:
            for path in _CONNECTING[library]:
                *owners, name = path.split(".")
                owner = module
                for part in owners:
                    owner = getattr(owner, part, None)
                if owner is not None and name in vars(owner):
                    refused.enter_context(replaced(owner, name, _connect(library, refusals, vars(owner)[name])))
            yield

    return change


def _connect(library: str, refusals: Refusals, real: Any) -> Any:
    def refuse() -> NoReturn:
        refusals.lack(
            calling_site(until="_work"),
            f"connects to a database by {library}, which an exploration does not play",
            f'hand in a connection that is a fake, or of sqlite3; or let it out: network=["{library}"]',
            driver=library,
        )
        raise NetworkRefused(f"{library} is not to connect while a flow is explored")

    if isinstance(real, classmethod):

        def of_class(kind: Any, *given: Any, **named: Any) -> Any:
            if refusals.is_inside():
                refuse()
            return real.__func__(kind, *given, **named)

        return classmethod(of_class)

    def connect(*given: Any, **named: Any) -> Any:
        if refusals.is_inside():
            refuse()
        return real(*given, **named)

    return connect
