"""Answers and rows in DynamoDB: sizes, S3, what is left unprocessed, and texts that want to break something."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from flowguard.aws.batch_writes import MOST_TRIES
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.aws.waits import DynamoDBWaits
from flowguard.errors import RowsUnwritten, TooLarge
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import AwaitingRow, RunItem
from flowguard.protocol.waiting import EarlyAnswer, GivenAnswer
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from tests.aws import states
from tests.aws.engines import on_memory
from tests.aws.test_batch_writes import Unprocessed

NOW_MS = 1_800_000_000_000
KEY = {"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}}


@pytest.fixture
def clients() -> Iterator[Clients]:
    with on_memory() as found:
        yield found


def waits(clients: Clients, bucket: str | None = None) -> DynamoDBWaits:
    waits = aws_store(Settings(bucket=bucket), clients).waits
    return waits._replace(calls=waits.calls._replace(pause=lambda seconds: None))


def address(name: str = "a", **about: Any) -> AnswerAddress:
    known = AnswerAddress("flow", ObjectId("object"), RequestId(states.STORED[1]), states.STORED[0], 1, name)
    return known._replace(**about)


def lay_out(clients: Clients, **about: Any) -> None:
    item = states.item(1, "waiting", (0, 0), "over", "other", states.wait(**about))
    clients.dynamodb.put_item(TableName="flowguard", Item=item)


def stored(clients: Clients) -> RunItem:
    found = aws_store(Settings(), clients).read("flow", ObjectId("object"))
    assert found is not None
    return found


@functools.cache
def noise(length: int, seed: int = 1) -> str:
    return '"' + "".join(random.Random(seed).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=length)) + '"'


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_each_answer_takes_its_room_and_the_last_one_goes_to_s3(clients: Clients) -> None:
    lay_out(clients, waiting=("a", "b", "c"), room=2_000)
    store = waits(clients, "long-texts")
    for name in "abc":
        store.settle(address(name), GivenAnswer(noise(1_000, ord(name))))
    item = stored(clients)
    assert item.wait is not None
    assert 0 <= item.wait.room < 700
    assert {name: answer.text for name, answer in item.wait.answers.items()} == {
        name: noise(1_000, ord(name)) for name in "abc"
    }


def test_the_room_is_used_to_its_last_byte(clients: Clients) -> None:
    lay_out(clients, room=10**6)
    store = waits(clients)
    store.settle(address(), GivenAnswer('"x"'))
    item = stored(clients)
    assert item.wait is not None
    size = 10**6 - item.wait.room
    for room, kept in ((size, True), (size - 1, False)):
        lay_out(clients, room=room)
        if kept:
            assert store.settle(address(), GivenAnswer('"x"')).verdict is AnswerVerdict.RESUMED
        else:
            with pytest.raises(TooLarge, match=rf"the answer 'a' is too large: 3 bytes of at most {room}"):
                store.settle(address(), GivenAnswer('"x"'))


def test_an_answer_larger_than_any_item_is_refused_by_name_or_goes_to_s3(clients: Clients) -> None:
    lay_out(clients, room=300_000)
    large = GivenAnswer(noise(900_000))
    with pytest.raises(TooLarge, match="the answer 'a' is too large"):
        waits(clients).settle(address(), large)
    assert waits(clients, "long-texts").settle(address(), large).verdict is AnswerVerdict.RESUMED
    item = stored(clients)
    assert item.wait is not None
    assert item.wait.answers == {"a": large}
    assert waits(clients).settle(address(), large).verdict is AnswerVerdict.DUPLICATE
    assert waits(clients).settle(address(request_id=RequestId("x")), large).verdict is AnswerVerdict.SUPERSEDED


def test_two_answers_to_one_name_never_share_a_text_in_s3(clients: Clients) -> None:
    """The second one is being stored while the first one is kept."""
    lay_out(clients, room=300)
    store = waits(clients, "long-texts")
    first, second = GivenAnswer(noise(1_000, 1)), GivenAnswer(noise(1_000, 2))

    def overtaken(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "PutObject" and not begun:
            begun.append(True)
            assert store.settle(address(), first).verdict is AnswerVerdict.RESUMED
        return proceed()

    begun: list[bool] = []
    with intercept(overtaken):
        assert store.settle(address(), second).verdict is AnswerVerdict.DUPLICATE
    assert begun
    item = stored(clients)
    assert item.wait is not None
    assert item.wait.answers == {"a": first}


def test_a_failure_is_kept_as_one(clients: Clients) -> None:
    lay_out(clients, waiting=("a", "b"), spare=1)
    given = GivenAnswer('{"failed":true,"type":"T","text":"x"}', failed=True)
    settled = waits(clients).settle(address(), given)
    assert settled.verdict is AnswerVerdict.RECORDED
    item = stored(clients)
    assert item.wait is not None
    assert (item.wait.answers, item.wait.spare) == ({"a": given}, 0)


def test_an_answer_costs_one_call_and_no_read(clients: Clients) -> None:
    for verdict in (AnswerVerdict.RESUMED, AnswerVerdict.DUPLICATE):
        if verdict is AnswerVerdict.RESUMED:
            lay_out(clients)
        with intercept(Recorder()) as calls:
            assert waits(clients).settle(address(), GivenAnswer("1")).verdict is verdict
        assert [call.operation for call in calls.calls] == ["UpdateItem"]


@pytest.mark.parametrize("name", ["a.b", "#a", ":a", "a b", "é", "size", "x" * 64, '"'])
def test_a_name_is_never_part_of_an_expression(name: str, clients: Clients) -> None:
    lay_out(clients, waiting=(name,))
    assert waits(clients).settle(address(name), GivenAnswer("1")).verdict is AnswerVerdict.RESUMED
    item = stored(clients)
    assert item.wait is not None
    assert item.wait.answers == {name: GivenAnswer("1")}


# -- rows --------------------------------------------------------------------------------------------------------------


def rows(count: int, name: str = "n") -> list[AwaitingRow]:
    return [AwaitingRow("paid", address(f"{name}{number}"), "begin", NOW_MS) for number in range(count)]


def test_rows_are_written_25_at_a_time_and_found_by_their_id(clients: Clients) -> None:
    store, many = waits(clients), rows(60)
    with intercept(Recorder()) as calls:
        store.save(many)
    assert [call.operation for call in calls.calls] == ["BatchWriteItem"] * 3
    assert sorted(store.waiting_for("flow", "paid")) == sorted(many)
    assert list(store.waiting_for("flow", "other")) == []
    assert list(store.waiting_for("other", "paid")) == []


def test_a_row_is_one_however_often_it_is_written(clients: Clients) -> None:
    store = waits(clients)
    store.save([])
    store.save(rows(2))
    store.save(rows(2))
    assert len(list(store.waiting_for("flow", "paid"))) == 2
    (item, _) = clients.dynamodb.scan(TableName="flowguard")["Items"]
    assert item["ttl"]["N"] == str(NOW_MS // 1000)


def test_a_row_says_all_that_an_answer_needs(clients: Clients) -> None:
    store = waits(clients)
    whole = address("é😀", object_id=ObjectId("o#1\n"), request_id=RequestId("r" * 1_024), hop=7)
    row = AwaitingRow("paid#é", whole, "begin", NOW_MS)
    store.save([row])
    assert list(store.waiting_for("flow", "paid#é")) == [row]


@pytest.mark.parametrize("others", [("stage-1",), ("stage-3",), ("stage-1", "stage-3")])
def test_of_the_rows_of_several_stages_that_of_the_committed_attempt_is_found(
    others: tuple[str, ...], clients: Clients
) -> None:
    store, row = waits(clients), AwaitingRow("paid", address(), "stage-2", NOW_MS)
    lay_out(clients)
    store.save([row, *(row._replace(stage=stage) for stage in others)])
    store.save([row._replace(expires_at=NOW_MS + 1_000), row._replace(expires_at=NOW_MS - 1_000)])
    with intercept(Recorder()) as calls:
        assert list(store.waiting_for("flow", "paid")) == [row._replace(expires_at=NOW_MS + 1_000)]
    assert [call.operation for call in calls.calls] == ["Query", "GetItem"]


def test_a_row_alone_is_found_without_its_run(clients: Clients) -> None:
    store = waits(clients)
    store.save(rows(2))
    with intercept(Recorder()) as calls:
        assert len(list(store.waiting_for("flow", "paid"))) == 2
    assert [call.operation for call in calls.calls] == ["Query"]


@pytest.mark.parametrize("is_there", [False, True])
def test_of_rows_for_no_run_that_waits_one_is_found(is_there: bool, clients: Clients) -> None:
    store, row = waits(clients), AwaitingRow("paid", address(), "a", NOW_MS)
    if is_there:
        item = states.item(2, "running", (0, 0), "over", "other", None)
        clients.dynamodb.put_item(TableName="flowguard", Item=item)
    store.save([row._replace(stage=each) for each in "abc"])
    assert list(store.waiting_for("flow", "paid")) == [row._replace(stage="c")]


def test_many_rows_are_read_page_by_page(clients: Clients) -> None:
    store = waits(clients)
    store.save(rows(50))

    def shorter(call: ApiCall, proceed: Proceed) -> Response:
        params: Any = call.params
        params["Limit"] = 20
        pages.append(call.params["ConsistentRead"])
        return proceed()

    pages: list[bool] = []
    with intercept(shorter):
        assert len(list(islice(store.waiting_for("flow", "paid"), 51))) == 50
    assert pages == [True] * 3


def test_rows_that_are_never_written_are_an_error(clients: Clients) -> None:
    with (
        intercept(Unprocessed(MOST_TRIES)),
        pytest.raises(RowsUnwritten, match="3 rows of what is awaited were not written; the hop is tried again"),
    ):
        waits(clients).save(rows(20))


# -- answers that come before their wait -------------------------------------------------------------------------------


def test_an_early_answer_of_any_size_is_kept_or_refused_by_name(clients: Clients) -> None:
    large = GivenAnswer(noise(900_000), failed=True)
    with pytest.raises(TooLarge, match="the answer for 'paid' is too large"):
        waits(clients).keep_early("flow", "paid", large, now=NOW_MS, expires_at=NOW_MS + 1_000)
    assert waits(clients).early("flow", "paid", NOW_MS) is None
    store = waits(clients, "long-texts")
    store.keep_early("flow", "paid", large, now=NOW_MS, expires_at=NOW_MS + 1_000)
    assert store.early("flow", "paid", NOW_MS) == EarlyAnswer(large)
    store.keep_early("flow", "paid", GivenAnswer(noise(900_000, 2)), now=NOW_MS, expires_at=NOW_MS + 1_000)
    assert store.early("flow", "paid", NOW_MS) == EarlyAnswer(large), "a copy changes nothing"


def test_an_early_answer_lives_as_long_as_it_says_and_is_no_row(clients: Clients) -> None:
    store = waits(clients)
    store.save(rows(1))
    store.keep_early("flow", "paid", GivenAnswer("1"), now=NOW_MS, expires_at=NOW_MS + 1_000)
    assert len(list(store.waiting_for("flow", "paid"))) == 1
    found: Any = clients.dynamodb.get_item(
        TableName="flowguard", Key={"pk": {"S": "wait#flow#paid"}, "sk": {"S": "early"}}
    )
    assert found["Item"]["ttl"] == {"N": str(NOW_MS // 1000 + 1)}
    assert store.early("flow", "other", NOW_MS) is None
    assert store.early("other", "paid", NOW_MS) is None
