"""Which errors are the platform's, and pass by themselves within the same invocation.

botocore repeats throttled calls, time-outs and server errors by its own retry mode (see ``clients``). What it does not
repeat is a transaction that met another one; that is done here. Everything else is an answer, or the stage's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from botocore.exceptions import ClientError

PAUSES: Final = (0.05, 0.1, 0.2)
"""Seconds before each further try: well within any lease."""

_CONFLICTS: Final = frozenset({"TransactionConflictException", "TransactionInProgressException"})
_PASSING_REASONS: Final = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})

Answer = TypeVar("Answer")


def patiently(call: Callable[[], Answer], pause: Callable[[float], None]) -> Answer:
    """The call's answer, tried again a few times while only another transaction stands in the way."""
    for seconds in PAUSES:
        try:
            return call()
        except ClientError as error:
            if not is_passing(error):
                raise
        pause(seconds)
    return call()


def is_passing(error: ClientError) -> bool:
    """Whether the same call may succeed a moment later. A condition that failed is an answer and never passes."""
    code = error_code(error)
    if code != "TransactionCanceledException":
        return code in _CONFLICTS
    reasons: Any = error.response.get("CancellationReasons", [])
    codes = {reason.get("Code") for reason in reasons} - {"None", None}
    return bool(codes) and codes <= _PASSING_REASONS


def error_code(error: ClientError) -> str:
    """AWS's own word for the error, such as ``ThrottlingException``."""
    return str(error.response.get("Error", {}).get("Code", ""))
