"""DynamoDB's rows. DynamoDB Local is AWS's own, and differs only where a row says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.refusals.case import TABLE, Case, Places
from tests.refusals.outcome import Outcome, Refused, Simply

INVALID = Refused("ValidationException")
MOST = 409_600
LOCAL = "dynamodb-local"

Act = Callable[[Any], Any]


def text(content: str) -> dict[str, str]:
    return {"S": content}


def key(pk: str, sk: str = "s") -> dict[str, Any]:
    return {"pk": text(pk), "sk": text(sk)}


def item_of(size: int, pk: str = "p", sk: str = "s") -> dict[str, Any]:
    """An item that counts exactly so many bytes."""
    rest = size - len(f"pk{pk}sk{sk}b")
    return {**key(pk, sk), "b": text("x" * rest)}


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = text("x")
    for level in range(depth):
        value = {"M": {"a": value}} if level % 2 else {"L": [value]}
    return value


def put(item: dict[str, Any], **more: Any) -> Act:
    return lambda client: client.put_item(TableName=TABLE, Item=item, **more)


def get(wanted: dict[str, Any]) -> Act:
    return lambda client: client.get_item(TableName=TABLE, Key=wanted)


def delete(wanted: dict[str, Any]) -> Act:
    return lambda client: client.delete_item(TableName=TABLE, Key=wanted)


def setting(value: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"UpdateExpression": "SET b = :b", "ExpressionAttributeValues": {":b": value}, **more}


def update(wanted: dict[str, Any], value: dict[str, Any]) -> Act:
    return lambda client: client.update_item(TableName=TABLE, Key=wanted, **setting(value))


def grow(wanted: dict[str, Any], by: int) -> Act:
    """An update of an item that has 200,000 bytes already."""

    def act(client: Any) -> Any:
        client.put_item(TableName=TABLE, Item={**wanted, "a": text("y" * 200_000)})
        return client.update_item(TableName=TABLE, Key=wanted, **setting(text("x" * by)))

    return act


def transact(*actions: dict[str, Any]) -> Act:
    return lambda client: client.transact_write_items(TransactItems=list(actions))


def a_put(item: dict[str, Any], table: str = TABLE) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": item}}


def an_update(wanted: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    return {"Update": {"TableName": TABLE, "Key": wanted, **setting(value)}}


def a_delete(wanted: dict[str, Any]) -> dict[str, Any]:
    return {"Delete": {"TableName": TABLE, "Key": wanted}}


def cancelled(*reasons: str) -> Refused:
    return Refused("TransactionCanceledException", reasons=reasons)


def batch(item: dict[str, Any]) -> Act:
    return lambda client: client.batch_write_item(RequestItems={TABLE: [{"PutRequest": {"Item": item}}]})


SURROGATE = "a\ud800b"
MISSING = Refused("ResourceNotFoundException")
UNSERIALIZABLE = Refused("SerializationException")

ROWS: tuple[tuple[str, Act, Outcome], ...] = (
    # keys
    ("a partition key of 2,048 bytes", put(key("x" * 2048)), Simply.TAKEN),
    ("a partition key of 2,049 bytes", put(key("x" * 2049)), INVALID),
    ("a partition key of 2,050 bytes in 1,025 characters", put(key("é" * 1025)), INVALID),
    ("a sort key of 1,024 bytes", put(key("x", "s" * 1024)), Simply.TAKEN),
    ("a sort key of 1,025 bytes", put(key("x", "s" * 1025)), INVALID),
    ("a sort key of 1,026 bytes in 513 characters", put(key("x", "é" * 513)), INVALID),
    ("a long key that is asked for", get(key("x" * 2049)), INVALID),
    ("a long key that is updated", update(key("x" * 2049), text("v")), INVALID),
    ("a long key that is deleted", delete(key("x", "s" * 1025)), INVALID),
    ("a long key in a batch", batch(key("x" * 2049)), INVALID),
    ("a long key that is put in a transaction", transact(a_put(key("x" * 2049))), cancelled("ValidationError")),
    (
        "a long key that is updated in a transaction",
        transact(a_put(key("fine")), an_update(key("x" * 2049), text("v"))),
        cancelled("None", "ValidationError"),
    ),
    ("an empty partition key", put(key("")), INVALID),
    ("an empty sort key", put(key("x", "")), INVALID),
    ("an empty key that is updated", update(key(""), text("v")), INVALID),
    ("an empty key in a transaction", transact(a_put(key(""))), INVALID),
    ("an item without its sort key", put({"pk": text("x")}), INVALID),
    # items
    ("an item of 400 KB", put(item_of(MOST)), Simply.TAKEN),
    ("an item of 400 KB and a byte", put(item_of(MOST + 1)), INVALID),
    ("an update to 400 KB", update(key("p", "u"), text("x" * (MOST - 7))), Simply.TAKEN),
    ("an update to 400 KB and a byte", update(key("p", "v"), text("x" * (MOST - 6))), INVALID),
    ("an item that grows above 400 KB", grow(key("p", "w"), 300_000), INVALID),
    ("an item of 400 KB and a byte in a batch", batch(item_of(MOST + 1)), INVALID),
    ("an item of 400 KB in a transaction", transact(a_put(item_of(MOST, sk="t"))), Simply.TAKEN),
    ("an item of 400 KB and a byte in a transaction", transact(a_put(item_of(MOST + 1, sk="t"))), INVALID),
    (
        "an update to 400 KB and a byte in a transaction",
        transact(a_put(key("fine")), an_update(key("p", "n"), text("x" * (MOST - 6)))),
        cancelled("None", "ValidationError"),
    ),
    ("31 levels", put({**key("deep"), "d": nested(31)}), Simply.TAKEN),
    ("32 levels", put({**key("deep"), "d": nested(32)}), INVALID),
    ("32 levels in an update", update(key("deep"), nested(32)), INVALID),
    # values
    ("a number of 38 digits", put({**key("n"), "n": {"N": "1" * 38}}), Simply.TAKEN),
    ("a number of 39 digits", put({**key("n"), "n": {"N": "1" * 39}}), INVALID),
    ("a number of 39 digits in a transaction", transact(a_put({**key("n"), "n": {"N": "1" * 39}})), INVALID),
    ("a number above 9.9E+125", put({**key("n"), "n": {"N": "1E126"}}), INVALID),
    # transactions
    ("100 actions", transact(*(a_put(key("n", str(place))) for place in range(100))), Simply.TAKEN),
    ("101 actions", transact(*(a_put(key("n", str(place))) for place in range(101))), INVALID),
    ("10 actions of 400 KB", transact(*(a_put(item_of(MOST, sk=f"{place:02}")) for place in range(10))), Simply.TAKEN),
    ("11 actions of 400 KB", transact(*(a_put(item_of(MOST, sk=f"{place:02}")) for place in range(11))), INVALID),
    (
        "11 updates of 390 KB",
        transact(*(an_update(key("p", f"{place:02}"), text("x" * 399_000)) for place in range(11))),
        INVALID,
    ),
    ("two actions on one item", transact(a_put(key("n")), a_delete(key("n"))), INVALID),
    # expressions
    (
        "an expression of 4,096 bytes",
        put(key("n"), ConditionExpression=f"attribute_not_exists({'z' * 4074})"),
        Simply.TAKEN,
    ),
    (
        "an expression of 4,097 bytes",
        put(key("n"), ConditionExpression=f"attribute_not_exists({'z' * 4075})"),
        INVALID,
    ),
    # tables
    ("an unknown table", lambda client: client.put_item(TableName="nowhere", Item=key("n")), MISSING),
    ("an unknown table that is read", lambda client: client.get_item(TableName="nowhere", Key=key("n")), MISSING),
    ("an unknown table in a transaction", transact(a_put(key("n"), "nowhere")), MISSING),
)

SURROGATES: tuple[tuple[str, Act], ...] = (
    ("half a surrogate pair in a text", put({**key("n"), "n": text(SURROGATE)})),
    ("half a surrogate pair in a set", put({**key("n"), "n": {"SS": [SURROGATE]}})),
    ("half a surrogate pair in an attribute's name", put({**key("n"), SURROGATE: text("v")})),
    ("half a surrogate pair in a map", put({**key("n"), "m": {"M": {SURROGATE: text("v")}}})),
    ("half a surrogate pair in a key that is asked for", get(key(SURROGATE))),
    ("half a surrogate pair in an update", update(key("n"), text("\udc00"))),
    ("half a surrogate pair in a transaction", transact(a_put({**key("n"), "n": text(SURROGATE)}))),
)
"""DynamoDB Local takes them; the service cannot read the request."""


def of(act: Act) -> Callable[[Any, Places], Any]:
    return lambda client, _: act(client)


def cases() -> Iterable[Case]:
    for name, act, then in ROWS:
        yield Case("dynamodb", name, of(act), then)
    for name, act in SURROGATES:
        yield Case("dynamodb", name, of(act), UNSERIALIZABLE, {LOCAL: Simply.TAKEN})
