"""The errors of AWS that pass by themselves, and those that are final.

A final error is the same however often the call is repeated. botocore repeats throttled calls, time-outs and server
errors by its own retry mode (see ``clients``). What it does not repeat is a transaction that met another one; that is
done here. Everything else is an answer, or the stage's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from botocore.exceptions import ClientError, ParamValidationError

PAUSES: Final = (0.05, 0.1, 0.2)
"""Seconds before each further try: well within any lease."""

_CONFLICTS: Final = frozenset({"TransactionConflictException", "TransactionInProgressException"})
PASSING_REASONS: Final = frozenset({"None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})

_BUSY: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "LimitExceededException",
        "OverLimit",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "ResourceConflictException",
        "SlowDown",
        "TooManyRequestsException",
    }
)
"""Refused with a client's status, but not for good."""

STRANGERS: Final = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""The caller's credentials or clock are not accepted: that says nothing about what was asked for."""

Answer = TypeVar("Answer")


def patiently(call: Callable[[], Answer], pause: Callable[[float], None]) -> Answer:
    """Return the call's answer after a few retries where only another transaction stands in the way."""
    for seconds in PAUSES:
        try:
            return call()
        except ClientError as error:
            if not is_passing(error):
                raise
        pause(seconds)
    return call()


def is_passing(error: ClientError) -> bool:
    """Answer whether the same call may succeed a moment later. A failed condition is an answer and never passes."""
    code = error_code(error)
    if code != "TransactionCanceledException":
        return code in _CONFLICTS
    reasons: Any = error.response.get("CancellationReasons", [])
    codes = {reason.get("Code") for reason in reasons} - {"None", None}
    return bool(codes) and codes <= PASSING_REASONS


def is_final(error: Exception) -> bool:
    """Answer whether repeating the call cannot help.

    It cannot where there is no such queue, access is denied, or the content is invalid or too large. Everything that is
    not known to be final passes: throttling, server errors, the network, expired credentials.
    """
    if isinstance(error, ParamValidationError):
        return True
    if not isinstance(error, ClientError):
        return False
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return 400 <= status < 500 and is_final_code(error_code(error))


def is_final_code(code: str) -> bool:
    """Answer the same by the code alone, where the status is known to be a client's."""
    return not (code in _BUSY or code in STRANGERS or code in _CONFLICTS or "throttl" in code.lower())


def error_code(error: ClientError) -> str:
    """Return AWS's code for the error, such as ``ThrottlingException``."""
    return str(error.response.get("Error", {}).get("Code", ""))
