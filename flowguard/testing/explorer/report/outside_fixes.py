"""The fixes of what was done twice at a party outside AWS, and how its calls are named."""

from __future__ import annotations

from typing import Final

from flowguard.testing.explorer.record.outside_call import ASKS, OUTSIDE

_MAIL: Final = "MAIL"
_SQL: Final = frozenset(
    {"INSERT", "UPDATE", "DELETE", "REPLACE", "SELECT", "COMMIT", "MERGE", "TRUNCATE", "COPY", "CALL", "DO"}
)
_HTTP: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH"})

_KEY: Final = (
    "send it under an Idempotency-Key that is made of the message that led to it, so that each attempt has the same; "
    "a new key is a new request"
)
_NOTED: Final = (
    "a mail server drops no copies: hand the mail to a queue under an id made of the message, and let its receiver "
    "note the id under a condition before it sends"
)
_ROW: Final = (
    "in the same transaction insert a row with the message's id, under a unique key, and do nothing where it is there"
)


def call_named(operation: str, service: str = "") -> str:
    """Return what a call is, as a fix calls it."""
    if service not in ("", *OUTSIDE) or not (operation == _MAIL or operation in _SQL | _HTTP):
        return f"boto3 {operation}"
    if operation == _MAIL:
        return "mail"
    return f"statement ({operation})" if operation in _SQL and service != "https" else f"{operation} request"


def fix_outside(operation: str, target: str) -> str | None:
    """Return the fix of a call that did something twice at a party outside. None for a call of AWS."""
    if operation == _MAIL:
        return _NOTED
    if operation in ASKS:
        return None
    if "/" in target and operation in _SQL:
        return _ROW
    return _KEY if operation in _HTTP or operation == "DELETE" else None
