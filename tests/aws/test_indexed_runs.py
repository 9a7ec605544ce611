"""The runs of a status, found by an index of the table, on each engine."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws import indexed_runs
from flowguard.aws.clients import Clients
from flowguard.aws.indexed_runs import INDEX_KEY, RUN_INDEX, IndexedRuns
from flowguard.aws.items import run_key
from flowguard.aws.run_pages import NoCursor, RunPages, Wanted
from flowguard.aws.run_reader import RunReader
from flowguard.names.ids import ObjectId
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from tests.aws.test_run_pages import found, item, other

RUNNING = Wanted("orders", Status.RUNNING)
TABLE = "indexed"


def create_indexed(clients: Clients, name: str = TABLE) -> None:
    """Create a run table with the index that templates give it."""
    keys = {"pk": "HASH", "sk": "RANGE"}
    index = dict(zip(INDEX_KEY, ("HASH", "RANGE"), strict=True))
    schemas: list[Any] = [
        [{"AttributeName": key, "KeyType": role} for key, role in schema.items()] for schema in (keys, index)
    ]
    clients.dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=schemas[0],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in {**keys, **index}],
        GlobalSecondaryIndexes=[
            {"IndexName": RUN_INDEX, "KeySchema": schemas[1], "Projection": {"ProjectionType": "KEYS_ONLY"}}
        ],
    )


def put(clients: Clients, flow: str, name: str, status: str, **changes: Any) -> None:
    clients.dynamodb.put_item(TableName=TABLE, Item={**run_key(flow, ObjectId(name)), **item(status), **changes})


@pytest.fixture
def pages(clients: Clients) -> IndexedRuns:
    """Five runs of a flow that run, one of them at another stage, runs of other kinds, and items that are none."""
    create_indexed(clients)
    for place in range(5):
        put(clients, "orders", f"o{place}", "RUNNING", stage={"S": "ship" if place == 4 else "price"})
    put(clients, "orders", "bad", "FAILED")
    put(clients, "carts", "c1", "RUNNING")
    rows = (other("run#orders#o2", "caller#t#k"), other("once#orders#o2", "run"))
    entry = {**other("run#orders#o2", "entry"), "status": {"S": "RUNNING"}}
    for row in (*rows, entry):
        clients.dynamodb.put_item(TableName=TABLE, Item=row)
    return IndexedRuns(clients.dynamodb, TABLE, RUN_INDEX, RunReader.of(Settings(), clients))


@pytest.mark.parametrize(
    ("wanted", "objects"),
    [
        (RUNNING, ["o0", "o1", "o2", "o3", "o4"]),
        (RUNNING._replace(stage="ship"), ["o4"]),
        (RUNNING._replace(flow=None), ["c1", "o0", "o1", "o2", "o3", "o4"]),
        (Wanted("orders", Status.FAILED), ["bad"]),
        (Wanted("order", Status.RUNNING), []),
        (Wanted("orders", Status.WAITING), []),
    ],
)
def test_each_run_that_is_wanted_is_found_once(pages: IndexedRuns, wanted: Wanted, objects: list[str]) -> None:
    read = list(pages.pages(wanted, None, 100))
    assert found(read) == objects
    assert sum(page.unreadable for page in read) == 0, "rows beside a run are not read"


@pytest.mark.parametrize("size", [1, 2])
def test_small_pages_have_the_same_runs(pages: IndexedRuns, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_runs, "KEYS_A_CALL", size)
    read = list(pages.pages(RUNNING, None, 100))
    assert [seen.object_id for page in read for seen in page.runs] == ["o0", "o1", "o2", "o3", "o4"]
    assert len(read) >= 6 // size


def test_no_more_is_read_than_was_allowed_and_the_rest_is_behind_the_last_place(pages: IndexedRuns) -> None:
    first = list(pages.pages(RUNNING, None, 2))
    assert sum(page.read for page in first) == 2
    rest = list(pages.pages(RUNNING, first[-1].last, 100))
    assert found([*first, *rest]) == ["o0", "o1", "o2", "o3", "o4"]
    assert found([*first]) == ["o0", "o1"]


def test_a_list_goes_on_behind_a_run(pages: IndexedRuns) -> None:
    assert found(list(pages.pages(RUNNING, pages.place_of("orders", "o2", RUNNING), 100))) == ["o3", "o4"]


def test_a_place_is_for_lists_of_one_kind_and_status(pages: IndexedRuns, clients: Clients) -> None:
    place = pages.place_of("orders", "o2", RUNNING)
    scan = RunPages(clients.dynamodb, TABLE, RunReader.of(Settings(), clients))
    with pytest.raises(NoCursor):
        next(scan.pages(RUNNING, place, 100))
    with pytest.raises(NoCursor):
        next(pages.pages(Wanted("orders", Status.FAILED), place, 100))
    with pytest.raises(NoCursor):
        next(pages.pages(RUNNING, scan.place_of("orders", "o2", RUNNING), 100))


def test_a_run_that_is_not_any_more_what_the_index_says_is_left_out(pages: IndexedRuns, clients: Clients) -> None:
    def late(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == "Query":
            put(clients, "orders", "o1", "COMPLETED")
            clients.dynamodb.delete_item(TableName=TABLE, Key=run_key("orders", ObjectId("o3")))
        return answer

    with intercept(late):
        assert found(list(pages.pages(RUNNING, None, 100))) == ["o0", "o2", "o4"]


def test_what_a_call_leaves_is_read_by_the_next_one(pages: IndexedRuns) -> None:
    def partial(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == "BatchGetItem" and len(answer["Responses"][TABLE]) > 1:
            last = answer["Responses"][TABLE].pop()
            asked = call.params["RequestItems"][TABLE]
            answer["UnprocessedKeys"] = {TABLE: {**asked, "Keys": [{name: last[name] for name in ("pk", "sk")}]}}
        return answer

    with intercept(partial):
        assert found(list(pages.pages(RUNNING, None, 100))) == ["o0", "o1", "o2", "o3", "o4"]


def test_an_empty_page_reads_no_item(pages: IndexedRuns) -> None:
    with intercept(Recorder()) as calls:
        [page] = pages.pages(Wanted("nobody", Status.RUNNING), None, 100)
    assert [call.operation for call in calls.calls] == ["Query"]
    assert (page.read, page.runs, page.last) == (0, [], None)


def test_an_item_is_read_as_a_list_shows_it(pages: IndexedRuns) -> None:
    [page] = pages.pages(Wanted("orders", Status.FAILED), None, 100)
    assert page.runs[0].stored == {"error": {"S": "Reject: no"}}, "the state stays in the table"


def test_units_are_asked_for_and_added(pages: IndexedRuns) -> None:
    def counted(call: ApiCall, proceed: Proceed) -> Response:
        calls.append(dict(call.params))
        answer = dict(proceed())
        answer["ConsumedCapacity"] = {"Query": {"CapacityUnits": 1.5}, "BatchGetItem": [{"CapacityUnits": 2.0}]}[
            call.operation
        ]
        return answer

    def uncounted(_: ApiCall, proceed: Proceed) -> Response:
        return {name: value for name, value in proceed().items() if name != "ConsumedCapacity"}

    calls: list[dict[str, Any]] = []
    with intercept(counted):
        [page] = pages.pages(RUNNING, None, 100)
    assert page.units == 3.5
    assert [call["ReturnConsumedCapacity"] for call in calls] == ["TOTAL", "TOTAL"]
    assert "ExclusiveStartKey" not in calls[0]
    with intercept(uncounted):
        [page] = pages.pages(RUNNING, None, 100)
    assert page.units == 0.0


def test_keys_that_are_left_unprocessed_are_asked_for_after_a_pause_that_grows(clients: Clients) -> None:
    create_indexed(clients)
    for place in range(3):
        put(clients, "orders", f"o{place}", "RUNNING")
    pauses: list[float] = []
    runs = RunReader.of(Settings(), clients)
    pages = IndexedRuns(clients.dynamodb, TABLE, RUN_INDEX, runs, pauses.append, lambda: 0.5)
    asked: list[int] = []

    def one_at_a_time(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "BatchGetItem":
            return proceed()
        about: Any = call.params["RequestItems"]
        keys = about[TABLE]["Keys"]
        asked.append(len(keys))
        if len(asked) < 10:
            return {"Responses": {}, "UnprocessedKeys": about}
        return proceed()

    with intercept(one_at_a_time):
        [page] = pages.pages(RUNNING, None, 100)
    assert [seen.object_id for seen in page.runs] == ["o0", "o1", "o2"]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], "at random, of a bound that doubles up to 10 s"


def test_a_place_of_another_selection_is_refused(pages: IndexedRuns) -> None:
    ours = RUNNING._replace(mark="ours")
    place = pages.place_of("orders", "o1", ours)
    assert [seen.object_id for page in pages.pages(ours, place, 100) for seen in page.runs] == ["o2", "o3", "o4"]
    [first, *_] = pages.pages(ours, None, 1)
    assert first.last == pages.place_of("orders", "o0", ours)
    for wanted in (RUNNING, RUNNING._replace(mark="others")):
        with pytest.raises(NoCursor):
            list(pages.pages(wanted, place, 100))
