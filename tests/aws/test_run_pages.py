"""The runs of a table, read by Scan, on each engine: which names DynamoDB reserves is its own to say."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws import run_pages
from flowguard.aws.clients import Clients
from flowguard.aws.items import run_key
from flowguard.aws.run_pages import RunPage, RunPages, Wanted, place_of
from flowguard.aws.run_reader import RunReader
from flowguard.names.ids import ObjectId
from flowguard.protocol.run import Status
from flowguard.settings import Settings

OBJECTS = ("o1", "o2", "o#3", "o4")


@pytest.fixture
def pages(clients: Clients) -> RunPages:
    """A table with four runs, one of them of another flow, and items that are none."""
    for place, name in enumerate(OBJECTS):
        flow, status = ("orders", "RUNNING") if place else ("order", "FAILED")
        clients.dynamodb.put_item(TableName="flowguard", Item=run_key(flow, ObjectId(name)) | item(status))
    clients.dynamodb.put_item(TableName="flowguard", Item=other("run#orders#o2", "caller#t#k"))
    clients.dynamodb.put_item(TableName="flowguard", Item=other("once#orders#o2", "run"))
    clients.dynamodb.put_item(TableName="flowguard", Item=other("run#orders#broken", "run"))
    return RunPages(clients.dynamodb, "flowguard", RunReader.of(Settings(), clients))


def item(status: str) -> Any:
    numbers = ("requested_at", "version", "hop", "retry", "redrive", "epoch", "lease_until", "ttl")
    texts = {"request_id": "run-1", "status": status, "stage": "price", "owner": "w", "error": "Reject: no"}
    return {
        **{name: {"N": "1"} for name in numbers},
        **{name: {"S": text} for name, text in texts.items()},
        "done": {"BOOL": True},
        "state": {"S": "{}"},
    }


def other(pk: str, sk: str) -> Any:
    return {"pk": {"S": pk}, "sk": {"S": sk}, "ttl": {"N": "1"}}


def found(pages: list[RunPage]) -> list[str]:
    return sorted(seen.object_id for page in pages for seen in page.runs)


@pytest.mark.parametrize(
    ("wanted", "objects"),
    [
        (Wanted(), ["o#3", "o1", "o2", "o4"]),
        (Wanted(flow="order"), ["o1"]),
        (Wanted(flow="orders"), ["o#3", "o2", "o4"]),
        (Wanted(status=Status.FAILED), ["o1"]),
        (Wanted(stage="price", status=Status.RUNNING), ["o#3", "o2", "o4"]),
        (Wanted(stage="ship"), []),
    ],
)
def test_each_run_that_is_wanted_is_found_once(pages: RunPages, wanted: Wanted, objects: list[str]) -> None:
    [page] = pages.pages(wanted, None, 100)
    assert found([page]) == objects
    assert (page.read, page.last) == (7, None)


def test_what_is_no_run_of_this_version_is_counted(pages: RunPages) -> None:
    [page] = pages.pages(Wanted(), None, 100)
    assert page.unreadable == 1


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_pages_have_the_same_runs(pages: RunPages, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pages, "ITEMS_A_PAGE", size)
    read = list(pages.pages(Wanted(), None, 100))
    assert found(read) == sorted(OBJECTS)
    assert len(read) >= 7 // size


def test_no_more_is_read_than_was_allowed_and_the_rest_is_behind_the_last_place(pages: RunPages) -> None:
    first = list(pages.pages(Wanted(), None, 3))
    assert sum(page.read for page in first) == 3
    rest = list(pages.pages(Wanted(), first[-1].last, 100))
    assert found([*first, *rest]) == sorted(OBJECTS)


def test_a_list_goes_on_behind_a_run(pages: RunPages) -> None:
    [whole] = pages.pages(Wanted(), None, 100)
    for place, seen in enumerate(whole.runs, 1):
        [rest] = pages.pages(Wanted(), place_of(seen), 100)
        assert [one.object_id for one in rest.runs] == [one.object_id for one in whole.runs[place:]]


def test_a_run_is_read_with_its_texts_as_they_are_stored(pages: RunPages) -> None:
    [page] = pages.pages(Wanted(status=Status.FAILED), None, 100)
    [seen] = page.runs
    assert seen.stored == {"error": {"S": "Reject: no"}}, "the state stays in the table"
    assert (seen.flow, seen.item.request_id, seen.item.hop, seen.size("error")) == ("order", "run-1", 1, 10)
