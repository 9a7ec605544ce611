"""Name the events of S3's objects by their places, so that a copy is the same request and a newer change is newer.

::

    arn:aws:s3:::<bucket>;object=<digest of the key>;place=<sequencer>:<digest of the detail-type>
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from flowguard.names.series_ids import id_in_series
from flowguard.startup.late_pattern import late_pattern

_SOURCE: Final = "aws.s3"
_SEQUENCER: Final = late_pattern("[0-9A-Fa-f]{1,64}")
_WIDTH: Final = 64
_BUCKET: Final = late_pattern("[a-zA-Z0-9._-]{1,255}")


def object_event_id(event: Mapping[str, Any]) -> str | None:
    """Return the id of an event that says what happened to an object. None for others, and where no order is said.

    The sequencers of one key are compared as texts, the shorter one with zeros behind it.
    """
    if event.get("source") != _SOURCE:
        return None
    match event.get("detail"):
        case {"bucket": {"name": str(bucket)}, "object": {"key": str(key), "sequencer": str(sequencer)}} if (
            _BUCKET.fullmatch(bucket) and _SEQUENCER.fullmatch(sequencer)
        ):
            series = f"arn:aws:s3:::{bucket};object={_digest(key)}"
            return id_in_series(series, f"{sequencer.upper().ljust(_WIDTH, '0')}:{_digest(str(event['detail-type']))}")
        case _:
            return None


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
