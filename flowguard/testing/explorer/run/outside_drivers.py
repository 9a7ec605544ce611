"""Drivers of databases that an exploration does not play: their connections are refused and named.

Python sees the sockets of most of them. Those that are written in C open theirs unseen, so they are stopped where they
connect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NoReturn

from flowguard.testing.explorer.record.site import calling_site
from flowguard.testing.explorer.run.late_imports import Change, replaced
from flowguard.testing.explorer.run.network import NetworkRefused, Refusals
from flowguard.testing.explorer.run.outside_libpq import closed_libpq

_CONNECTING: Final[Mapping[str, tuple[str, ...]]] = {
    "psycopg": (
        "Connection.connect",
        "AsyncConnection.connect",
        "connect",
        "BaseConnection._connect_gen",
    ),
    "psycopg2": ("_connect", "connect"),
    "MySQLdb": ("Connection", "Connect", "connect"),
    "oracledb": ("connect", "connect_async"),
    "pyodbc": ("connect",),
    "pymssql": ("connect",),
}
"""What opens a connection, by the name of the library. What a version does not have is left out."""


_FAKE: Final = "hand in a connection that is a fake, or of sqlite3"
_PLAYED: Final[Mapping[str, str]] = {
    "psycopg": f'name a test database: postgres="postgresql://…"; or {_FAKE[:1].lower()}{_FAKE[1:]}'
}


def refused_drivers(refusals: Refusals, allowed: tuple[str, ...]) -> dict[str, Change]:
    """Return the changes with which libraries that are not ``allowed`` open no connection."""
    return {name: _refusing(name, refusals) for name in _CONNECTING if name not in allowed}


def _refusing(library: str, refusals: Refusals) -> Change:
    def refuse(what: str = f"connects to a database by {library}, which an exploration does not play") -> NoReturn:
        refusals.lack(
            calling_site(until="_work"),
            what,
            f'{_PLAYED.get(library, _FAKE)}; or let it out: network=["{library}"]',
            driver=library,
        )
        raise NetworkRefused(f"{library} is not to connect while a flow is explored")

    @contextmanager
    def change(module: Any) -> Iterator[None]:
        with ExitStack() as refused:
            for path in _CONNECTING[library]:
                *owners, name = path.split(".")
                owner = module
                for part in owners:
                    owner = getattr(owner, part, None)
                if owner is not None and name in vars(owner):
                    connect = _connect(refusals.is_inside, refuse, vars(owner)[name])
                    refused.enter_context(replaced(owner, name, connect))
            if library == "psycopg":
                refused.enter_context(closed_libpq(module, refusals.is_inside, refuse))
            yield

    return change


def _connect(is_inside: Callable[[], bool], refuse: Callable[[], NoReturn], real: Any) -> Any:
    if isinstance(real, classmethod):

        def of_class(kind: Any, *given: Any, **named: Any) -> Any:
            if is_inside():
                refuse()
            return real.__func__(kind, *given, **named)

        return classmethod(of_class)

    def connect(*given: Any, **named: Any) -> Any:
        if is_inside():
            refuse()
        return real(*given, **named)

    return connect
