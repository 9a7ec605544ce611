"""Name the events of S3's objects by their places, so that a copy is the same request and a newer change is newer.

::

    arn:aws:s3:::<bucket>;object=<digest of the key>;place=<sequencer>:<digest of the detail-type>
    arn:aws:s3:::<bucket>;object=<digest of the key>;event=<digest of the rest>       in notices without a sequencer
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from flowguard.names.series_ids import id_in_series
from flowguard.startup.late_pattern import late_pattern

OBJECT_SOURCE: Final = "aws.s3"

_SEQUENCER: Final = late_pattern("[0-9A-Fa-f]{1,64}")
_WIDTH: Final = 64
_BUCKET: Final = late_pattern("[a-zA-Z0-9._-]{1,255}")


def object_event_id(event: Mapping[str, Any]) -> str | None:
    """Return the id of an event that says what happened to an object. None for others, and where no order is said."""
    return change_id(event.get("detail"), str(event["detail-type"])) if event.get("source") == OBJECT_SOURCE else None


def change_id(detail: object, kind: str) -> str | None:
    """Return the id of what the detail of an event says. None where that is nothing of an object, or has no order.

    The sequencers of one key are compared as texts, the shorter one with zeros behind it.
    """
    match detail:
        case {"bucket": {"name": str(bucket)}, "object": {"key": str(key), "sequencer": str(sequencer)}} if is_bucket(
            bucket
        ) and _SEQUENCER.fullmatch(sequencer):
            return id_in_series(_object(bucket, key), f"{sequencer.upper().ljust(_WIDTH, '0')}:{_digest(kind)}")
        case _:
            return None


def unordered_id(bucket: str, key: str, event: str) -> str:
    """Return the id of an event of an object that has no place among others. ``event`` tells it from all of these."""
    return f"{_object(bucket, key)};event={_digest(event)}"


def is_bucket(name: str) -> bool:
    """Answer whether a bucket may have that name."""
    return _BUCKET.fullmatch(name) is not None


def _object(bucket: str, key: str) -> str:
    return f"arn:aws:s3:::{bucket};object={_digest(key)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
