"""S3: the keys that it takes, and what it says where nothing is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowguard.local.limits.fault import Fault

LONGEST_KEY: Final = 1024
"""Bytes."""


def check_key(params: Mapping[str, Any]) -> None:
    """A surrogate alone is a UnicodeEncodeError: it is so in botocore, which writes the key into the address."""
    if len(params["Key"].encode()) > LONGEST_KEY:
        raise Fault("KeyTooLongError", "Your key is too long")


def no_bucket() -> Fault:
    return Fault("NoSuchBucket", "The specified bucket does not exist", status=404)


def no_object(operation: str) -> Fault:
    """A HEAD has no body to say a word in."""
    if operation == "HeadObject":
        return Fault("404", "Not Found", status=404)
    return Fault("NoSuchKey", "The specified key does not exist.", status=404)
