"""Creates tables with the keys that they need, on any engine that the client talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowguard.aws.indexed_runs import INDEX_KEY, RUN_INDEX

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
    roles: Any = zip(INDEX_KEY, ("HASH", "RANGE"), strict=True)
    schema: Any = [{"AttributeName": key, "KeyType": role} for key, role in roles]
    index: Any = {"IndexName": RUN_INDEX, "KeySchema": schema, "Projection": {"ProjectionType": "KEYS_ONLY"}}
    dynamodb.update_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in sorted({"pk", "sk", *INDEX_KEY})],
        GlobalSecondaryIndexUpdates=[{"Create": index}],
    )


def create_table(dynamodb: DynamoDBClient, name: str, *keys: str, types: tuple[str, ...] = ()) -> None:
    """Create a table on demand with a hash key and maybe a range key.

    They are texts (``S``) unless ``types`` says else.
    """
    kinds = types or ("S",) * len(keys)
    schema: list[Any] = [
        {"AttributeName": key, "KeyType": role} for key, role in zip(keys, ("HASH", "RANGE"), strict=False)
    ]
    attributes: list[Any] = [
        {"AttributeName": key, "AttributeType": kind} for key, kind in zip(keys, kinds, strict=True)
    ]
    dynamodb.create_table(
        TableName=name, BillingMode="PAY_PER_REQUEST", KeySchema=schema, AttributeDefinitions=attributes
    )
