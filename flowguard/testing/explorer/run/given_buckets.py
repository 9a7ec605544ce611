"""The user's buckets: what lies in them at the beginning, and what is there at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from flowguard.errors import SettingsError, shown
from flowguard.testing.explorer.record.history import BUCKETS, Items

GivenBuckets: TypeAlias = Sequence[str] | Mapping[str, Mapping[str, str | bytes]]
"""Names of buckets, or the objects in each by their keys: ``{"reports": {"monday.csv": "5"}}``."""

_LIKE: Final = 'name them, or say what lies in each: buckets={"reports": {"monday.csv": "5"}}'
_LONGEST: Final = 1_000


class Buckets:
    """The buckets of an exploration. Raises :class:`SettingsError` for what are none."""

    def __init__(self, given: GivenBuckets) -> None:
        self._given = _read(given)

    def put_in(self, s3: Any) -> None:
        """Create the buckets with their objects. Others lose what they have."""
        there = self._there(s3)
        for name in there:
            for key in _keys(s3, name):
                s3.delete_object(Bucket=name, Key=key)
        for name, objects in self._given.items():
            if name not in there:
                s3.create_bucket(Bucket=name)
            for key, body in objects.items():
                s3.put_object(Bucket=name, Key=key, Body=body)

    def contents(self, s3: Any, without: Iterable[str | None]) -> Items:
        """Return the objects of each bucket as items with a key and a body."""
        return {
            f"{BUCKETS}{name}": tuple(
                {"key": key, "body": _text(s3.get_object(Bucket=name, Key=key)["Body"].read())}
                for key in _keys(s3, name)
            )
            for name in self._there(s3)
            if name not in without
        }

    @staticmethod
    def _there(s3: Any) -> list[str]:
        return sorted(bucket["Name"] for bucket in s3.list_buckets()["Buckets"])


def _read(given: Any) -> Mapping[str, Mapping[str, str | bytes]]:
    if isinstance(given, Sequence | set | frozenset) and not isinstance(given, str | bytes):
        given = {name: {} for name in given}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise _refused(given)
    for objects in given.values():
        if not isinstance(objects, Mapping) or not all(
            isinstance(key, str) and key and isinstance(body, str | bytes) for key, body in objects.items()
        ):
            raise _refused(given)
    return given


def _keys(s3: Any, bucket: str) -> list[str]:
    return [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", ())]


def _text(body: bytes) -> str:
    """Return a body as a text that is equal for equal bodies."""
    try:
        if len(body) <= _LONGEST:
            return body.decode()
    except UnicodeDecodeError:
        pass
    return f"{len(body)} bytes, sha256 {hashlib.sha256(body).hexdigest()[:16]}"


def _refused(given: object) -> SettingsError:
    return SettingsError("buckets", f"{shown(repr(given))} names no buckets; {_LIKE}")
