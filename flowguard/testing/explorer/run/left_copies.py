"""Copies of a database that a search has left which was killed: the next search drops them.

A search keeps a lock of the database that it copies, which ends with its connection. So a copy whose lock is free has
nobody any more, on whatever machine its search ran::

    flowguard_16384_5f3a9c02d1e4       the lock is 0x5f3a9c02d1e4
    flowguard_16384_5f3a9c02d1e4_1     a copy of it
"""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from typing import Any, Final

_NAMED: Final = re.compile(r"flowguard_(\d+)_([0-9a-f]{12})(?:_\d+)?")


def new_name(server: Any, oid: int) -> str:
    """Return a name for the copies of a database, whose lock the connection has from now on."""
    number = uuid.uuid4().hex[:12]
    server.execute("SELECT pg_advisory_lock(%s)", (int(number, 16),))
    return f"flowguard_{oid}_{number}"


def drop_left(server: Any, oid: int) -> None:
    """Drop the copies of a database whose search has ended. What its user may not drop stays."""
    listed = server.execute("SELECT datname FROM pg_database WHERE datname LIKE 'flowguard\\_%'").fetchall()
    for name, match in ((name, _NAMED.fullmatch(name)) for (name,) in listed):
        if match is None or int(match[1]) != oid:
            continue
        lock = (int(match[2], 16),)
        ((is_free,),) = server.execute("SELECT pg_try_advisory_lock(%s)", lock).fetchall()
        if not is_free:
            continue
        with suppress(Exception):  # psycopg's: it is of another user
            server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        server.execute("SELECT pg_advisory_unlock(%s)", lock)
