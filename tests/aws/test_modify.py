"""A change of an item by a function: applied to what is there, never to what was there a moment ago."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pydantic import BaseModel

from flowguard import ItemChanged, modify
from flowguard.aws.clients import Clients
from flowguard.aws.tables import DynamoDBTables
from flowguard.errors import RunFailed, WriteDenied, WriteInvalid
from flowguard.items.modified import modified
from flowguard.items.writes import Check, Update, Write
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.aws.engines import ENGINES, MOTO

KEY = {"id": "c1"}
DOWN: Any = {"Error": {"Code": "InternalServerError", "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 500}}
Item = dict[str, Any] | None


def put(clients: Clients, **item: Any) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, **item})


def there(clients: Clients) -> Any:
    return clients.dynamodb.get_item(TableName="carts", Key={"id": {"S": "c1"}}).get("Item")


def changed(clients: Clients, change: Callable[[Item], Any], **options: Any) -> Item:
    pauses: list[float] = []
    found = modify(clients.dynamodb, "carts", KEY, change, pause=pauses.append, draw=random.Random(0), **options)
    assert all(0 <= seconds < 0.02 * 2**place for place, seconds in enumerate(pauses))
    return found


class Cart(BaseModel):
    id: str
    n: int


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, {"n": 1}),
        (None, {}),
        (None, {"id": "c1", "n": 1}),
        ({"n": {"N": "1"}}, {"n": 2}),
        ({"n": {"N": "1"}}, {"n": 1, "more": {"a": [1]}}),
        ({"n": {"N": "1"}, "old": {"S": "x"}}, {"n": 1}),
        ({"n": {"N": "1"}, "old": {"S": "x"}}, {"m": 1}),
        ({"n": {"N": "1"}}, {"n": 1}),
        ({}, {"n": 1}),
        ({"n": {"N": "1"}}, {}),
        ({"n": {"N": "1"}}, None),
        (None, None),
        ({"status": {"S": "x"}, "a.b": {"BOOL": True}, "#n": {"NULL": True}}, {"size": 1, "a.b": False}),
        ({"s": {"SS": ["a", "b"]}, "b": {"B": b"1"}, "l": {"L": [{"N": "1"}]}}, {"s": {"a"}}),
    ],
)
def test_an_item_becomes_what_the_change_returns(clients: Clients, before: Any, after: Item) -> None:
    if before is not None:
        put(clients, **before)
    found = changed(clients, lambda item: after)
    assert found == (None if after is None else {**after, **KEY})
    assert changed(clients, lambda item: item) == found


@pytest.mark.parametrize(
    ("before", "after", "stored"),
    [
        ({"N": "1"}, True, {"BOOL": True}),
        ({"BOOL": True}, 1, {"N": "1"}),
        ({"L": [{"N": "0"}]}, [False], {"L": [{"BOOL": False}]}),
        ({"M": {"a": {"BOOL": False}}}, {"a": 0}, {"M": {"a": {"N": "0"}}}),
        ({"L": [{"N": "0"}]}, [0, 0], {"L": [{"N": "0"}, {"N": "0"}]}),
        ({"M": {"a": {"N": "0"}}}, {"b": 0}, {"M": {"b": {"N": "0"}}}),
    ],
)
def test_what_python_takes_for_equal_and_dynamodb_does_not_is_a_change(
    clients: Clients, before: Any, after: Any, stored: Any
) -> None:
    put(clients, n=before)
    changed(clients, lambda item: {"n": after})
    assert there(clients)["n"] == stored


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        (Decimal(1), 1, True),
        (True, True, True),
        (False, True, False),
        ([Decimal(1)], (1,), True),
        ({"a": Decimal(1)}, {"a": 1}, True),
        ({"a": Decimal(1)}, 1, False),
        (Decimal(1), {"a": 1}, False),
        ("ab", ["a", "b"], False),
        (["a", "b"], "ab", False),
    ],
)
def test_only_what_dynamodb_stores_otherwise_is_written(before: Any, after: Any, is_same: bool) -> None:
    write = modified("carts", KEY, {**KEY, "n": before}, {"n": after})
    assert isinstance(write, Check if is_same else Update)


@pytest.mark.parametrize(
    ("code", "refused"), [("AccessDeniedException", WriteDenied), ("ValidationException", WriteInvalid)]
)
def test_only_a_read_that_is_refused_for_how_things_are_made_may_be_allowed_later(
    clients: Clients, code: str, refused: type[WriteInvalid]
) -> None:
    response: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}

    def refuses(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError(response, call.operation)

    with intercept(refuses), pytest.raises(WriteInvalid, match=f"cannot be read: {code}: no") as raised:
        DynamoDBTables(clients, random.Random(7)).read("carts", KEY)
    assert type(raised.value) is refused


def test_the_change_gets_the_item_and_may_return_a_model(clients: Clients) -> None:
    put(clients, n={"N": "1"})
    got: list[Item] = []

    def more(item: Item) -> Cart:
        got.append(item)
        return Cart(id="c1", n=2)

    assert changed(clients, more) == {"id": "c1", "n": 2}
    assert got == [{"id": "c1", "n": Decimal(1)}]


OTHERS = [
    ({"n": {"N": "1"}}, {"n": {"N": "5"}}),
    (None, {"n": {"N": "5"}}),
    ({"n": {"N": "1"}}, None),
    ({"n": {"N": "1"}}, {}),
    ({"n": {"N": "1"}}, {"n": {"N": "1"}, "added": {"N": "5"}}),
]


@pytest.mark.parametrize(("before", "meanwhile"), OTHERS)
@pytest.mark.parametrize("after", [{"n": 7, "added": 1}, None])
def test_a_change_is_made_anew_of_what_another_writer_has_left(
    clients: Clients, before: Any, meanwhile: Any, after: Item
) -> None:
    if before is not None:
        put(clients, **before)
    seen: list[Item] = []

    def change(item: Item) -> Item:
        seen.append(item)
        if len(seen) == 1 and meanwhile is None:
            clients.dynamodb.delete_item(TableName="carts", Key={"id": {"S": "c1"}})
        elif len(seen) == 1:
            put(clients, **meanwhile)
        return after

    changed(clients, change)
    is_noticed = after is not None or (before is not None and "added" not in (meanwhile or {}))
    assert len(seen) == (2 if is_noticed else 1), (
        "where nothing is written, or to be deleted, what is new does not matter"
    )
    assert (there(clients) is None) is (after is None and before is not None)


@pytest.mark.parametrize("compare", [5, {"version"}, (1,), ("",)])
def test_what_names_no_attributes_to_compare_is_refused(clients: Clients, compare: Any) -> None:
    with pytest.raises(RunFailed, match=r"compare is .*; write the names of attributes: compare=\('version',\)"):
        changed(clients, lambda item: {"n": 1}, compare=compare)


def test_one_name_to_compare_may_be_a_text(clients: Clients) -> None:
    clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": "c1"}, "version": {"N": "1"}})

    def another_writes_first(item: dict[str, Any] | None) -> dict[str, Any]:
        put = {"id": {"S": "c1"}, "version": {"N": "1"}, "v": {"N": "1"}}
        clients.dynamodb.put_item(TableName="carts", Item=put)
        return {"version": 2}

    changed(clients, another_writes_first, compare="version", tries=1)
    assert changed(clients, lambda item: item, compare="version") == {"id": "c1", "version": 2, "v": 1}


def test_only_the_attributes_that_decide_are_compared(clients: Clients) -> None:
    put(clients, n={"N": "1"}, seen={"N": "1"})
    calls: list[Item] = []

    def change(item: Item) -> Item:
        calls.append(item)
        put(clients, n={"N": "1"}, seen={"N": "9"})
        return {**(item or {}), "n": 2}

    changed(clients, change, compare=("n",))
    assert (len(calls), there(clients)["seen"], there(clients)["n"]) == (1, {"N": "9"}, {"N": "2"})


def test_after_the_last_try_the_error_says_so_and_nothing_is_written(clients: Clients) -> None:
    calls: list[Item] = []

    def change(item: Item) -> Item:
        calls.append(item)
        put(clients, n={"N": str(len(calls))})
        return {"n": 100}

    pauses: list[float] = []
    with pytest.raises(ItemChanged) as raised:
        modify(clients.dynamodb, "carts", KEY, change, tries=3, pause=pauses.append, draw=random.Random(7))
    assert (len(calls), raised.value.tries, there(clients)["n"]) == (3, 3, {"N": "3"})
    chance = random.Random(7)
    assert pauses == [chance.uniform(0, 0.02), chance.uniform(0, 0.04)]


def test_the_chance_is_its_own_where_none_is_given(clients: Clients) -> None:
    pauses: list[float] = []

    def change(item: Item) -> Item:
        put(clients, n={"N": str(len(pauses))})
        return {"n": 100}

    with pytest.raises(ItemChanged):
        modify(clients.dynamodb, "carts", KEY, change, tries=2, pause=pauses.append)
    assert len(pauses) == 1


@pytest.mark.parametrize(("again", "most"), [(0, 0), (1, 0.02), (3, 0.08)])
def test_a_stage_that_reads_again_waits_at_random(clients: Clients, again: int, most: float) -> None:
    pauses: list[float] = []
    put(clients, n={"N": "1"})
    tables = DynamoDBTables(clients, random.Random(7), pauses.append)
    assert tables.read("carts", KEY, again=again) == {"id": "c1", "n": 1}
    assert pauses == ([random.Random(7).uniform(0, most)] if again else [])


@pytest.mark.parametrize("operation", ["GetItem", "TransactWriteItems"])
@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="https://dynamodb"),
        ClientError(DOWN, "UpdateItem"),
    ],
)
def test_an_outage_is_raised_as_it_is(clients: Clients, operation: str, error: Exception) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            raise error
        return proceed()

    with intercept(down), pytest.raises(type(error)):
        changed(clients, lambda item: {"n": 1})


class LostAnswer:
    """Makes the first write twice, as botocore does after an answer that got lost; ``between`` another writer comes."""

    def __init__(self, between: Callable[[], object]) -> None:
        self.between = between
        self.tokens: list[Any] = []

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "TransactWriteItems":
            self.tokens.append(call.params.get("ClientRequestToken"))
            if len(self.tokens) == 1:
                proceed()
                self.between()
        return proceed()


@pytest.mark.parametrize("clients", [engine for engine in ENGINES if engine is not MOTO], indirect=True)
@pytest.mark.parametrize("before", [None, {"n": {"N": "1"}}])
@pytest.mark.parametrize("is_changed_between", [False, True])
def test_a_change_whose_answer_is_lost_is_made_once(clients: Clients, before: Any, is_changed_between: bool) -> None:
    """Not on moto, which applies a repeated transaction again, whatever its token."""
    if before is not None:
        put(clients, **before)
    lost = LostAnswer(lambda: put(clients, n={"N": "50"}) if is_changed_between else None)
    with intercept(lost):
        found = changed(clients, lambda item: {"n": (item or {}).get("n", 0) + 1})
    added = {"n": 1 if before is None else 2}
    assert found == {**KEY, **added}
    assert there(clients)["n"] == {"N": "50" if is_changed_between else str(added["n"])}


def test_each_try_has_a_token_of_its_own(clients: Clients) -> None:
    lost = LostAnswer(lambda: None)
    with intercept(lost):
        changed(clients, lambda item: {"n": 1, "first": True})
        changed(clients, lambda item: {"n": 2})
    assert len(set(lost.tokens)) == 2
    assert all(lost.tokens)


@pytest.mark.parametrize("before", [None, {"n": {"N": "1"}}])
def test_an_attribute_that_decides_may_be_absent(clients: Clients, before: Any) -> None:
    if before is not None:
        put(clients, **before)
    calls: list[Item] = []

    def change(item: Item) -> Item:
        calls.append(item)
        if len(calls) == 1:
            put(clients, version={"N": "1"})
        return {"n": 2}

    changed(clients, change, compare=("version",))
    assert (len(calls), there(clients)["n"]) == (2, {"N": "2"})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tries": 0}, "tries is 0; write a whole number from 1 to 10"),
        ({"tries": 11}, "tries is 11"),
        ({"tries": True}, "tries is True"),
        ({"change": lambda item: {"id": "c2"}}, "changes its key"),
        ({"change": lambda item: "text"}, "takes a dict or a pydantic model"),
        ({"key": {"id": object()}}, "cannot be read"),
        ({"table": "missing"}, "cannot be read: ResourceNotFound"),
    ],
)
def test_what_cannot_work_is_named_before_anything_is_written(
    clients: Clients, options: dict[str, Any], error: str
) -> None:
    given: dict[str, Any] = {"table": "carts", "key": KEY, "change": lambda item: {"n": 1}, **options}
    with pytest.raises((RunFailed, WriteInvalid), match=error):
        modify(clients.dynamodb, **given)
    assert there(clients) is None


@pytest.mark.parametrize("found", [None, {"id": 1, "n": 1}])
def test_a_key_of_another_type_is_another_key_though_python_takes_it_for_equal(found: Any) -> None:
    for key, other in (({"id": 1}, True), ({"id": 0}, False)):
        with pytest.raises(RunFailed, match=r"changes its key \(id\)"):
            modified("carts", key, found, {"id": other, "n": 2})


def test_an_item_with_too_many_attributes_asks_for_those_that_decide(clients: Clients) -> None:
    put(clients, **{f"a{place}": {"N": "1"} for place in range(101)})
    with pytest.raises(RunFailed, match=r"101 attributes.*compare=\('version',\)"):
        changed(clients, lambda item: {**(item or {}), "n": 1})
    assert changed(clients, lambda item: {**(item or {}), "n": 1}, compare=("a1",))
    assert there(clients)["n"] == {"N": "1"}


@pytest.mark.parametrize(
    ("there_are", "changing", "adding", "fits"),
    [
        (100, 1, 49, True),
        (100, 1, 50, False),
        (2, 1, 120, True),
        (2, 1, 130, False),
        (90, 90, 0, True),
        (2, 0, 147, False),
    ],
)
def test_a_change_of_more_attributes_than_an_expression_holds_is_named(
    clients: Clients, there_are: int, changing: int, adding: int, fits: bool
) -> None:
    put(clients, **{f"a{place}": {"N": "1"} for place in range(there_are)})
    wanted = {f"a{place}": 1 + (place < changing) for place in range(there_are)} | dict.fromkeys(
        (f"b{place}" for place in range(adding)), 1
    )
    if fits:
        assert changed(clients, lambda item: wanted)
        assert len(there(clients)) == 1 + len(wanted)
    else:
        with pytest.raises(RunFailed, match=f"writes {changing + adding} attributes and .* in one, a map"):
            changed(clients, lambda item: wanted)
        assert len(there(clients)) == 1 + there_are


def test_a_change_that_writes_more_than_an_expression_holds_is_named_though_few_attributes_decide(
    clients: Clients,
) -> None:
    put(clients, **{f"a{place}": {"N": "1"} for place in range(400)})
    with pytest.raises(RunFailed, match="writes 400 attributes and 1 have to be as they were"):
        changed(clients, lambda item: {f"a{place}": 2 for place in range(400)}, compare=("a1",))
    assert there(clients)["a1"] == {"N": "1"}


def test_the_longest_expression_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def write() -> Write:
        return modified("carts", KEY, {"id": "c1", "n": 1}, {"n": 2, "more": 3})

    update = write()
    assert isinstance(update, Update)
    assert update.condition is not None
    longest = len(update.condition.expression)
    assert longest > len(update.change.expression)
    monkeypatch.setattr("flowguard.items.modified._LONGEST_EXPRESSION", longest)
    assert write() == update
    monkeypatch.setattr("flowguard.items.modified._LONGEST_EXPRESSION", longest - 1)
    with pytest.raises(RunFailed, match="more than an expression of DynamoDB holds"):
        write()
