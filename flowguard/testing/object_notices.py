"""Notices of S3, made from a bucket and a key."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

from flowguard.testing.lambda_events import SENT_AT
from flowguard.wire.notification import to_timestamp


def object_notice(
    bucket: str,
    *keys: str,
    event: str = "ObjectCreated:Put",
    sequencer: str = "0055AED6DCD90281E5",
    at: int = SENT_AT,
    **fields: Any,
) -> dict[str, Any]:
    """Make the notice that S3 sends to a queue or topic, to be the payload of ``sqs_event`` or ``sns_to_sqs_event``.

    It has a record for each of the ``keys``, which S3 writes encoded; S3 itself sends mostly one. ``event`` is S3's
    name of what happened, ``at`` is ms since 1970. ``sequencer`` orders the changes of one key. ``fields`` are those of
    the object, such as ``size`` and ``versionId``.
    """
    return {"Records": [_record(bucket, key, event, sequencer, at, fields) for key in keys]}


def _record(bucket: str, key: str, event: str, sequencer: str, at: int, fields: dict[str, Any]) -> dict[str, Any]:
    about = {"size": 1024, "eTag": "d41d8cd98f00b204e9800998ecf8427e"} if event.startswith("ObjectCreated") else {}
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-west-1",
        "eventTime": to_timestamp(at),
        "eventName": event,
        "userIdentity": {"principalId": "AWS:AIDAEXAMPLE"},
        "requestParameters": {"sourceIPAddress": "192.0.2.1"},
        "responseElements": {"x-amz-request-id": "C3D13FE58DE4C810", "x-amz-id-2": "FMyUVURIY8EXAMPLE"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "to-the-flow",
            "bucket": {"name": bucket, "ownerIdentity": {"principalId": "A3EXAMPLE"}, "arn": f"arn:aws:s3:::{bucket}"},
            "object": {"key": quote_plus(key, safe="/"), **about, **fields, "sequencer": sequencer},
        },
    }
