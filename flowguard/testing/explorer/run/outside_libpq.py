"""What psycopg sends by libpq, the C library that speaks to PostgreSQL.

libpq opens its sockets unseen. So what reaches it is closed: the ``pgconn`` of connections that no exploration has
opened, whatever their kind, and the class that ``psycopg.pq`` has for connections of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NoReturn

from flowguard.testing.explorer.run.late_imports import replaced

_LOOKING: Final = ("__del__", "closed", "broken")
"""What reads the state of a connection and sends nothing."""

BELOW: Final = "connects by psycopg.pq"
BEFORE: Final = "uses a connection that was opened before the exploration, which cannot play it"


@contextmanager
def closed_libpq(
    psycopg: Any, is_inside: Callable[[], bool], refuse: Callable[[str], NoReturn], played: tuple[type[Any], ...] = ()
) -> Iterator[None]:
    """Let invocations use libpq by the ``played`` kinds of connections alone until the block ends."""
    base = next(kind for kind in psycopg.Connection.__mro__ if "_connect_gen" in vars(kind))

    def opened(connection: Any) -> Any:
        looks = sys._getframe(1).f_code.co_name in _LOOKING
        if is_inside() and not looks and not isinstance(connection, played):
            refuse(BEFORE)
        try:
            return vars(connection)["pgconn"]
        except KeyError:
            raise AttributeError("pgconn") from None

    with ExitStack() as closed:
        base.pgconn = property(opened, lambda connection, real: vars(connection).__setitem__("pgconn", real))
        closed.callback(delattr, base, "pgconn")
        real = psycopg.pq.PGconn
        closed.enter_context(replaced(psycopg.pq, "PGconn", _Connecting(real, is_inside, refuse)))
        yield


class _Connecting:
    """Stands for the class of libpq's connections, which it makes for psycopg itself alone."""

    def __init__(self, real: Any, is_inside: Callable[[], bool], refuse: Callable[[str], NoReturn]) -> None:
        self._real = real
        self._is_inside = is_inside
        self._refuse = refuse

    def __getattr__(self, name: str) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        if self._is_inside() and name in ("connect", "connect_start") and not caller.startswith("psycopg."):
            self._refuse(BELOW)
        return getattr(self._real, name)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._real(*given, **named)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._real)
