"""Tables with the keys that they need, on whatever engine the client talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def create_run_table(dynamodb: DynamoDBClient, name: str) -> None:
    """A table as flowguard needs it: keys ``pk`` and ``sk``, on demand, expiring by ``ttl``."""
    create_table(dynamodb, name, "pk", "sk")
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})


def create_table(dynamodb: DynamoDBClient, name: str, *keys: str, types: tuple[str, ...] = ()) -> None:
    """A table on demand with a hash key and maybe a range key, which are texts (``S``) unless ``types`` says else."""
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
