"""What the index of runs by status costs, as DynamoDB Local counts it."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.items import run_key
from flowguard.names.ids import ObjectId
from tests.aws.engines import on_dynamodb_local
from tests.aws.test_indexed_runs import TABLE, create_indexed


@pytest.fixture
def clients(dynamodb_local_url: str) -> Clients:
    found = on_dynamodb_local(dynamodb_local_url)
    create_indexed(found)
    return found


def units(clients: Clients, table: str, change: str, **values: str) -> float:
    """The write units of an update of the run item."""
    given: Any = {f":{name}": {"S": text} for name, text in values.items()}
    answer: Any = clients.dynamodb.update_item(
        TableName=table,
        Key=run_key("orders", ObjectId("o1")),
        UpdateExpression=change,
        ExpressionAttributeNames={"#status": "status"} if "#status" in change else {"#stage": "stage"},
        ExpressionAttributeValues=given,
        ReturnConsumedCapacity="TOTAL",
    )
    return float(answer["ConsumedCapacity"]["CapacityUnits"])


def way(clients: Clients, table: str) -> dict[str, float]:
    """What a claim, the next hop's claim, a wait and an end write."""
    steps = {
        "first claim": ("SET #status = :a", {"a": "RUNNING"}),
        "a commit": ("SET #stage = :a", {"a": "price"}),
        "the same status once more": ("SET #status = :a", {"a": "RUNNING"}),
        "a wait": ("SET #status = :a", {"a": "WAITING"}),
        "the claim after it": ("SET #status = :a", {"a": "RUNNING"}),
        "the end": ("SET #status = :a", {"a": "COMPLETED"}),
    }
    return {name: units(clients, table, change, **values) for name, (change, values) in steps.items()}


def test_only_what_changes_the_status_writes_the_index(clients: Clients) -> None:
    assert set(way(clients, "flowguard").values()) == {1.0}
    assert way(clients, TABLE) == {
        "first claim": 2.0,
        "a commit": 1.0,
        "the same status once more": 1.0,
        "a wait": 3.0,
        "the claim after it": 3.0,
        "the end": 3.0,
    }


def test_it_is_not_read_consistently(clients: Clients) -> None:
    """The engine in memory refuses it as well."""
    asked: Any = {"TableName": TABLE, "IndexName": "runs-by-status", "ConsistentRead": True}
    values: Any = {":s": {"S": "RUNNING"}}
    keyed: Any = {
        "KeyConditionExpression": "#s = :s",
        "ExpressionAttributeNames": {"#s": "status"},
        "ExpressionAttributeValues": values,
    }
    with pytest.raises(ClientError, match="ValidationException"):
        clients.dynamodb.scan(**asked)
    with pytest.raises(ClientError, match="ValidationException"):
        clients.dynamodb.query(**asked, **keyed)
