"""Answers of DynamoDB itself, as a public conformance suite has captured them in many regions.

https://github.com/paritysuite/dynamodb-conformance, version 3.3.0: its capture of 33 regions (2026-09-20), and its
tests, which were run at AWS (eu-west-2, 2026-08-18). Those that flowguard stands on are here, in calls of our own.
Where regions word a message differently, only what they share is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

TABLE = "captured"
SORTED = "captured-sorted"
LARGEST = 409_600


class Captured(NamedTuple):
    """A captured answer: what is asked, and what DynamoDB says. A text is a part of its message."""

    name: str
    ask: Callable[[Any], Any]
    answer: Any


class Said(NamedTuple):
    """An error: its code, and its message or a part of it."""

    code: str
    part: str = ""


def is_as_captured(answer: Any, captured: Any) -> bool:
    """Whether an answer is the captured one. Of messages, the captured part has to be there."""
    match answer, captured:
        case Said(), Said():
            return bool(answer.code == captured.code and captured.part in answer.part)
        case ([*found], [*wanted]) | ((*found,), (*wanted,)) if not isinstance(answer, str | Said):
            return len(found) == len(wanted) and all(map(is_as_captured, found, wanted))
        case _:
            return bool(answer == captured)


def _said(error: ClientError) -> Any:
    reasons = error.response.get("CancellationReasons")
    if reasons:
        return [Said(one["Code"], one.get("Message", "")) for one in reasons]
    return Said(error.response["Error"]["Code"], error.response["Error"]["Message"])


def _tried(call: Callable[[], Any]) -> Any:
    try:
        call()
    except ClientError as error:
        return _said(error)
    return "taken"


def key(name: str) -> dict[str, Any]:
    return {"pk": {"S": name}}


def put(client: Any, name: str, **attributes: Any) -> Any:
    return client.put_item(TableName=TABLE, Item={**key(name), **attributes})


def read(client: Any, name: str) -> Any:
    return client.get_item(TableName=TABLE, Key=key(name), ConsistentRead=True).get("Item")


def update(client: Any, name: str, expression: str, values: Mapping[str, Any] | None = None, **more: Any) -> Any:
    given = {"ExpressionAttributeValues": {f":{name}": value for name, value in values.items()}} if values else {}
    return client.update_item(TableName=TABLE, Key=key(name), UpdateExpression=expression, **given, **more)


def updated(before: Mapping[str, Any], expression: str, values: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """Ask for an update of an item, and for what is there then, its key left out."""

    def ask(client: Any) -> Any:
        put(client, "u", **before)
        answer = _tried(lambda: update(client, "u", expression, values, **more))
        found = read(client, "u")
        return {name: value for name, value in found.items() if name != "pk"} if answer == "taken" else answer

    return ask


def refused(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda client: _tried(lambda: call(client))


def transacted(*actions: Any, **more: Any) -> Callable[[Any], Any]:
    return refused(lambda client: client.transact_write_items(TransactItems=[*actions], **more))


def _put_action(name: str, **more: Any) -> Any:
    return {"Put": {"TableName": TABLE, "Item": {**key(name), **more.pop("item", {})}, **more}}


def _sized(name: str, size: int) -> dict[str, Any]:
    return {**key(name), "p": {"S": "x" * (size - len("pk") - len(name) - len("p"))}}


INVALID = "ValidationException"
CANCELLED_PUT = "Item size has exceeded the maximum allowed size"
CANCELLED_UPDATE = "Item size to update has exceeded the maximum allowed size"
ONE, TWO = {"N": "1"}, {"N": "2"}
LETTERS = {"L": [{"S": letter} for letter in "abcd"]}

NUMBERS = {
    **{"0": 1, "1": 2, "12": 2, "123": 3, "1234": 3, "1" * 38: 20, "0042": 2, "100": 2, "1010": 3, "0.0000001": 2},
    **{"1E125": 2, "1E-100": 2, "1.5": 3, "15": 2, "1.2": 3, "1.200": 3, "1.234": 4, "3.14159": 5, "123456": 4},
    **{"100.5": 4, "0.15": 2, "-42": 3, "-0": 1},
}
"""What numbers cost in an item, in bytes."""


def _updates() -> Iterator[Captured]:
    yield Captured("an update makes an item", updated_absent, {"pk": {"S": "new"}, "d": ONE})
    yield Captured("SET beside what is there", updated({"a": ONE}, "SET b = :v", {"v": TWO}), {"a": ONE, "b": TWO})
    yield Captured("SET adds to a number", updated({"a": ONE}, "SET a = a + :v", {"v": ONE}), {"a": TWO})
    yield Captured(
        "if_not_exists keeps and makes",
        updated({"a": ONE}, "SET a = if_not_exists(a, :v), b = if_not_exists(b, :v)", {"v": TWO}),
        {"a": ONE, "b": TWO},
    )
    yield Captured("if_not_exists of another", updated({"a": ONE}, "SET b = if_not_exists(b, a)"), {"a": ONE, "b": ONE})
    yield Captured(
        "list_append",
        updated({"a": {"L": [ONE]}}, "SET a = list_append(a, :v)", {"v": {"L": [TWO]}}),
        {"a": {"L": [ONE, TWO]}},
    )
    yield Captured("REMOVE of what is not there", updated({"a": ONE}, "REMOVE b"), {"a": ONE})
    yield Captured("REMOVE inside a map", updated({"a": {"M": {"x": ONE}}}, "REMOVE a.y"), {"a": {"M": {"x": ONE}}})
    yield Captured(
        "REMOVE of one key", updated({"a": {"M": {"x": ONE, "y": TWO}}}, "REMOVE a.x"), {"a": {"M": {"y": TWO}}}
    )
    three = {"L": [{"S": letter} for letter in "acd"]}
    yield Captured("REMOVE shifts a list", updated({"a": LETTERS}, "REMOVE a[1]"), {"a": three})
    beyond = {"L": [*LETTERS["L"], ONE]}
    yield Captured("SET beyond a list's end", updated({"a": LETTERS}, "SET a[9] = :v", {"v": ONE}), {"a": beyond})
    yield Captured("SET in an empty list", updated({"a": {"L": []}}, "SET a[0] = :v", {"v": ONE}), {"a": {"L": [ONE]}})
    yield Captured("SET without a parent", updated({"a": ONE}, "SET b.c.d = :v", {"v": ONE}), Said(INVALID))
    nested = {"a": {"M": {"x": ONE, "y": TWO}}}
    yield Captured("SET inside a map", updated({"a": {"M": {"x": ONE}}}, "SET a.y = :v", {"v": TWO}), nested)
    yield Captured("ADD to nothing", updated({}, "ADD n :v", {"v": TWO}), {"n": TWO})
    yield Captured("DELETE of all", updated({"s": {"SS": ["a"]}}, "DELETE s :v", {"v": {"SS": ["a"]}}), {})
    yield Captured(
        "DELETE of some", updated({"s": {"SS": ["a", "b"]}}, "DELETE s :v", {"v": {"SS": ["a"]}}), {"s": {"SS": ["b"]}}
    )
    for returned, answer in (
        ("ALL_NEW", {**key("r"), "x": TWO}),
        ("UPDATED_OLD", {"x": ONE}),
        ("UPDATED_NEW", {"x": TWO}),
    ):
        yield Captured(f"an update returns {returned}", _returned(returned), answer)


def updated_absent(client: Any) -> Any:
    update(client, "new", "SET d = :v", {"v": ONE})
    return read(client, "new")


def _returned(kind: str) -> Callable[[Any], Any]:
    def ask(client: Any) -> Any:
        put(client, "r", x=ONE)
        return update(client, "r", "SET x = :v", {"v": TWO}, ReturnValues=kind)["Attributes"]

    return ask


def _conditions() -> Iterator[Captured]:
    failed = Said("ConditionalCheckFailedException", "The conditional request failed")
    yield Captured(
        "a condition that fails", updated({"a": ONE}, "SET b = :v", {"v": TWO}, ConditionExpression="a = :v"), failed
    )
    both = {"ConditionExpression": "a = :v AND b > :v"}
    yield Captured("one of two fails", updated({"a": ONE}, "SET c = :v", {"v": ONE}, **both), failed)
    yield Captured("no item is made where one has to be", _no_ghost, (failed, None))
    yield Captured("a failed condition shows the item", _shown, {**key("c"), "a": ONE})
    same = "The first operand must be distinct from the remaining operands"
    twice = {"ConditionExpression": "contains(a, a)"}
    yield Captured("contains of itself", updated({}, "SET b = :v", {"v": ONE}, **twice), Said(INVALID, same))
    parens = {"ConditionExpression": "((a = :v))"}
    redundant = Said(INVALID, "The expression has redundant parentheses;")
    yield Captured("redundant parentheses", updated({}, "SET b = :v", {"v": ONE}, **parens), redundant)


def _no_ghost(client: Any) -> Any:
    given = {"ConditionExpression": "attribute_exists(pk)"}
    answer = _tried(lambda: update(client, "ghost", "ADD n :v", {"v": ONE}, **given))
    return answer, read(client, "ghost")


def _shown(client: Any) -> Any:
    put(client, "c", a=ONE)
    given = {"ConditionExpression": "a = :v", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    try:
        update(client, "c", "SET b = :v", {"v": TWO}, **given)
    except ClientError as error:
        return error.response.get("Item")
    return "taken"


def _requests() -> Iterator[Captured]:
    given = "Value provided in ExpressionAttribute"
    names = {"ExpressionAttributeNames": {"#unused": "a"}}
    unused = Said(INVALID, f"{given}Names unused in expressions: keys: {{#unused}}")
    yield Captured("a name that is not used", updated({}, "SET a = :v", {"v": ONE}, **names), unused)
    unused = Said(INVALID, f"{given}Values unused in expressions: keys: {{:unused}}")
    yield Captured("a value that is not used", updated({}, "SET a = :v", {"v": ONE, "unused": ONE}), unused)
    undefined = "An expression attribute value used in expression is not defined; attribute value: :v"
    yield Captured("a value that is not given", updated({}, "SET a = :v"), Said(INVALID, undefined))
    yield Captured("an empty expression", updated({}, ""), Said(INVALID, "The expression can not be empty;"))
    syntax = Said(INVALID, 'Invalid UpdateExpression: Syntax error; token: "INVALID"')
    yield Captured("no expression", updated({}, "INVALID SYNTAX HERE", {"v": ONE}), syntax)
    part = "Cannot update attribute pk. This attribute is part of the key"
    yield Captured("a key is not changed", updated({}, "SET pk = :v", {"v": ONE}), Said(INVALID, part))
    none = refused(lambda client: client.put_item(TableName=TABLE, Item={**key("e"), "a": {"SS": []}}))
    yield Captured("an empty set", none, Said(INVALID, "may not be empty"))
    twice = refused(lambda client: client.put_item(TableName=TABLE, Item={**key("e"), "a": {"SS": ["a", "a"]}}))
    yield Captured("a set with one twice", twice, Said(INVALID, "contains duplicates"))
    empty = Said(INVALID, "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk")
    yield Captured("an empty key", refused(lambda client: client.put_item(TableName=TABLE, Item=key(""))), empty)
    many = {TABLE: [{"PutRequest": {"Item": key(str(n))}} for n in range(26)]}
    yield Captured("26 writes", refused(lambda client: client.batch_write_item(RequestItems=many)), Said(INVALID))
    keys = {TABLE: {"Keys": [key(str(n)) for n in range(101)]}}
    yield Captured("101 reads", refused(lambda client: client.batch_get_item(RequestItems=keys)), Said(INVALID))
    gone = refused(lambda client: client.get_item(TableName="gone", Key=key("a")))
    yield Captured("no table", gone, Said("ResourceNotFoundException"))


def _transactions() -> Iterator[Captured]:
    yield Captured("100 actions", transacted(*(_put_action(f"t{n}") for n in range(100))), "taken")
    yield Captured("101 actions", transacted(*(_put_action(f"t{n}") for n in range(101))), Said(INVALID))
    repeated = Said(INVALID, "Transaction request cannot include multiple operations on one item")
    yield Captured("one item twice", transacted(_put_action("a"), _put_action("a")), repeated)
    stranger = {"Put": {"TableName": "gone", "Item": key("a")}}
    yield Captured("a transaction without its table", transacted(stranger), Said("ResourceNotFoundException"))
    absent = {"ConditionExpression": "attribute_not_exists(pk)"}
    failed = Said("ConditionalCheckFailed", "The conditional request failed")
    yield Captured(
        "reasons stand in their places",
        _with_one_there(_put_action("f"), _put_action("there", **absent)),
        [Said("None"), failed],
    )
    wrong = {"Put": {"TableName": TABLE, "Item": {"pk": {"N": "5"}}}}
    typed = [Said("ValidationError", "Type mismatch for key pk expected: S actual: N")]
    yield Captured("a key of another type", transacted(wrong), typed)
    empty = Said(INVALID, "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk")
    yield Captured("an empty key in a transaction", transacted(_put_action("")), empty)
    yield Captured("a token with other parameters", _mismatched, Said("IdempotentParameterMismatchException"))


def _with_one_there(*actions: Any) -> Callable[[Any], Any]:
    def ask(client: Any) -> Any:
        put(client, "there")
        return transacted(*actions)(client)

    return ask


def _mismatched(client: Any) -> Any:
    transacted(_put_action("tok", item={"a": ONE}), ClientRequestToken="captured-token")(client)
    return transacted(_put_action("tok", item={"a": TWO}), ClientRequestToken="captured-token")(client)


def _sizes() -> Iterator[Captured]:
    for more, put_answer in ((0, "taken"), (1, Said(INVALID, CANCELLED_PUT))):
        size = LARGEST + more
        yield Captured(f"an item of {size}", refused(_put_sized(size)), put_answer)
        written = {TABLE: [{"PutRequest": {"Item": _sized("k", size)}}]}
        yield Captured(f"an item of {size} in a batch", refused(_batch(written)), put_answer)
        yield Captured(
            f"an item of {size} in a transaction",
            transacted({"Put": {"TableName": TABLE, "Item": _sized("k", size)}}),
            put_answer,
        )
        answer: Any = "taken" if not more else [Said("ValidationError", CANCELLED_UPDATE)]
        yield Captured(f"an update to {size} in a transaction", transacted(_grown("ug", size)), answer)
    for number, bytes_ in NUMBERS.items():
        yield Captured(f"the number {number} has {bytes_} bytes", _fits_with(number, bytes_), ("taken", INVALID))


def _put_sized(size: int) -> Callable[[Any], Any]:
    return lambda client: client.put_item(TableName=TABLE, Item=_sized("k", size))


def _batch(written: Any) -> Callable[[Any], Any]:
    return lambda client: client.batch_write_item(RequestItems=written)


def _grown(name: str, size: int) -> Any:
    return {
        "Update": {
            "TableName": TABLE,
            "Key": key(name),
            "UpdateExpression": "SET p = :p",
            "ExpressionAttributeValues": {":p": _sized(name, size)["p"]},
        }
    }


def _fits_with(number: str, bytes_: int) -> Callable[[Any], Any]:
    def ask(client: Any) -> Any:
        def sent(size: int) -> Any:
            item = {**_sized("n", size - len("n") - bytes_), "n": {"N": number}}
            answer = _tried(lambda: client.put_item(TableName=TABLE, Item=item))
            return answer.code if isinstance(answer, Said) else answer

        return sent(LARGEST), sent(LARGEST + 1)

    return ask


def _statements() -> Iterator[Captured]:
    absent = {
        "Statement": 'UPDATE "gone-table" SET "n" = ? WHERE "pk" = ? AND ("n" IS MISSING)',
        "Parameters": [ONE, {"S": "a"}],
    }
    there = {
        "Statement": f'UPDATE "{TABLE}" SET "n" = ? WHERE "pk" = ? AND ("a" IS NOT MISSING)',  # noqa: S608  # the table is ours
        "Parameters": [ONE, {"S": "st"}],
    }
    yield Captured("a member without its table fails alone", _members(there, absent), ["", "ResourceNotFound"])
    insert = f"INSERT INTO \"{TABLE}\" VALUE {{'pk': ?, 'a': ?}}"
    inserted = {"Statement": insert, "Parameters": [{"S": "st"}, TWO]}
    yield Captured("an insert of what is there", _members(inserted), ["DuplicateItem"])
    old = {**there, "Statement": f"{there['Statement']} RETURNING ALL OLD *"}
    yield Captured("RETURNING ALL OLD", _items(old), [{**key("st"), "a": ONE}])
    failing = {
        "Statement": f'UPDATE "{TABLE}" SET "n" = ? WHERE "pk" = ? AND ("a" IS MISSING)',  # noqa: S608  # the table is ours
        "Parameters": [ONE, {"S": "st"}],
    }
    shown = {**failing, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    yield Captured("a failed member shows the item (2026-10-10)", _failed_items(shown), [{**key("st"), "a": ONE}])


def _responses(*statements: Any) -> Callable[[Any], list[Any]]:
    def ask(client: Any) -> list[Any]:
        put(client, "st", a=ONE)
        found: list[Any] = client.batch_execute_statement(Statements=[*statements])["Responses"]
        return found

    return ask


def _members(*statements: Any) -> Callable[[Any], Any]:
    return lambda client: [one.get("Error", {}).get("Code", "") for one in _responses(*statements)(client)]


def _items(*statements: Any) -> Callable[[Any], Any]:
    return lambda client: [one.get("Item") for one in _responses(*statements)(client)]


def _failed_items(*statements: Any) -> Callable[[Any], Any]:
    return lambda client: [one["Error"].get("Item") for one in _responses(*statements)(client)]


CAPTURED = [*_updates(), *_conditions(), *_requests(), *_transactions(), *_sizes(), *_statements()]
