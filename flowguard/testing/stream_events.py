"""Lambda events of streams, made from a stream and what it holds."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from flowguard.payload.encoding import Payload, encode
from flowguard.testing.lambda_events import SENT_AT, Event

_REGION = "eu-west-1"
_ACCOUNT = "123456789012"
_CLUSTER = f"arn:aws:kafka:{_REGION}:{_ACCOUNT}:cluster/orders/751d2973-a626-431c-9d4e-d7975eb44dd7-2"


def kinesis_event(
    stream: str,
    payload: Payload | bytes,
    *,
    sequence: str = "49590338271490256608559692538361571095921575989136588898",
    shard: str = "shardId-000000000000",
    partition_key: str = "key",
    arrived_at: int = SENT_AT,
) -> Event:
    """Make the event that Kinesis hands to a function.

    ``stream`` is a name. ``sequence`` and ``shard`` say which record it is, ``arrived_at`` is ms since 1970.
    ``partition_key`` is its producer's. Bytes are the data as it is.
    """
    data = payload if isinstance(payload, bytes) else encode(payload).encode()
    part = {
        "kinesisSchemaVersion": "1.0",
        "partitionKey": partition_key,
        "sequenceNumber": sequence,
        "data": base64.b64encode(data).decode(),
        "approximateArrivalTimestamp": arrived_at / 1000,
    }
    record = {
        "kinesis": part,
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"{shard}:{sequence}",
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": f"arn:aws:iam::{_ACCOUNT}:role/reads-{stream}",
        "awsRegion": _REGION,
        "eventSourceARN": f"arn:aws:kinesis:{_REGION}:{_ACCOUNT}:stream/{stream}",
    }
    return {"Records": [record]}


def dynamodb_event(
    table: str,
    keys: Mapping[str, Any],
    new: Mapping[str, Any] | None = None,
    old: Mapping[str, Any] | None = None,
    *,
    sequence: str = "4421584500000000017450439091",
    event_id: str = "c4ca4238a0b923820dcc509a6f75849b",
    changed_at: int = SENT_AT,
    expired: bool = False,
) -> Event:
    """Make the event that the stream of a table hands to a function.

    ``keys``, ``new`` and ``old`` are in DynamoDB's JSON, such as ``{"id": {"S": "o1"}}``. ``sequence`` and
    ``event_id`` say which record it is. ``changed_at`` is ms since 1970; a stream gives whole seconds of it.
    ``expired`` is for an item that DynamoDB deletes since its time to live is over.
    """
    name = "REMOVE" if new is None else "INSERT" if old is None else "MODIFY"
    images = {"NewImage": new, "OldImage": old}
    part = {
        "ApproximateCreationDateTime": changed_at // 1000,
        "Keys": dict(keys),
        **{image: dict(values) for image, values in images.items() if values is not None},
        "SequenceNumber": sequence,
        "SizeBytes": 26,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }
    record = {
        "eventID": event_id,
        "eventName": name,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": _REGION,
        "dynamodb": part,
        **({"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}} if expired else {}),
        "eventSourceARN": f"arn:aws:dynamodb:{_REGION}:{_ACCOUNT}:table/{table}/stream/2026-01-01T00:00:00.000",
    }
    return {"Records": [record]}


def kafka_event(
    topic: str,
    payload: Payload | bytes | None,
    *,
    key: str | None = "key",
    partition: int = 0,
    offset: int = 15,
    headers: Mapping[str, str] | None = None,
    at: int = SENT_AT,
    cluster: str = _CLUSTER,
) -> Event:
    """Make the event that a mapping of Kafka hands to a function.

    ``topic``, ``partition`` and ``offset`` say which record it is. Bytes are the value as it is; None is a tombstone.
    ``key`` and ``headers`` are its producer's, and so is its time, ``at``, ms since 1970. ``cluster`` is the ARN of a
    cluster of MSK, or the servers of one outside AWS: ``"b-1.example:9092,b-2.example:9092"``.
    """
    value = payload if isinstance(payload, bytes | None) else encode(payload).encode()
    record = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": at,
        "timestampType": "CREATE_TIME",
        "key": None if key is None else base64.b64encode(key.encode()).decode(),
        "value": None if value is None else base64.b64encode(value).decode(),
        "headers": [{name: [*text.encode()]} for name, text in (headers or {}).items()],
    }
    of_aws = {"eventSource": "aws:kafka", "eventSourceArn": cluster, "bootstrapServers": "b-1.orders.example:9098"}
    return {
        **(of_aws if cluster.startswith("arn:") else {"eventSource": "SelfManagedKafka", "bootstrapServers": cluster}),
        "records": {f"{topic}-{partition}": [record]},
    }
