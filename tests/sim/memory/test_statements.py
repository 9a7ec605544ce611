"""What the AWS in memory makes of statements that it cannot execute."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.sim.memory.not_in_memory import NotInMemory
from tests.aws.engines import empty, on_memory

UPDATE = 'UPDATE "carts" SET "n" = ? WHERE "id" = ? AND ("n" = ?) RETURNING ALL OLD *'
PARAMETERS = [{"N": "2"}, {"S": "c1"}, {"N": "1"}]


def execute(clients: Clients, *statements: tuple[str, list[dict[str, str]]]) -> list[Any]:
    said: Any = [{"Statement": text, "Parameters": given} for text, given in statements]
    return clients.dynamodb.batch_execute_statement(Statements=said)["Responses"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM carts",
        UPDATE.replace("ALL OLD *", "MODIFIED NEW *"),
        UPDATE.replace('"n" = ?)', '"n" LIKE ?)'),
        UPDATE.replace('SET "n" = ?', 'SET "n" = set_add("n", ?)'),
        UPDATE.replace('AND ("n" = ?)', ""),
        UPDATE.replace('("n" = ?)', '("n" = ?'),
        f"{UPDATE} \x00",
        "INSERT INTO \"carts\" VALUE {'id': 1}",
        "INSERT INTO \"carts\" VALUE {'id': ?} ON CONFLICT",
        "",
    ],
)
def test_what_it_does_not_know_is_named(text: str) -> None:
    with on_memory() as clients, pytest.raises(NotInMemory, match="the PartiQL statement"):
        execute(clients, (text, PARAMETERS))


def test_each_statement_fails_on_its_own() -> None:
    with on_memory() as clients:
        clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "n": {"N": "1"}})
        answers = execute(
            clients,
            (UPDATE, PARAMETERS),
            (UPDATE, PARAMETERS[:2]),
            (UPDATE.replace("carts", "nowhere"), PARAMETERS),
            (UPDATE, [PARAMETERS[0], {"S": "c2"}, PARAMETERS[2]]),
            (f"{UPDATE}{' ' * 8_192}", PARAMETERS),
            (UPDATE, [PARAMETERS[0], {"S": ""}, PARAMETERS[2]]),
        )
        codes = [answer.get("Error", {}).get("Code") for answer in answers]
        assert codes == [
            None,
            "ValidationError",
            "ResourceNotFound",
            "ConditionalCheckFailed",
            "ValidationError",
            "ValidationError",
        ]
        assert answers[0]["Item"] == {"id": {"S": "c1"}, "n": {"N": "1"}}
        assert clients.dynamodb.scan(TableName="carts")["Items"] == [{"id": {"S": "c1"}, "n": {"N": "2"}}]


@pytest.mark.parametrize("count", [0, 2, 26])
def test_a_request_with_one_key_twice_or_too_many_statements_fails_as_a_whole(count: int) -> None:
    with on_memory() as clients:
        clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "n": {"N": "1"}})
        with pytest.raises(ClientError, match="ValidationException"):
            execute(clients, *[(UPDATE, PARAMETERS)] * count)
        assert clients.dynamodb.scan(TableName="carts")["Items"][0]["n"] == {"N": "1"}


def test_a_table_that_denies_is_denied_by_statement_too() -> None:
    with empty("memory") as aws:
        aws.create_table("flowguard")
        aws.refusing.deny("dynamodb:carts")
        dynamodb: Any = aws.client("dynamodb")
        with pytest.raises(ClientError, match="AccessDenied"):
            dynamodb.batch_execute_statement(Statements=[{"Statement": UPDATE, "Parameters": PARAMETERS}])
