"""Creates tables with the keys that they need, on any engine that the client talks to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flowguard.aws.indexed_runs import INDEX_KEY, RUN_INDEX
from flowguard.project.declared import TableIndex

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def create_run_table(dynamodb: DynamoDBClient, name: str) -> None:
    """Create a run table. Its keys are ``pk`` and ``sk``, it is on demand, and items expire by ``ttl``."""
    create_table(dynamodb, name, "pk", "sk")
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})


def add_run_index(dynamodb: DynamoDBClient, name: str) -> None:
    """Give a run table the index that lists of runs may use, if it has none."""
    if dynamodb.describe_table(TableName=name)["Table"].get("GlobalSecondaryIndexes"):
        return
    index = _index(TableIndex(RUN_INDEX, INDEX_KEY, ("S", "S"), keys_only=True))
    dynamodb.update_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in sorted({"pk", "sk", *INDEX_KEY})],
        GlobalSecondaryIndexUpdates=[{"Create": index}],
    )


def create_table(
    dynamodb: DynamoDBClient,
    name: str,
    *keys: str,
    types: tuple[str, ...] = (),
    indexes: tuple[TableIndex, ...] = (),
) -> None:
    """Create a table on demand with a hash key and maybe a range key.

    They are texts (``S``) unless ``types`` says else.
    """
    kinds = dict(zip(keys, types or ("S",) * len(keys), strict=True))
    for index in indexes:
        kinds |= zip(index.names, index.types, strict=True)
    attributes: Any = [{"AttributeName": key, "AttributeType": kind} for key, kind in kinds.items()]
    more: Any = {"GlobalSecondaryIndexes": [_index(index) for index in indexes]} if indexes else {}
    dynamodb.create_table(
        TableName=name, BillingMode="PAY_PER_REQUEST", KeySchema=_schema(keys), AttributeDefinitions=attributes, **more
    )


def _schema(keys: Sequence[str]) -> Any:
    return [{"AttributeName": key, "KeyType": role} for key, role in zip(keys, ("HASH", "RANGE"), strict=False)]


def _index(index: TableIndex) -> Any:
    kind = "KEYS_ONLY" if index.keys_only else "ALL"
    return {"IndexName": index.name, "KeySchema": _schema(index.names), "Projection": {"ProjectionType": kind}}
