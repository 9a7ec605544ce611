"""Statements of PostgreSQL that are of the whole server: a copy of a database does not hold what they change."""

from __future__ import annotations

import re
from typing import Final

_UNREAD: Final = re.compile(
    r"(?P<text>\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|--[^\n]*|/\*.*?\*/",
    re.IGNORECASE | re.DOTALL,
)
_OF_SERVER: Final = (
    r"(?:CREATE|ALTER|DROP)\s+(?:DATABASE|ROLE|GROUP|TABLESPACE|SUBSCRIPTION|USER(?!\s+MAPPING))\b",
    r"ALTER\s+SYSTEM\b",
    r"(?:DROP|REASSIGN)\s+OWNED\b",
    r"(?:COMMENT|SECURITY\s+LABEL)\b[^;]*?\bON\s+(?:DATABASE|ROLE|TABLESPACE|SUBSCRIPTION)\b",
    r"(?:GRANT|REVOKE)\b[^;]*?\bON\s+(?:DATABASE|TABLESPACE|PARAMETER)\b",
    r"(?:GRANT|REVOKE)\b(?![^;]*?\bON\b)",
    r"COPY\b[^;]*?\b(?:PROGRAM\b|TO\s+')",
)
_STATEMENT: Final = re.compile(rf"(?:^|;)\s*({'|'.join(_OF_SERVER)})", re.IGNORECASE)
_IN_A_BLOCK: Final = re.compile(rf"\b({'|'.join(_OF_SERVER[:3])})", re.IGNORECASE)
_BLOCK: Final = re.compile(r"(?:^|;)\s*DO\b", re.IGNORECASE)
_FUNCTION: Final = re.compile(
    r"\b(pg_terminate_backend|pg_cancel_backend|pg_reload_conf|pg_rotate_logfile|pg_switch_wal|pg_promote|"
    r"pg_create_\w+_replication_slot|pg_drop_replication_slot|lo_export|dblink\w*)\s*\(",
    re.IGNORECASE,
)


def of_server(sql: str) -> str | None:
    """Return the words with which a statement changes the server, or goes out of it. None for one that does not.

    What a function of the database does is not seen.
    """
    read = _UNREAD.sub(lambda unread: "''" if unread["text"] else " ", sql)
    made = _STATEMENT.search(read) or (_IN_A_BLOCK.search(sql) if _BLOCK.search(read) else None)
    if made is not None:
        return " ".join(made[1].upper().split())
    called = _FUNCTION.search(read)
    return None if called is None else called[1].lower()
