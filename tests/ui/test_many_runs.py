"""A table of 100,000 runs: no page reads all of it, and following the pages shows each run once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.scene import Scene, scene
from tests.ui.inspecting import opened, parsed, text

RUNS = 100_000
FAILED_EACH = 500


class ManyRuns:
    """Answers Scan as DynamoDB does for a table of 100,000 runs, of which each five hundredth has failed."""

    def __init__(self, like: dict[str, Any]) -> None:
        self._like = like
        self.read = self.calls = 0

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "Scan":
            return proceed()
        start = call.params.get("ExclusiveStartKey")
        first = 0 if start is None else int(start["pk"]["S"].rpartition("-")[2]) + 1
        end = min(first + call.params["Limit"], RUNS)
        self.calls += 1
        self.read += end - first
        wanted = call.params["ExpressionAttributeValues"].get(":status", {}).get("S")
        found = [self._item(place) for place in range(first, end) if wanted in (None, self._status(place))]
        answer: Response = {"Items": found, "Count": len(found), "ScannedCount": end - first}
        return answer | ({"LastEvaluatedKey": self._key(end - 1)} if end < RUNS else {})

    @staticmethod
    def _status(place: int) -> str:
        return "RUNNING" if place % FAILED_EACH else "FAILED"

    @staticmethod
    def _key(place: int) -> dict[str, Any]:
        return {"pk": {"S": f"run#orders#order-{place}"}, "sk": {"S": "run"}}

    def _item(self, place: int) -> dict[str, Any]:
        return {**self._like, **self._key(place), "status": {"S": self._status(place)}}


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        found.deliver(found.message())
        yield found


def many(at: Scene) -> ManyRuns:
    return ManyRuns(dict(at.aws.client("dynamodb").scan(TableName="flowguard")["Items"][0]))


def test_the_first_page_reads_one_part_of_the_table(at: Scene) -> None:
    with intercept(many(at)) as table:
        answer = opened(at).get("/")
    assert (table.calls, table.read) == (1, 1_000)
    assert len([one for one in parsed(answer).links if one.startswith("/run?")]) == 50
    assert "50 shown, of 1,000 items" in parsed(answer).text


def test_a_filter_that_finds_little_is_followed_to_the_end_and_has_each_run_once(at: Scene) -> None:
    client, path, seen, pages = opened(at), "/?status=FAILED", list[str](), 0
    with intercept(many(at)) as table:
        while path:
            before = table.read
            found = parsed(client.get(path))
            pages += 1
            assert table.read - before <= 10_000
            seen += [one for one in found.links if one.startswith("/run?")]
            path = next((one for one in reversed(found.links) if "after=" in one), "")
    assert pages == 10
    assert len(seen) == len(set(seen)) == RUNS // FAILED_EACH


def test_a_graph_says_that_it_has_not_counted_all(at: Scene) -> None:
    with intercept(many(at)) as table:
        said = text(opened(at), "/flows?flow=orders")
    assert table.read == 10_000
    assert "10,000 runs so far, counted in 10,000 items of the table." in said
    assert "Count in 100,000 items" in said
