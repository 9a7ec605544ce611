"""The keys that S3 accepts, and its errors for what does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowguard.sim.limits.fault import Fault

LONGEST_KEY: Final = 1024
"""Bytes."""


def check_key(params: Mapping[str, Any]) -> None:
    """Check the length of an object's key.

    A lone surrogate is a UnicodeEncodeError, as it is in botocore, which writes the key into the address.
    """
    if len(params["Key"].encode()) > LONGEST_KEY:
        raise Fault("KeyTooLongError", "Your key is too long")


def no_bucket() -> Fault:
    return Fault("NoSuchBucket", "The specified bucket does not exist", status=404)


def denied() -> Fault:
    """Return the error for a bucket that is another account's than expected."""
    return Fault("AccessDenied", "Access Denied", status=403)


def no_object(operation: str) -> Fault:
    """Return the error for an object that does not exist.

    The answer to a HEAD has no body, and so no error code in it.
    """
    if operation == "HeadObject":
        return Fault("404", "Not Found", status=404)
    return Fault("NoSuchKey", "The specified key does not exist.", status=404)
