"""What DynamoDB does with single items, batches and pages."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from flowguard.probe.lab import Lab, code
from flowguard.probe.made import table, tags
from flowguard.probe.saw import Saw, asks

KEY = {"pk": {"S": "k"}}


def put(lab: Lab, name: str, **attributes: Any) -> None:
    """Put an item under the key ``k``."""
    lab.ask("dynamodb", "put_item", TableName=name, Item={**KEY, **attributes})


def item(lab: Lab, name: str) -> Any:
    """Read the item under the key ``k``."""
    return lab.ask("dynamodb", "get_item", TableName=name, Key=KEY, ConsistentRead=True).get("Item")


def update(lab: Lab, name: str, expression: str, **params: Any) -> Any:
    """Update the item under the key ``k``."""
    return lab.ask("dynamodb", "update_item", TableName=name, Key=KEY, UpdateExpression=expression, **params)


def refused(lab: Lab, name: str, expression: str, **params: Any) -> Any:
    """Return the response of an update that is refused. It is empty where it is not."""
    try:
        update(lab, name, expression, **params)
    except ClientError as error:
        return {"code": code(error), **error.response}
    return {"code": ""}


def _holds(lab: Lab, name: str, condition: str, **values: Any) -> bool:
    """Answer whether a condition holds of the item under the key ``k``."""
    given = {"ExpressionAttributeValues": {f":{key}": value for key, value in values.items()}} if values else {}
    refusal = refused(lab, name, "SET touched = touched", ConditionExpression=condition, **given)
    if refusal["code"] not in ("", "ConditionalCheckFailedException"):
        raise AssertionError(refusal)
    return not refusal["code"]


@asks("dynamodb-conditional-write", "dynamodb", seconds=20)
def conditional_write(lab: Lab) -> Saw:
    """Update an item under a condition that holds, and under one that does not."""
    name = table(lab)
    put(lab, name, n={"N": "1"})
    given = {"ExpressionAttributeValues": {":a": {"N": "1"}, ":b": {"N": "2"}}}
    first = refused(lab, name, "SET n = :b", ConditionExpression="n = :a", **given)["code"]
    second = refused(lab, name, "SET n = :b", ConditionExpression="n = :a", **given)["code"]
    return Saw(
        (first, second) == ("", "ConditionalCheckFailedException"), f"{first or 'taken'}, then {second or 'taken'}"
    )


@asks("dynamodb-condition-failed-item", "dynamodb", seconds=20)
def condition_failed_item(lab: Lab) -> Saw:
    """Let conditions fail on an item and on none. The error should have the item."""
    name = table(lab)
    given = {
        "ConditionExpression": "n = :n",
        "ExpressionAttributeValues": {":n": {"N": "2"}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    absent = refused(lab, name, "SET n = :n", **given)
    put(lab, name, n={"N": "1"})
    there = refused(lab, name, "SET n = :n", **given)
    as_described = there.get("Item") == {**KEY, "n": {"N": "1"}} and not absent.get("Item")
    return Saw(as_described, f"with an item: {there.get('Item')}; without: {absent.get('Item')}")


@asks("dynamodb-return-values", "dynamodb", seconds=20)
def return_values(lab: Lab) -> Saw:
    """Update an item and ask for it as it was, and as it is."""
    name = table(lab)
    put(lab, name, n={"N": "1"})
    given = {"ExpressionAttributeValues": {":n": {"N": "1"}}}
    old = update(lab, name, "ADD n :n", ReturnValues="ALL_OLD", **given)["Attributes"]["n"]["N"]
    new = update(lab, name, "ADD n :n", ReturnValues="ALL_NEW", **given)["Attributes"]["n"]["N"]
    return Saw((old, new) == ("1", "3"), f"as it was: {old}; as it is after the second: {new}")


@asks("dynamodb-missing-attribute", "dynamodb", seconds=20)
def missing_attribute(lab: Lab) -> Saw:
    """Compare with an attribute that is not there."""
    name = table(lab)
    put(lab, name, touched={"N": "1"})
    number = {"N": "1"}
    results = {
        "=": _holds(lab, name, "gone = :v", v=number),
        "<": _holds(lab, name, "gone < :v", v=number),
        "<>": _holds(lab, name, "gone <> :v", v=number),
        "NOT =": _holds(lab, name, "NOT gone = :v", v=number),
    }
    return Saw([*results.values()] == [False, False, True, True], str(results))


@asks("dynamodb-comparison-types", "dynamodb", seconds=20)
def comparison_types(lab: Lab) -> Saw:
    """Compare values of two types and texts beyond the first plane."""
    name = table(lab)
    put(lab, name, touched={"N": "1"}, n={"N": "10"}, t={"S": "\uffff"})
    results = {
        "10 = '10'": _holds(lab, name, "n = :v", v={"S": "10"}),
        "10 < 'a'": _holds(lab, name, "n < :v", v={"S": "a"}),
        "10 > 9": _holds(lab, name, "n > :v", v={"N": "9"}),
        "10 = 10.0": _holds(lab, name, "n = :v", v={"N": "10.0"}),
        "U+FFFF < U+1F600": _holds(lab, name, "t < :v", v={"S": "\U0001f600"}),
    }
    return Saw([*results.values()] == [False, False, True, True, True], str(results))


@asks("dynamodb-update-creates", "dynamodb", seconds=20)
def update_creates(lab: Lab) -> Saw:
    """Update an item that is not there, under a condition that needs one and without."""
    name = table(lab)
    given = {"ExpressionAttributeValues": {":n": {"N": "1"}}}
    kept_out = refused(lab, name, "SET n = :n", ConditionExpression="attribute_exists(pk)", **given)["code"]
    before = item(lab, name)
    update(lab, name, "SET n = :n", **given)
    as_described = kept_out == "ConditionalCheckFailedException" and before is None and item(lab, name) is not None
    return Saw(as_described, f"under the condition: {kept_out or 'taken'}; without: made")


@asks("dynamodb-update-sees-old-item", "dynamodb", seconds=20)
def update_sees_old_item(lab: Lab) -> Saw:
    """Swap two attributes in one update."""
    name = table(lab)
    put(lab, name, a={"N": "1"}, b={"N": "2"})
    update(lab, name, "SET a = b, b = a")
    after = item(lab, name)
    return Saw((after["a"]["N"], after["b"]["N"]) == ("2", "1"), f"a is {after['a']['N']}, b is {after['b']['N']}")


@asks("dynamodb-remove-absent", "dynamodb", seconds=20)
def remove_absent(lab: Lab) -> Saw:
    """Remove an attribute that is not there, and set one inside a map that is not there."""
    name = table(lab)
    put(lab, name)
    removed = refused(lab, name, "REMOVE gone")["code"]
    inside = refused(lab, name, "SET gone.inner = :n", ExpressionAttributeValues={":n": {"N": "1"}})["code"]
    return Saw(
        (removed, inside) == ("", "ValidationException"), f"REMOVE: {removed or 'taken'}; SET: {inside or 'taken'}"
    )


@asks("dynamodb-empty-set", "dynamodb", seconds=20)
def empty_set(lab: Lab) -> Saw:
    """Delete the last element of a set, and put an empty one."""
    name = table(lab)
    put(lab, name, labels={"SS": ["a"]})
    update(lab, name, "DELETE labels :n", ExpressionAttributeValues={":n": {"SS": ["a"]}})
    left = item(lab, name)
    empty = lab.code_of("dynamodb", "put_item", TableName=name, Item={**KEY, "labels": {"SS": []}})
    return Saw(
        "labels" not in left and empty == "ValidationException", f"left: {sorted(left)}; put: {empty or 'taken'}"
    )


@asks("dynamodb-unused-names", "dynamodb", seconds=20)
def unused_names(lab: Lab) -> Saw:
    """Give a value that no expression uses, and use a name that is not given."""
    name = table(lab)
    values = {":n": {"N": "1"}, ":m": {"N": "1"}}
    unused = refused(lab, name, "SET n = :n", ExpressionAttributeValues=values)["code"]
    missing = refused(lab, name, "SET #n = :n", ExpressionAttributeValues={":n": {"N": "1"}})["code"]
    shown = f"unused: {unused or 'taken'}; not given: {missing or 'taken'}"
    return Saw((unused, missing) == ("ValidationException", "ValidationException"), shown)


@asks("dynamodb-reserved-words", "dynamodb", seconds=20)
def reserved_words(lab: Lab) -> Saw:
    """Set attributes named by reserved words, without and with a placeholder."""
    name = table(lab)
    given = {"ExpressionAttributeValues": {":n": {"N": "1"}}}
    bare = [refused(lab, name, f"SET {word} = :n", **given)["code"] for word in ("status", "owner", "ttl")]
    under = refused(lab, name, "SET #n = :n", ExpressionAttributeNames={"#n": "status"}, **given)["code"]
    return Saw(
        bare == ["ValidationException"] * 3 and not under, f"bare: {bare}; with a placeholder: {under or 'taken'}"
    )


@asks("dynamodb-item-size", "dynamodb", cents=0.1, seconds=20)
def item_size(lab: Lab) -> Saw:
    """Put items of 400 KB and a byte more, and let an update grow an item beyond."""
    name = table(lab)
    room = 409_600 - len("pk") - len("k") - len("a")

    def sent(size: int) -> str:
        return lab.code_of("dynamodb", "put_item", TableName=name, Item={**KEY, "a": {"S": "x" * size}})

    fits, over = sent(room), sent(room + 1)
    grown = refused(lab, name, "SET b = :b", ExpressionAttributeValues={":b": {"S": "x"}})["code"]
    shown = f"400 KB: {fits or 'taken'}; a byte more: {over or 'taken'}; by an update: {grown or 'taken'}"
    return Saw(not fits and (over, grown) == ("ValidationException",) * 2, shown)


@asks("dynamodb-number-digits", "dynamodb", seconds=20)
def number_digits(lab: Lab) -> Saw:
    """Put numbers of 38 and 39 digits, and some that are too large or too small."""
    name = table(lab)

    def sent(number: str) -> str:
        return lab.code_of("dynamodb", "put_item", TableName=name, Item={**KEY, "n": {"N": number}})

    good = [sent("9" * 38), sent("1E125"), sent("1E-130")]
    bad = [sent("9" * 39), sent("1E126"), sent("1E-131")]
    shown = f"38 digits and in range: {good}; 39, 1E126, 1E-131: {bad}"
    return Saw(not any(good) and bad == ["ValidationException"] * 3, shown)


@asks("dynamodb-surrogates", "dynamodb", seconds=20)
def surrogates(lab: Lab) -> Saw:
    """Put a text with half a surrogate pair, which JSON can carry and UTF-8 cannot."""
    name = table(lab)
    code = lab.code_of("dynamodb", "put_item", TableName=name, Item={**KEY, "a": {"S": "\ud800"}})
    return Saw(code == "SerializationException", code or "taken")


@asks("dynamodb-nesting", "dynamodb", seconds=20)
def nesting(lab: Lab) -> Saw:
    """Put maps inside one another, 31 and 32 in an attribute."""
    name = table(lab)

    def sent(levels: int) -> str:
        value: Any = {"S": "x"}
        for _ in range(levels):
            value = {"M": {"a": value}}
        return lab.code_of("dynamodb", "put_item", TableName=name, Item={**KEY, "a": value})

    fits, over = sent(31), sent(32)
    return Saw(not fits and over == "ValidationException", f"31: {fits or 'taken'}; 32: {over or 'taken'}")


def _key_sizes(lab: Lab, name: str, attribute: str, most: int) -> Saw:
    def sent(size: int) -> str:
        given = {"pk": {"S": "k"}, "sk": {"S": "k"}, attribute: {"S": "x" * size}}
        return lab.code_of("dynamodb", "put_item", TableName=name, Item=given)

    codes = [sent(size) for size in (0, 1, most, most + 1)]
    wanted = ["ValidationException", "", "", "ValidationException"]
    return Saw(codes == wanted, f"0, 1, {most}, {most + 1} bytes: {', '.join(code or 'taken' for code in codes)}")


@asks("dynamodb-partition-key-size", "dynamodb", seconds=20)
def partition_key_size(lab: Lab) -> Saw:
    """Put items whose partition key is as short and as long as it may be."""
    return _key_sizes(lab, table(lab, sort=True), "pk", 2_048)


@asks("dynamodb-sort-key-size", "dynamodb", seconds=20)
def sort_key_size(lab: Lab) -> Saw:
    """Put items whose sort key is as short and as long as it may be."""
    return _key_sizes(lab, table(lab, sort=True), "sk", 1_024)


@asks("dynamodb-key-is-fixed", "dynamodb", seconds=20)
def key_is_fixed(lab: Lab) -> Saw:
    """Set the key of an item, and put one whose key is a number."""
    name = table(lab)
    changed = refused(lab, name, "SET pk = :n", ExpressionAttributeValues={":n": {"S": "other"}})["code"]
    typed = lab.code_of("dynamodb", "put_item", TableName=name, Item={"pk": {"N": "1"}})
    shown = f"changed: {changed or 'taken'}; of another type: {typed or 'taken'}"
    return Saw((changed, typed) == ("ValidationException",) * 2, shown)


@asks("dynamodb-page-size", "dynamodb", cents=0.3, seconds=25)
def page_size(lab: Lab) -> Saw:
    """Scan eight items of 300 KB, all of which the filter leaves out."""
    name = table(lab, sort=True)
    for place in range(8):
        given = {"pk": {"S": "p"}, "sk": {"S": str(place)}, "a": {"S": "x" * 300_000}}
        lab.ask("dynamodb", "put_item", TableName=name, Item=given)
    page = lab.ask("dynamodb", "scan", TableName=name, FilterExpression="attribute_exists(gone)")
    shown = f"read {page['ScannedCount']}, returned {page['Count']}, goes on: {'LastEvaluatedKey' in page}"
    return Saw(page["ScannedCount"] < 8 and not page["Count"] and "LastEvaluatedKey" in page, shown)


@asks("dynamodb-query-order", "dynamodb", seconds=20)
def query_order(lab: Lab) -> Saw:
    """Query sort keys whose order by bytes and by UTF-16 differs."""
    name = table(lab, sort=True)
    keys = ["\U0001f600", "a", "\uffff", "B"]
    for key in keys:
        lab.ask("dynamodb", "put_item", TableName=name, Item={"pk": {"S": "p"}, "sk": {"S": key}})
    answer = lab.ask(
        "dynamodb",
        "query",
        TableName=name,
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": {"S": "p"}},
    )
    order = [row["sk"]["S"] for row in answer["Items"]]
    return Saw(order == ["B", "a", "\uffff", "\U0001f600"], f"the order: {[f'U+{ord(text):04X}' for text in order]}")


@asks("dynamodb-batch-get", "dynamodb", seconds=20)
def batch_get(lab: Lab) -> Saw:
    """Read 100 and 101 keys in one call, and a key twice."""
    name = table(lab)

    def read(keys: list[str]) -> str:
        given = {name: {"Keys": [{"pk": {"S": key}} for key in keys]}}
        return lab.code_of("dynamodb", "batch_get_item", RequestItems=given)

    codes = [read([str(n) for n in range(100)]), read([str(n) for n in range(101)]), read(["a", "a"])]
    wanted = ["", "ValidationException", "ValidationException"]
    return Saw(codes == wanted, f"100, 101, twice: {', '.join(code or 'taken' for code in codes)}")


@asks("dynamodb-batch-write", "dynamodb", seconds=20)
def batch_write(lab: Lab) -> Saw:
    """Put 25 and 26 items in one call, and an item twice."""
    name = table(lab)

    def written(keys: list[str]) -> str:
        given = {name: [{"PutRequest": {"Item": {"pk": {"S": key}}}} for key in keys]}
        return lab.code_of("dynamodb", "batch_write_item", RequestItems=given)

    codes = [written([str(n) for n in range(25)]), written([str(n) for n in range(26)]), written(["a", "a"])]
    wanted = ["", "ValidationException", "ValidationException"]
    return Saw(codes == wanted, f"25, 26, twice: {', '.join(code or 'taken' for code in codes)}")


@asks("dynamodb-missing-table", "dynamodb")
def missing_table(lab: Lab) -> Saw:
    """Read from a table that does not exist."""
    code = lab.code_of("dynamodb", "get_item", TableName=lab.name(), Key=KEY)
    return Saw(code == "ResourceNotFoundException", code or "taken")


def _units(answer: Any) -> float:
    """Return what a call has consumed. An engine may count nothing."""
    if "ConsumedCapacity" not in answer:
        raise NotImplementedError("it does not say what a call consumes")
    return float(answer["ConsumedCapacity"]["CapacityUnits"])


@asks("cost-of-dynamodb-units", "dynamodb", seconds=20)
def write_units(lab: Lab) -> Saw:
    """Put items of 1,024 and 1,025 bytes, and ask for the units."""
    name = table(lab)

    def units(size: int) -> float:
        given = {**KEY, "a": {"S": "x" * (size - len("pk") - len("k") - len("a"))}}
        answer = lab.ask("dynamodb", "put_item", TableName=name, Item=given, ReturnConsumedCapacity="TOTAL")
        return _units(answer)

    measured = [units(1_024), units(1_025)]
    return Saw(measured == [1.0, 2.0], f"1,024 and 1,025 bytes: {measured} units")


@asks("cost-of-a-read", "dynamodb", seconds=20)
def read_units(lab: Lab) -> Saw:
    """Read items of 4,096 and 4,097 bytes and ask for the units."""
    name = table(lab)

    def units(size: int, *, consistent: bool) -> float:
        put(lab, name, a={"S": "x" * (size - len("pk") - len("k") - len("a"))})
        given = {"ConsistentRead": consistent, "ReturnConsumedCapacity": "TOTAL"}
        answer = lab.ask("dynamodb", "get_item", TableName=name, Key=KEY, **given)
        return _units(answer)

    measured = [units(4_096, consistent=True), units(4_097, consistent=True), units(4_096, consistent=False)]
    return Saw(measured == [1.0, 2.0, 0.5], f"4,096, 4,097, and eventually 4,096 bytes: {measured} units")


@asks("errors-already-there", "dynamodb", seconds=20)
def already_there(lab: Lab) -> Saw:
    """Make a table that is there."""
    name = table(lab)
    code = lab.code_of(
        "dynamodb",
        "create_table",
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        Tags=tags(lab),
    )
    return Saw(code == "ResourceInUseException", code or "taken")
