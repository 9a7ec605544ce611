"""Lists of callers in DynamoDB at their edges: errors, limits, pages, and items without what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.caller_lists import LARGEST_ROW, ROWS_A_PAGE, DynamoDBCallers, RowsLeft
from flowguard.aws.clients import Clients
from flowguard.aws.items import ASKER, number, record_item, run_key
from flowguard.aws.services import aws_store
from flowguard.errors import TextGone, TooLarge
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.callers import LARGEST_HELD, MOST_HELD, Caller, Callers, StoredEnd
from flowguard.protocol.run import ResetOnce
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.wire.attributes import Attribute
from tests.aws.engines import on_memory
from tests.aws.states import ENDED_AT, NOW, STORED, item

OBJECT = ObjectId("object")
KEY = run_key("flow", OBJECT)
EXPIRES = 9_000_000
ROWS_EXPIRE = 99_000_000
OPEN = Callers("term")


@pytest.fixture
def clients() -> Iterator[Clients]:
    with on_memory() as found:
        yield found


@pytest.fixture
def lists(clients: Clients) -> DynamoDBCallers:
    return aws_store(Settings(bucket="long-texts"), clients).callers._replace(pause=lambda seconds: None)


def put(clients: Clients, state: str = "running", **has: Any) -> None:
    found = {**item(1, state, (0, 0), "over", "other"), "callers": record_item(OPEN), **has}
    clients.dynamodb.put_item(TableName="flowguard", Item=found)


def there(clients: Clients) -> Any:
    return clients.dynamodb.get_item(TableName="flowguard", Key=KEY).get("Item")


def rows(clients: Clients) -> list[Any]:
    return [one for one in clients.dynamodb.scan(TableName="flowguard")["Items"] if one["sk"]["S"] != "run"]


def caller(name: int | str = 1, size: int = 0) -> Caller:
    """A caller whose text has at least so many bytes."""
    bare = Caller(RequestId(f"caller-{name}"), 499, "sqs:replies", carried={"t": Attribute.string("")})
    filler = "t" * max(0, size - len(bare.to_text()))
    return bare._replace(carried={"t": Attribute.string(filler)})


def held(*callers: Caller) -> Callers:
    return OPEN._replace(held={one.key: one.to_text() for one in callers})


# -- errors

CALLS: dict[str, Callable[[DynamoDBCallers], object]] = {
    "attach": lambda lists: lists.attach("flow", OBJECT, OPEN, caller(), EXPIRES, ROWS_EXPIRE),
    "attach a row": lambda lists: lists.attach("flow", OBJECT, OPEN, caller(1, 600), EXPIRES, ROWS_EXPIRE),
    "rows": lambda lists: list(lists.rows("flow", OBJECT, "term")),
    "forget": lambda lists: lists.forget("flow", OBJECT, "term", [caller()]),
    "reset": lambda lists: lists.reset("flow", OBJECT, "reset", NOW, NOW),
    "reset by an order": lambda lists: lists.reset("flow", OBJECT, "reset", NOW, NOW, ResetOnce(NOW, NOW)),
    "stored_end": lambda lists: lists.stored_end("flow", OBJECT),
    "forget_askers": lambda lists: lists.forget_askers("flow", OBJECT, ["key"]),
}


ERRORS: dict[str, Exception] = {
    "refused": ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "UpdateItem"),
    "cut off": OSError("cut off"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_of_dynamodb_and_one_of_the_network_are_raised_as_they_are(
    call: str, kind: str, clients: Clients, lists: DynamoDBCallers
) -> None:
    put(clients)
    error = ERRORS[kind]

    def fail(_: ApiCall, __: Proceed) -> Response:
        raise error

    with intercept(fail), pytest.raises(type(error)) as raised:
        CALLS[call](lists)
    assert raised.value is error


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_is_raised_as_it_is_while_an_order_is_noted_that_has_nothing_to_reset(
    kind: str, lists: DynamoDBCallers
) -> None:
    error = ERRORS[kind]

    def fail(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem":
            raise error
        return proceed()

    with intercept(fail), pytest.raises(type(error)) as raised:
        CALLS["reset by an order"](lists)
    assert raised.value is error


# -- who attaches


def attach(lists: DynamoDBCallers, callers: Callers, one: Caller) -> tuple[bool, list[str]]:
    with intercept(Recorder()) as calls:
        done = lists.attach("flow", OBJECT, callers, one, EXPIRES, ROWS_EXPIRE)
    return done, [call.operation for call in calls.calls]


def test_a_caller_is_held_by_the_item_until_that_expires(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients)
    assert attach(lists, OPEN, caller()) == (True, ["UpdateItem"])
    assert there(clients)["callers"] == record_item(held(caller()))
    assert there(clients)["ttl"] == number(EXPIRES // 1000)


def test_a_caller_that_is_held_is_not_written_again(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients, callers=record_item(held(caller())))
    assert attach(lists, held(caller()), caller()) == (True, [])
    assert attach(lists, held(caller()), caller(size=200)) == (True, []), "whatever it carries"
    assert there(clients)["callers"] == record_item(held(caller()))


APART: dict[str, dict[str, Any]] = {
    "elsewhere": {"reply_to": "sqs:mine"},
    "for another wait": {"answer_to": "{}"},
    "from its dead letter": {"redrive": 1},
    "deeper": {"depth": 99},
}


@pytest.mark.parametrize("changed", APART)
@pytest.mark.parametrize("in_rows", [False, True])
def test_who_repeats_the_id_of_a_caller_and_wants_another_answer_is_another_caller(
    changed: str, in_rows: bool, clients: Clients, lists: DynamoDBCallers
) -> None:
    begun = FULL if in_rows else OPEN
    put(clients, callers=record_item(begun))
    for one in (caller(), caller()._replace(**APART[changed])):
        assert attach(lists, begun, one)[0]
    listed = {**there(clients)["callers"]["M"]["held"]["M"], **{row["sk"]["S"]: row["caller"] for row in rows(clients)}}
    wanted = {caller().to_text(), caller()._replace(**APART[changed]).to_text()}
    assert wanted <= {one["S"] for one in listed.values()}


def test_a_caller_that_another_worker_has_listed_meanwhile_stays_as_it_was(
    clients: Clients, lists: DynamoDBCallers
) -> None:
    for begun, sizes in ((OPEN, (0, 200)), (FULL, (0, 200))):
        put(clients, callers=record_item(begun))
        for size in sizes:
            assert attach(lists, begun, caller("new", size))[0]
    assert there(clients)["callers"]["M"]["held"]["M"].get(caller("new").key) is None, "the list was full"
    [row] = rows(clients)
    assert row["caller"] == {"S": caller("new").to_text()}
    put(clients)
    for size in (0, 200):
        assert attach(lists, OPEN, caller("new", size))[0]
    assert there(clients)["callers"] == record_item(held(caller("new")))


def test_a_row_that_dynamodb_refuses_for_another_reason_is_not_taken_for_one_that_is_there(
    clients: Clients, lists: DynamoDBCallers
) -> None:
    def denied(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "PutItem":
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)
        return proceed()

    put(clients, callers=record_item(FULL))
    with intercept(denied), pytest.raises(ClientError, match="AccessDenied"):
        attach(lists, FULL, caller("new"))
    assert rows(clients) == []


@pytest.mark.parametrize(("size", "is_held"), [(LARGEST_HELD, True), (LARGEST_HELD + 1, False)])
def test_a_caller_is_held_up_to_a_size(size: int, is_held: bool, clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients)
    calls = ["UpdateItem"] if is_held else ["PutItem", "UpdateItem"]
    assert attach(lists, OPEN, caller(1, size)) == (True, calls)
    assert len(rows(clients)) == (0 if is_held else 1)


@pytest.mark.parametrize(("size", "fits"), [(LARGEST_ROW, True), (LARGEST_ROW + 1, False)])
def test_a_row_has_a_size(size: int, fits: bool, clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients)
    if fits:
        assert attach(lists, OPEN, caller(1, size))[0]
    else:
        with pytest.raises(TooLarge, match=f"caller's attributes .*{size:,} bytes"):
            attach(lists, OPEN, caller(1, size))
    assert len(rows(clients)) == int(fits)


FULL = held(*(caller(name) for name in range(MOST_HELD)))


def test_one_too_many_is_a_row_of_the_list(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients, callers=record_item(FULL))
    assert attach(lists, FULL, caller("more")) == (True, ["PutItem", "UpdateItem"])
    [row] = rows(clients)
    more = caller("more")
    assert row == {
        "pk": KEY["pk"],
        "sk": {"S": f"caller#term#{more.key}"},
        "caller": {"S": more.to_text()},
        "ttl": number(ROWS_EXPIRE // 1000),
    }
    assert there(clients)["callers"] == record_item(FULL._replace(rows=True))
    assert there(clients)["ttl"] == number(EXPIRES // 1000)


@pytest.mark.parametrize(("size", "calls"), [(0, ["UpdateItem"] * 2), (600, ["PutItem", "UpdateItem", "UpdateItem"])])
def test_an_item_that_lives_longer_by_now_goes_on_living_so_long(
    size: int, calls: list[str], clients: Clients, lists: DynamoDBCallers
) -> None:
    put(clients, ttl=number(EXPIRES // 1000 + 1))
    assert attach(lists, OPEN, caller(1, size)) == (True, calls)
    assert there(clients)["ttl"] == number(EXPIRES // 1000 + 1)


@pytest.mark.parametrize("size", [0, 600])
def test_an_item_that_lives_as_long_or_shorter_costs_no_call_more(
    size: int, clients: Clients, lists: DynamoDBCallers
) -> None:
    for lives in (0, -1):
        put(clients, ttl=number(EXPIRES // 1000 + lives))
        assert attach(lists, OPEN, caller(1, size))[1].count("UpdateItem") == 1
        assert there(clients)["ttl"] == number(EXPIRES // 1000)


def test_an_item_without_a_ttl_takes_callers(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients)
    clients.dynamodb.update_item(
        TableName="flowguard", Key=KEY, UpdateExpression="REMOVE #ttl", ExpressionAttributeNames={"#ttl": "ttl"}
    )
    assert attach(lists, OPEN, caller()) == (True, ["UpdateItem"])


def test_one_that_is_held_since_keeps_its_place_in_a_full_list(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients, callers=record_item(FULL))
    assert attach(lists, OPEN, caller(0)) == (True, ["UpdateItem"])
    assert rows(clients) == []


def test_a_list_that_has_filled_since_takes_a_row(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients, callers=record_item(FULL))
    assert attach(lists, OPEN, caller("more")) == (True, ["UpdateItem", "PutItem", "UpdateItem"])


@pytest.mark.parametrize("has", ["another list", "no list", "no item"])
@pytest.mark.parametrize(("size", "calls"), [(0, ["UpdateItem"]), (600, ["PutItem", "UpdateItem"])])
def test_nobody_attaches_to_a_list_that_is_closed(
    has: str, size: int, calls: list[str], clients: Clients, lists: DynamoDBCallers
) -> None:
    if has == "another list":
        put(clients, callers=record_item(Callers("another")))
    elif has == "no list":
        clients.dynamodb.put_item(TableName="flowguard", Item=item(1, "completed", (0, 0), "over", "other"))
    before = there(clients)
    assert attach(lists, OPEN, caller(1, size)) == (False, calls)
    assert there(clients) == before


@pytest.mark.parametrize("size", [0, 600])
def test_each_change_of_a_list_uses_all_its_names_and_values(
    size: int, clients: Clients, lists: DynamoDBCallers
) -> None:
    put(clients)
    with intercept(Recorder()) as calls:
        lists.attach("flow", OBJECT, OPEN, caller(1, size), EXPIRES, ROWS_EXPIRE)
    params: Any = calls.calls[-1].params
    text = f"{params['ConditionExpression']} {params['UpdateExpression']}"
    assert all(name in text for name in [*params["ExpressionAttributeNames"], *params["ExpressionAttributeValues"]])


# -- rows


def attached(lists: DynamoDBCallers, names: range) -> list[Caller]:
    callers = [caller(name, 600) for name in names]
    for one in callers:
        lists.attach("flow", OBJECT, OPEN, one, EXPIRES, ROWS_EXPIRE)
    return sorted(callers, key=lambda one: one.key)


def test_rows_are_read_page_by_page(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients)
    callers = attached(lists, range(5))

    def two(call: ApiCall, proceed: Proceed) -> Response:
        params: Any = call.params
        asked.append((params["ConsistentRead"], params["Limit"]))
        params["Limit"] = 2
        return proceed()

    asked: list[tuple[bool, int]] = []
    with intercept(two):
        pages = list(islice(lists.rows("flow", OBJECT, "term"), 4))
    assert pages == [callers[:2], callers[2:4], callers[4:]]
    assert asked == [(True, ROWS_A_PAGE)] * 3
    assert list(lists.rows("flow", OBJECT, "ter")) == []


def test_rows_that_were_answered_are_removed(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients)
    callers = attached(lists, range(3))
    lists.forget("flow", OBJECT, "term", callers[:2])
    assert list(lists.rows("flow", OBJECT, "term")) == [callers[2:]]


def test_rows_that_dynamodb_leaves_are_counted(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients)
    callers = attached(lists, range(2))

    def left(call: ApiCall, _: Proceed) -> Response:
        return {"UnprocessedItems": call.params["RequestItems"]}

    with intercept(left), pytest.raises(RowsLeft, match="2 rows of callers that were answered are still there"):
        lists.forget("flow", OBJECT, "term", callers)


# -- resets and ends


@pytest.mark.parametrize(
    ("state", "has", "at", "first_message"),
    [
        ("running", {}, STORED[0], "text"),
        ("completed", {}, NOW, "text"),
        ("failed", {}, NOW, None),
        ("running", {}, STORED[0] - 1, None),
        ("running", {"reset_by": {"S": "reset"}, "reset_at": number(NOW)}, NOW, "text"),
        ("running", {"reset_by": {"S": "reset"}}, NOW, None),
        ("failed", {"reset_by": {"S": "another"}, "reset_at": number(NOW)}, NOW, None),
    ],
)
def test_a_reset_that_stands_brings_what_the_work_begins_anew_with(
    state: str, has: dict[str, Any], at: int, first_message: str | None, clients: Clients, lists: DynamoDBCallers
) -> None:
    put(clients, state, first_message={"S": "text"}, **has)
    found = lists.reset("flow", OBJECT, "reset", at, NOW)
    assert (found and found.first_message) == first_message
    if found is not None:
        assert found.reset_by == "reset"


def test_there_is_nothing_to_reset_without_an_item(clients: Clients, lists: DynamoDBCallers) -> None:
    assert lists.reset("flow", OBJECT, "reset", NOW, NOW) is None
    assert there(clients) is None


ERROR = {"error": {"S": "Reject: no"}}


@pytest.mark.parametrize(
    ("state", "has", "end"),
    [
        ("completed", {"result": {"S": "7"}}, StoredEnd(RequestId(STORED[1]), ENDED_AT, "COMPLETED", "7")),
        ("failed", ERROR, StoredEnd(RequestId(STORED[1]), ENDED_AT, "FAILED", None, "Reject: no")),
        ("completed", {"result": {"S": "7"}, "reset_at": number(NOW)}, None),
        ("done", {}, None),
        ("waiting", {}, None),
    ],
)
def test_the_end_of_a_run_is_read_unless_it_was_reset(
    state: str, has: dict[str, Any], end: StoredEnd | None, clients: Clients, lists: DynamoDBCallers
) -> None:
    put(clients, state, **has)
    assert lists.stored_end("flow", OBJECT) == end


def test_there_is_no_end_without_an_item(lists: DynamoDBCallers) -> None:
    assert lists.stored_end("flow", OBJECT) is None


def test_an_end_whose_result_is_gone_is_an_error(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients, "completed", result={"M": {"bucket": {"S": "long-texts"}, "key": {"S": "gone"}}})
    with pytest.raises(TextGone):
        lists.stored_end("flow", OBJECT)


def test_an_end_is_read_consistently(clients: Clients, lists: DynamoDBCallers) -> None:
    put(clients, "completed")
    with intercept(Recorder()) as calls:
        lists.stored_end("flow", OBJECT)
    assert calls.calls[0].params["ConsistentRead"] is True


# -- requests that a newer one has taken the object from


def test_requests_that_were_answered_are_removed(clients: Clients, lists: DynamoDBCallers) -> None:
    noted: dict[str, Any] = {f"{ASKER}{key}": {"S": key} for key in "abc"}
    put(clients, **noted)
    lists.forget_askers("flow", OBJECT, ["a", "c"])
    assert [name for name in there(clients) if name.startswith(ASKER)] == [f"{ASKER}b"]


def test_where_the_item_has_expired_none_is_written_for_it(clients: Clients, lists: DynamoDBCallers) -> None:
    lists.forget_askers("flow", OBJECT, ["a"])
    assert there(clients) is None
