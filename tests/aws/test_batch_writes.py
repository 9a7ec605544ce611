"""Rows are written a batch to a call, and what DynamoDB leaves is written again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.batch_writes import MOST_TRIES, write_rows
from flowguard.aws.caller_lists import RowsLeft
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.callers import Caller
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from tests.aws.engines import on_memory


@pytest.fixture
def clients() -> Iterator[Clients]:
    with on_memory() as found:
        yield found


class Unprocessed:
    """Leaves so many of the first rows of each call unwritten, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "BatchWriteItem" or not self.times:
            return proceed()
        self.times -= 1
        requests = call.params["RequestItems"]["flowguard"]
        if len(requests) <= 3:
            return {"UnprocessedItems": {"flowguard": requests}, "ResponseMetadata": {}}
        left, call.params["RequestItems"]["flowguard"] = requests[:3], requests[3:]
        answer = dict(proceed())
        return {**answer, "UnprocessedItems": {"flowguard": left}}


def written(clients: Clients, count: int, pauses: list[float] | None = None) -> int:
    """Write so many rows. Returns how many were left."""
    pause = (lambda seconds: None) if pauses is None else pauses.append
    puts = [{"PutRequest": {"Item": {"pk": {"S": "a"}, "sk": {"S": f"{row:02}"}}}} for row in range(count)]
    return write_rows(clients.dynamodb, "flowguard", puts, pause)


def rows(clients: Clients) -> list[str]:
    return sorted(item["sk"]["S"] for item in clients.dynamodb.scan(TableName="flowguard")["Items"])


def test_25_rows_are_a_call(clients: Clients) -> None:
    with intercept(Recorder()) as calls:
        assert written(clients, 60) == 0
    assert [len(call.params["RequestItems"]["flowguard"]) for call in calls.calls] == [25, 25, 10]
    assert rows(clients) == [f"{row:02}" for row in range(60)]


def test_no_rows_are_no_call(clients: Clients) -> None:
    with intercept(Recorder()) as calls:
        assert written(clients, 0) == 0
    assert calls.calls == []


def test_rows_that_are_left_are_written_again(clients: Clients) -> None:
    pauses: list[float] = []
    with intercept(Unprocessed(MOST_TRIES - 1)):
        assert written(clients, 60, pauses) == 0
    assert len(rows(clients)) == 60
    assert pauses == [0.05, 0.1, 0.2, 0.4]


def test_rows_that_are_never_written_are_counted_and_those_after_them_wait(clients: Clients) -> None:
    pauses: list[float] = []
    with intercept(Unprocessed(MOST_TRIES)):
        assert written(clients, 60, pauses) == 3
    assert rows(clients) == [f"{row:02}" for row in range(3, 25)]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8]


def test_rows_of_callers_that_are_never_removed_are_an_error(clients: Clients) -> None:
    callers: Any = aws_store(Settings(), clients).callers
    answered = [Caller(RequestId(f"r{number}"), 1, "sqs:replies") for number in range(2)]
    with (
        intercept(Unprocessed(MOST_TRIES)),
        pytest.raises(RowsLeft, match="2 rows of callers that were answered are still there"),
    ):
        callers._replace(pause=lambda seconds: None).forget("flow", ObjectId("object"), "term", answered)


# -- refusals


class Refusing:
    """Refuses the first calls, so many of them."""

    def __init__(self, times: int, code: str, status: int) -> None:
        self.times, self.code, self.status = times, code, status
        self.calls = 0

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self.calls += 1
        if self.calls > self.times:
            return proceed()
        response: Any = {"Error": {"Code": self.code}, "ResponseMetadata": {"HTTPStatusCode": self.status}}
        raise ClientError(response, call.operation)


@pytest.mark.parametrize(
    ("code", "status"), [("ProvisionedThroughputExceededException", 400), ("InternalServerError", 500)]
)
def test_what_is_refused_for_now_is_written_again(code: str, status: int, clients: Clients) -> None:
    with intercept(Refusing(MOST_TRIES - 1, code, status)) as busy:
        assert written(clients, 2) == 0
    assert (busy.calls, rows(clients)) == (MOST_TRIES, ["00", "01"])
    with intercept(Refusing(MOST_TRIES, code, status)) as busy, pytest.raises(ClientError, match=code):
        written(clients, 2)
    assert busy.calls == MOST_TRIES


def test_what_is_refused_for_good_is_not(clients: Clients) -> None:
    with intercept(Refusing(1, "ValidationException", 400)) as refusing, pytest.raises(ClientError, match="Validation"):
        written(clients, 2)
    assert refusing.calls == 1
