"""The settings of a database (``ALTER DATABASE … SET``), which ``CREATE DATABASE … TEMPLATE`` does not copy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

_SETTINGS: Final = """SELECT r.rolname, unnest(s.setconfig) FROM pg_db_role_setting s
    JOIN pg_database d ON d.oid = s.setdatabase LEFT JOIN pg_roles r ON r.oid = s.setrole
    WHERE d.datname = current_database() AND (s.setrole = 0 OR r.rolname = current_user) ORDER BY 1, 2"""
_LISTS: Final = ("search_path", "temp_tablespaces", "local_preload_libraries", "session_preload_libraries")
"""Settings that PostgreSQL keeps as a list of names, quoted where that is needed."""

_NAME: Final = re.compile(r'"((?:[^"]|"")*)"|([^\s,]+)')


def settings_of(connection: Any) -> list[tuple[str | None, str, list[str]]]:
    """Return the settings of a connection's database with the user, the name and the parts of the value.

    They are those of all users, and those of its own user.
    """
    rows = connection.execute(_SETTINGS).fetchall()
    return [(user, name, _parts(name, value)) for user, row in rows for name, _, value in (row.partition("="),)]


def statements_for(database: str, settings: list[tuple[str | None, str, list[str]]]) -> Iterator[Any]:
    """Yield the statements that give a database these settings."""
    from psycopg.sql import SQL, Identifier, Literal  # it is there where somebody connects by psycopg

    for user, name, parts in settings:
        whose = SQL("DATABASE {}").format(Identifier(database))
        if user is not None:
            whose = SQL("ROLE {} IN DATABASE {}").format(Identifier(user), Identifier(database))
        value = SQL(", ").join(map(Literal, parts))
        yield SQL("ALTER {} SET {} TO {}").format(whose, SQL(".").join(map(Identifier, name.split("."))), value)


def _parts(name: str, value: str) -> list[str]:
    if name not in _LISTS:
        return [value]
    return [match[2] if match[2] is not None else match[1].replace('""', '"') for match in _NAME.finditer(value)]
