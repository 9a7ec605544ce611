"""What DynamoDB does with transactions."""

from __future__ import annotations

import threading
from typing import Any

from botocore.exceptions import ClientError

from flowguard.probe.lab import Lab
from flowguard.probe.made import table
from flowguard.probe.saw import Saw, asks


def _put(name: str, key: str, **more: Any) -> Any:
    return {"Put": {"TableName": name, "Item": {"pk": {"S": key}}, **more}}


def _write(lab: Lab, actions: list[Any], **params: Any) -> Any:
    """Make a transaction and return its error, or nothing."""
    try:
        lab.ask("dynamodb", "transact_write_items", TransactItems=actions, **params)
    except ClientError as error:
        return error.response
    return {"Error": {"Code": ""}}


def _code(response: Any) -> str:
    return str(response["Error"]["Code"])


@asks("transaction-atomic", "dynamodb", seconds=20)
def atomic(lab: Lab) -> Saw:
    """Put two items in two tables, one under a condition that does not hold."""
    first, two = table(lab), table(lab)
    code = _code(_write(lab, [_put(first, "a"), _put(two, "b", ConditionExpression="attribute_exists(pk)")]))
    left = lab.ask("dynamodb", "get_item", TableName=first, Key={"pk": {"S": "a"}}, ConsistentRead=True).get("Item")
    return Saw(code == "TransactionCanceledException" and left is None, f"{code}; the other item: {left}")


@asks("transaction-actions", "dynamodb", seconds=20)
def actions(lab: Lab) -> Saw:
    """Make transactions of 100 and 101 actions."""
    name = table(lab)
    fits, over = (_code(_write(lab, [_put(name, str(n)) for n in range(count)])) for count in (100, 101))
    return Saw(not fits and over == "ValidationException", f"100: {fits or 'taken'}; 101: {over or 'taken'}")


@asks("transaction-size", "dynamodb", cents=2.0, seconds=30)
def size(lab: Lab) -> Saw:
    """Make transactions of ten and twelve items of 380 KB."""
    name = table(lab)

    def made(count: int) -> str:
        large = [{"pk": {"S": str(n)}, "a": {"S": "x" * 380_000}} for n in range(count)]
        return _code(_write(lab, [{"Put": {"TableName": name, "Item": item}} for item in large]))

    fits, over = made(10), made(12)
    return Saw(not fits and bool(over), f"3.8 MB: {fits or 'taken'}; 4.56 MB: {over or 'taken'}")


@asks("transaction-one-action-an-item", "dynamodb", seconds=20)
def one_action_an_item(lab: Lab) -> Saw:
    """Put one item twice in a transaction."""
    name = table(lab)
    code = _code(_write(lab, [_put(name, "a"), _put(name, "a")]))
    return Saw(code == "ValidationException", code or "taken")


@asks("transaction-reasons", "dynamodb", seconds=20)
def reasons(lab: Lab) -> Saw:
    """Let the second of three actions fail, and read the reasons."""
    name = table(lab)
    lab.ask("dynamodb", "put_item", TableName=name, Item={"pk": {"S": "b"}, "n": {"N": "1"}})
    failing = _put(
        name,
        "b",
        ConditionExpression="attribute_not_exists(pk)",
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )
    refusals = _write(lab, [_put(name, "a"), failing, _put(name, "c")]).get("CancellationReasons", [])
    codes = [reason.get("Code") for reason in refusals]
    shown = refusals[1].get("Item") if len(refusals) == 3 else None
    as_described = codes == ["None", "ConditionalCheckFailed", "None"] and shown == {"pk": {"S": "b"}, "n": {"N": "1"}}
    return Saw(as_described, f"codes: {codes}; item: {shown}")


@asks("transaction-conflict", "dynamodb", cents=0.5, seconds=40)
def conflict(lab: Lab) -> Saw:
    """Let threads update one item by transactions and by single updates, and count what they meet."""
    name = table(lab)
    met: dict[str, int] = {}
    lock = threading.Lock()
    action = {
        "TableName": name,
        "Key": {"pk": {"S": "hot"}},
        "UpdateExpression": "ADD n :n",
        "ExpressionAttributeValues": {":n": {"N": "1"}},
    }

    def work() -> None:
        for _ in range(25):
            response = _write(lab, [{"Update": action}])
            codes = [reason.get("Code") for reason in response.get("CancellationReasons", [])] or [_code(response)]
            single = lab.code_of("dynamodb", "update_item", **action)
            with lock:
                for code in (*codes, single):
                    met[code or "taken"] = met.get(code or "taken", 0) + 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Saw("TransactionConflict" in met, f"met: {met}")


@asks("transaction-token", "dynamodb", seconds=20)
def token(lab: Lab) -> Saw:
    """Repeat a transaction with its token, and again with other parameters."""
    name = table(lab)

    def add(number: str) -> Any:
        return {
            "Update": {
                "TableName": name,
                "Key": {"pk": {"S": "k"}},
                "UpdateExpression": "ADD n :n",
                "ExpressionAttributeValues": {":n": {"N": number}},
            }
        }

    given = lab.namespace
    first, again = (_code(_write(lab, [add("1")], ClientRequestToken=given)) for _ in range(2))
    other = _code(_write(lab, [add("2")], ClientRequestToken=given))
    answer = lab.ask("dynamodb", "get_item", TableName=name, Key={"pk": {"S": "k"}}, ConsistentRead=True)
    number = answer["Item"]["n"]["N"]
    shown = f"repeated: {first or 'taken'}, {again or 'taken'}; n is {number}; other parameters: {other or 'taken'}"
    return Saw(number == "1" and not again and other == "IdempotentParameterMismatchException", shown)
