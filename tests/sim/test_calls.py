"""The hook at the API call."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient

from flowguard.sim.calls import ApiCall, Interceptor, Proceed, Recorder, Response, intercept, one_at_a_time


@pytest.fixture
def client() -> Any:
    """A real client that never reaches the network: its answer is made where the request would be sent."""
    client = boto3.client("dynamodb", region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret")
    client.meta.events.register("before-send", answer)
    return client


def answer(**_: Any) -> Any:
    return _Answer()


class _Answer:
    status_code = 200
    headers: dict[str, str] = {}  # noqa: RUF012
    content = b'{"TableNames": ["real"]}'
    raw = None


def naming(name: str, seen: list[str]) -> Interceptor:
    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        seen.append(f"{name} {call.number}")
        answer = proceed()
        seen.append(f"{name} done")
        return answer

    return interceptor


def test_a_call_is_seen_with_service_operation_and_parameters(client: Any) -> None:
    with intercept(Recorder()) as recorder:
        client.list_tables(Limit=7)
    assert recorder.calls == [ApiCall("dynamodb", "ListTables", {"Limit": 7}, 1, client)]


def test_the_real_answer_comes_back_through_the_interceptor(client: Any) -> None:
    with intercept(Recorder()):
        assert client.list_tables()["TableNames"] == ["real"]


def test_an_interceptor_may_answer_without_making_the_call(client: Any) -> None:
    with intercept(Recorder()) as made, intercept(lambda call, proceed: {"TableNames": ["invented"]}):
        assert client.list_tables()["TableNames"] == ["invented"]
    assert made.count() == 1


def test_an_interceptor_may_make_the_call_twice(client: Any) -> None:
    def twice(_: ApiCall, proceed: Proceed) -> Response:
        proceed()
        return proceed()

    with intercept(twice), intercept(Recorder()) as inner:
        client.list_tables()
    assert [call.number for call in inner.calls] == [1, 2]


def test_an_interceptor_may_lose_the_answer_of_a_call_that_was_made(client: Any) -> None:
    def lose(_: ApiCall, proceed: Proceed) -> Response:
        proceed()
        raise ConnectionError("the answer is lost")

    with intercept(lose), intercept(Recorder()) as inner, pytest.raises(ConnectionError, match="lost"):
        client.list_tables()
    assert inner.count("dynamodb", "ListTables") == 1


def test_the_outer_interceptor_comes_first(client: Any) -> None:
    seen: list[str] = []
    with intercept(naming("outer", seen)), intercept(naming("inner", seen)):
        client.list_tables()
    assert seen == ["outer 1", "inner 1", "inner done", "outer done"]


def test_an_innermost_interceptor_stays_next_to_the_call_whatever_is_nested_in_it(client: Any) -> None:
    seen: list[str] = []
    with intercept(naming("lock", seen), innermost=True), intercept(naming("nested", seen)):
        client.list_tables()
    assert seen == ["nested 1", "lock 1", "lock done", "nested done"]


def test_each_interceptor_counts_what_it_has_seen_itself(client: Any) -> None:
    with intercept(Recorder()) as outer:
        client.list_tables()
        with intercept(Recorder()) as inner:
            client.list_tables()
    assert [call.number for call in outer.calls] == [1, 2]
    assert [call.number for call in inner.calls] == [1]


def test_the_same_interceptor_may_stand_in_two_nested_blocks(client: Any) -> None:
    recorder = Recorder()
    with intercept(recorder), intercept(recorder):
        client.list_tables()
    with intercept(recorder):
        client.list_tables()
    assert recorder.count() == 3


def test_botocore_is_as_it_was_after_the_last_block(client: Any) -> None:
    original = BaseClient.__dict__["_make_api_call"]
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError), intercept(recorder), intercept(Recorder()):
        _ = 1 / 0
    client.list_tables()
    assert BaseClient.__dict__["_make_api_call"] is original
    assert recorder.calls == []


def test_a_recorder_counts_by_service_and_operation(client: Any) -> None:
    with intercept(Recorder()) as recorder:
        client.list_tables()
        client.list_tables()
        client.describe_limits()
    assert recorder.count() == 3
    assert recorder.count("dynamodb") == 3
    assert recorder.count("sqs") == 0
    assert recorder.count("dynamodb", "ListTables") == 2
    assert recorder.count(operation="DescribeLimits") == 1


def test_a_paginator_s_calls_are_seen(client: Any) -> None:
    with intercept(Recorder()) as recorder:
        list(client.get_paginator("list_tables").paginate())
    assert recorder.count("dynamodb", "ListTables") == 1


# -- one at a time ----------------------------------------------------------------------------------------------------


class Crossing:
    """A place where two calls at the same time are noticed. It gives way to other threads while a call is inside."""

    def __init__(self) -> None:
        self.collisions = 0
        self._inside = threading.Lock()

    def __call__(self, **_: Any) -> None:
        if not self._inside.acquire(blocking=False):
            self.collisions += 1
            return
        for _attempt in range(50):
            time.sleep(0)
        self._inside.release()


@pytest.fixture
def crossing(client: Any) -> Iterator[Crossing]:
    crossing = Crossing()
    client.meta.events.register_first("before-send", crossing)
    yield crossing
    client.meta.events.unregister("before-send", crossing)


def call_from_eight_threads(client: Any) -> None:
    with ThreadPoolExecutor(8) as threads:
        for call in [threads.submit(client.list_tables) for _ in range(80)]:
            call.result()


def test_calls_of_many_threads_are_made_one_at_a_time(client: Any, crossing: Crossing) -> None:
    with intercept(one_at_a_time(), innermost=True), intercept(Recorder()) as recorder:
        call_from_eight_threads(client)
    assert crossing.collisions == 0
    assert sorted(call.number for call in recorder.calls) == list(range(1, 81))


def test_without_the_lock_they_meet(client: Any, crossing: Crossing) -> None:
    call_from_eight_threads(client)
    assert crossing.collisions > 0


def test_a_call_that_an_interceptor_holds_up_does_not_hold_the_lock(client: Any) -> None:
    both_wait = threading.Barrier(2, timeout=10)

    def meet(_: ApiCall, proceed: Proceed) -> Response:
        both_wait.wait()
        return proceed()

    with intercept(one_at_a_time(), innermost=True), intercept(meet), ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(client.list_tables) for _ in range(2)]
        assert [answer.result()["TableNames"] for answer in answers] == [["real"], ["real"]]
