"""A condition for rows that keep a fence themselves."""

from __future__ import annotations

import re

from flowguard.errors import RunFailed, shown
from flowguard.items.newest import AT, BY, EPOCH


def is_newer(table: str) -> str:
    """Return the condition of an upsert that leaves a row as it is where a newer request has written it.

    A row whose ``newest_at`` is NULL is older than any request.

    The row keeps :attr:`flowguard.step.ItemFence.attributes` in columns of these names: ``newest_at`` and
    ``newest_epoch`` are ``bigint``, ``newest_by`` is ``text``. It is SQL of PostgreSQL and SQLite, for
    ``ON CONFLICT … DO UPDATE SET … WHERE``. Raises :class:`flowguard.errors.RunFailed` for what is no name of a table.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?", table):
        raise RunFailed(f"{shown(table)} names no table; write a plain name, such as 'pages'")
    later = f"({table}.{AT}, {table}.{BY}) < (excluded.{AT}, excluded.{BY})"
    again = f"({table}.{BY} = excluded.{BY} AND {table}.{EPOCH} <= excluded.{EPOCH})"
    return f"({table}.{AT} IS NULL OR {later} OR {again})"
