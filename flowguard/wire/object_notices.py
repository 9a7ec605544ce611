"""Read the notices that S3 itself sends to queues and topics, as the events that EventBridge would bring of them.

So a change of an object has one id and one payload, whichever way it comes. A notice is recognised by its whole form:
what lacks a part of it is a payload like any other.

::

    {"Records": [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {…}, …}]}   changes, mostly one
    {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "files", …}                   tries to send
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.bus_event import BusEvent
from flowguard.wire.notification import from_timestamp, to_json
from flowguard.wire.object_events import OBJECT_SOURCE, change_id, is_bucket, unordered_id

_RECORD: Final = '"aws:s3"'
_TEST: Final = '"s3:TestEvent"'
_TEST_OF_S3: Final = {"Service": "Amazon S3", "Event": "s3:TestEvent"}
_KNOWN: Final = "2."
"""How a known version of a record begins: another number may stand before the dot where fields mean something else."""

_DELETED: Final = "Object Deleted"
_KINDS: Final = {"ObjectCreated": "Object Created", "ObjectRemoved": _DELETED, "LifecycleExpiration": _DELETED}
_REASONS: Final = {
    "ObjectCreated:Put": "PutObject",
    "ObjectCreated:Post": "POST Object",
    "ObjectCreated:Copy": "CopyObject",
    "ObjectCreated:CompleteMultipartUpload": "CompleteMultipartUpload",
    "ObjectRemoved": "DeleteObject",
    "LifecycleExpiration": "Lifecycle Expiration",
}
_DELETIONS: Final = {"Delete": "Permanently Deleted", "DeleteMarkerCreated": "Delete Marker Created"}


class ObjectNotice(NamedTuple):
    """What S3 says in one message. It has no ``events`` where S3 only tries whether it may send there."""

    bucket: str
    events: tuple[BusEvent, ...]


def find_object_notice(text: str) -> ObjectNotice | None:
    """Return the notice that the text is. None where it is none, or is not whole."""
    if _RECORD not in text and _TEST not in text:
        return None
    try:
        return _notice(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _notice(value: object) -> ObjectNotice | None:
    """Read a notice. Raises ValueError where it begins as one and is not whole."""
    match value:
        case {"Records": [_, *_] as records, **others} if not others:
            events = tuple(map(_event, records))
            return ObjectNotice(events[0].resources[0].rpartition(":")[2], events)
        case {"Bucket": str(bucket), **others} if others.items() >= _TEST_OF_S3.items():
            return ObjectNotice(_checked(bucket), ())
        case _:
            return None


def _event(record: Any) -> BusEvent:
    match record:
        case {
            "eventSource": "aws:s3",
            "eventVersion": str(version),
            "eventName": str(name),
            "eventTime": str(time),
            "awsRegion": str(region),
            "s3": {"bucket": {"name": str(bucket)}, "object": {"key": str(written)}},
        } if version.startswith(_KNOWN):
            key, kind = _decoded(written), _KINDS.get(name.partition(":")[0], name)
            detail = _detail(record, _checked(bucket), key, name)
            version_id, request = detail["object"].get("version-id"), detail.get("request-id")
            told_apart = to_json([name, time, version_id, request])
            return BusEvent(
                id=change_id(detail, kind) or unordered_id(bucket, key, told_apart),
                detail_type=kind,
                source=OBJECT_SOURCE,
                account="",
                time=from_timestamp(time),
                region=region,
                resources=(f"arn:aws:s3:::{bucket}",),
                detail=to_json(detail),
                attributes={},
            )
        case _:
            raise ValueError("is no record of S3 of a known version")


def _detail(record: Mapping[str, Any], bucket: str, key: str, name: str) -> dict[str, Any]:
    """Return what the detail of EventBridge's event of the same change has. What the record leaves out is left out."""
    changed = record["s3"]["object"]
    facts = {
        "size": changed.get("size"),
        "etag": changed.get("eTag"),
        "version-id": changed.get("versionId"),
        "sequencer": changed.get("sequencer"),
    }
    kind, _, how = name.partition(":")
    around = {
        "request-id": _of(record, "responseElements", "x-amz-request-id"),
        "requester": _of(record, "userIdentity", "principalId"),
        "source-ip-address": _of(record, "requestParameters", "sourceIPAddress"),
        "reason": _REASONS.get(name) or _REASONS.get(kind, name),
        "deletion-type": _DELETIONS.get(how) if _KINDS.get(kind) == _DELETED else None,
    }
    return {"version": "0", "bucket": {"name": bucket}, "object": {"key": key, **_given(facts)}, **_given(around)}


def _of(record: Mapping[str, Any], part: str, name: str) -> Any:
    fields = record.get(part)
    return fields.get(name) if isinstance(fields, dict) else None


def _given(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _checked(bucket: str) -> str:
    if not is_bucket(bucket):
        raise ValueError("is no name of a bucket")
    return bucket


def _decoded(key: str) -> str:
    """Return an object's key. S3 writes it as a form of a page does: a space as ``+``, other bytes as ``%C3``."""
    from urllib.parse import unquote_plus  # most functions get no notices, and start quicker

    return unquote_plus(key, errors="strict")
