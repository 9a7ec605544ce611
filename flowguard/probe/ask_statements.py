"""What DynamoDB does with statements in batches."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from flowguard.probe.lab import Lab, code
from flowguard.probe.made import table
from flowguard.probe.saw import Saw, asks

ONE = {"N": "1"}
SEVEN = {"N": "7"}
ITEM = {"pk": {"S": "a"}, "n": ONE}


class Texts:
    """The statements on one table. What changes stands in parameters."""

    def __init__(self, name: str) -> None:
        self._table = f'"{name}"'

    def add(self, key: str, where: str = "", *values: Any, end: str = "") -> Any:
        """Add one to ``n`` of an item, under a condition with its values."""
        condition = where or '"n" IS NOT MISSING'
        text = f'UPDATE {self._table} SET "n" = "n" + ? WHERE "pk" = ? AND ({condition}){end}'  # noqa: S608  # the table is our own
        return {"Statement": text, "Parameters": [ONE, {"S": key}, *values]}

    def set(self, key: str) -> Any:
        """Set ``n`` of an item, whatever it was."""
        text = f'UPDATE {self._table} SET "n" = ? WHERE "pk" = ? AND ("n" IS MISSING)'  # noqa: S608  # as above
        return {"Statement": text, "Parameters": [ONE, {"S": key}]}

    def insert(self, key: str) -> Any:
        """Insert an item."""
        text = f"INSERT INTO {self._table} VALUE {{'pk': ?, 'n': ?}}"
        return {"Statement": text, "Parameters": [{"S": key}, {"N": "2"}]}

    def select(self, key: str) -> Any:
        """Read an item."""
        text = f'SELECT * FROM {self._table} WHERE "pk" = ?'  # noqa: S608  # the table is our own
        return {"Statement": text, "Parameters": [{"S": key}]}


def _batch(lab: Lab, *statements: Any) -> list[Any]:
    answers: list[Any] = lab.ask("dynamodb", "batch_execute_statement", Statements=[*statements])["Responses"]
    return answers


def _whole(lab: Lab, *statements: Any) -> str:
    """Return the code by which a whole batch is refused. It is empty where its members are answered."""
    return lab.code_of("dynamodb", "batch_execute_statement", Statements=[*statements])


def _codes(responses: list[Any]) -> list[str]:
    return [response.get("Error", {}).get("Code", "") for response in responses]


def _filled(lab: Lab, *keys: str) -> tuple[str, Texts]:
    name = table(lab)
    for key in keys:
        lab.ask("dynamodb", "put_item", TableName=name, Item={"pk": {"S": key}, "n": ONE})
    return name, Texts(name)


def _read(lab: Lab, name: str, key: str) -> Any:
    answer = lab.ask("dynamodb", "get_item", TableName=name, Key={"pk": {"S": key}}, ConsistentRead=True)
    return answer.get("Item")


@asks("partiql-batch-size", "dynamodb", seconds=20)
def batch_size(lab: Lab) -> Saw:
    """Execute 25 and 26 statements in one call."""
    _, texts = _filled(lab, *map(str, range(26)))
    fits, over = (_whole(lab, *(texts.add(str(n)) for n in range(count))) for count in (25, 26))
    return Saw(not fits and over == "ValidationException", f"25: {fits or 'taken'}; 26: {over or 'taken'}")


@asks("partiql-statement-size", "dynamodb", seconds=20)
def statement_size(lab: Lab) -> Saw:
    """Execute statements of 8,192 and 8,193 characters."""
    _, texts = _filled(lab, "a")

    def executed(length: int) -> str:
        given = texts.add("a", f'"{"m" * (length - room)}" IS MISSING')
        return _whole(lab, given) or "".join(_codes(_batch(lab, given)))

    room = len(texts.add("a", '"" IS MISSING')["Statement"])
    fits, over = executed(8_192), executed(8_193)
    return Saw(not fits and bool(over), f"8,192: {fits or 'taken'}; 8,193: {over or 'taken'}")


@asks("partiql-members-on-their-own", "dynamodb", seconds=20)
def members_on_their_own(lab: Lab) -> Saw:
    """Execute three updates of which the second fails, and read the answers in their order."""
    _, texts = _filled(lab, "a", "b", "c")
    codes = _codes(_batch(lab, texts.add("a"), texts.add("b", '"n" = ?', SEVEN), texts.add("c")))
    return Saw(codes == ["", "ConditionalCheckFailed", ""], f"codes: {codes}")


@asks("partiql-reads-or-writes", "dynamodb", seconds=20)
def reads_or_writes(lab: Lab) -> Saw:
    """Execute a read and a write in one batch."""
    _, texts = _filled(lab, "a", "b")
    code = _whole(lab, texts.select("a"), texts.add("b"))
    return Saw(bool(code), code or "taken")


@asks("partiql-failed-item", "dynamodb", seconds=20)
def failed_item(lab: Lab) -> Saw:
    """Let the condition of a member fail, and look for the item in its error."""
    _, texts = _filled(lab, "a")
    statement = {**texts.add("a", '"n" = ?', SEVEN), "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    error = _batch(lab, statement)[0].get("Error", {})
    return Saw(error.get("Item") == ITEM, f"{error.get('Code')}, with the item {error.get('Item')}")


@asks("partiql-condition-failed", "dynamodb", seconds=20)
def condition_failed(lab: Lab) -> Saw:
    """Update an item whose condition does not hold, and one that is not there."""
    _, texts = _filled(lab, "a")
    codes = _codes(_batch(lab, texts.add("a", '"n" = ?', SEVEN), texts.add("gone", '"n" = ?', SEVEN)))
    return Saw(codes == ["ConditionalCheckFailed"] * 2, f"codes: {codes}")


@asks("partiql-update-creates-none", "dynamodb", seconds=20)
def update_creates_none(lab: Lab) -> Saw:
    """Update an item that is not there, under a condition that an absent item meets."""
    name, texts = _filled(lab)
    codes, left = _codes(_batch(lab, texts.set("gone"))), _read(lab, name, "gone")
    return Saw(codes == ["ConditionalCheckFailed"] and left is None, f"codes: {codes}; the item: {left}")


@asks("partiql-duplicate-item", "dynamodb", seconds=20)
def duplicate_item(lab: Lab) -> Saw:
    """Insert an item that is there."""
    name, texts = _filled(lab, "a")
    codes, left = _codes(_batch(lab, texts.insert("a"))), _read(lab, name, "a")
    return Saw(codes == ["DuplicateItem"] and left == ITEM, f"codes: {codes}; the item: {left}")


@asks("partiql-returning", "dynamodb", seconds=20)
def returning(lab: Lab) -> Saw:
    """Update an item and ask for it as it was."""
    _, texts = _filled(lab, "a")
    before = _batch(lab, texts.add("a", end=" RETURNING ALL OLD *"))[0].get("Item")
    return Saw(before == ITEM, f"the item was: {before}")


@asks("partiql-short-codes", "dynamodb", seconds=20)
def short_codes(lab: Lab) -> Saw:
    """Execute statements of which one names a table that does not exist, and one adds to a text."""
    name, texts = _filled(lab, "a")
    lab.ask("dynamodb", "put_item", TableName=name, Item={"pk": {"S": "t"}, "n": {"S": "text"}})
    codes = _codes(_batch(lab, Texts(lab.name()).add("a"), texts.add("t")))
    return Saw(codes == ["ResourceNotFound", "ValidationError"], f"codes: {codes}")


@asks("partiql-malformed-member", "dynamodb", seconds=20)
def malformed_member(lab: Lab) -> Saw:
    """Execute a statement that is none beside one that is."""
    _, texts = _filled(lab, "a")
    broken = texts.add("a")
    broken["Statement"] = broken["Statement"].replace("UPDATE", "UPDAET")
    try:
        codes = _codes(_batch(lab, broken, texts.add("a")))
    except ClientError as error:
        return Saw(False, f"the whole batch: {code(error)}")
    return Saw(codes == ["ValidationError", ""], f"codes: {codes}")


@asks("partiql-one-item-once", "dynamodb", seconds=20)
def one_item_once(lab: Lab) -> Saw:
    """Update one item twice in a batch."""
    _, texts = _filled(lab, "a")
    code = _whole(lab, texts.add("a"), texts.add("a"))
    return Saw(code == "ValidationException", code or "taken")


@asks("partiql-missing", "dynamodb", seconds=20)
def missing(lab: Lab) -> Saw:
    """Update under conditions on an attribute that is not there."""
    _, texts = _filled(lab, "a", "b")
    codes = _codes(_batch(lab, texts.add("a", '"gone" IS MISSING'), texts.add("b", '"gone" = ?', ONE)))
    return Saw(codes == ["", "ConditionalCheckFailed"], f"IS MISSING, =: {codes}")


@asks("partiql-functions", "dynamodb", seconds=20)
def functions(lab: Lab) -> Saw:
    """Update under begins_with, contains and size."""
    name, texts = _filled(lab)
    given = {"pk": {"S": "k"}, "n": ONE, "t": {"S": "text"}, "labels": {"SS": ["a"]}}
    lab.ask("dynamodb", "put_item", TableName=name, Item=given)
    conditions = {'begins_with("t", ?)': {"S": "te"}, 'contains("labels", ?)': {"S": "a"}, 'size("t") = ?': {"N": "4"}}
    codes = [_codes(_batch(lab, texts.add("k", condition, value)))[0] for condition, value in conditions.items()]
    return Saw(not any(codes), f"begins_with, contains, size: {codes}")
