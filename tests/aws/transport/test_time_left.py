"""Calls wait no longer than the invocation lasts that makes them."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from contextlib import suppress
from contextvars import copy_context
from math import inf
from typing import Any, Final

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError

from flowguard import Done, Flow, Outcome, Settings, Stage, Step
from flowguard.aws.services import aws_services
from flowguard.aws.transport import json_client
from flowguard.aws.transport.connections import Connections
from flowguard.aws.transport.time_left import KEPT_MS, LEAST_SECONDS, seconds_left, within
from flowguard.callback_function import callback_handler
from flowguard.errors import NotProcessed
from flowguard.handler import lambda_handler
from flowguard.testing import batch, sqs_event
from tests.aws.transport.clients import KEYS, REGION, LeanClients, lean
from tests.aws.transport.served import Reply, answer, served
from tests.scene import record, scene

KEY: Final = {"pk": {"S": "a"}}
BUSY: Final = Reply(answer(500, {"__type": "#InternalServerError"}))
SILENT: Final = Reply(b"", "close", held=True)


class Context:
    """What Lambda hands over, of an invocation that has 5 s left for calls."""

    aws_request_id = "an-invocation"

    def get_remaining_time_in_millis(self) -> int:
        return 5_000 + KEPT_MS


@pytest.mark.parametrize(
    ("left", "expected"),
    [(None, inf), (900_000, 899.2), (KEPT_MS + 250, 0.25), (KEPT_MS + 100, LEAST_SECONDS), (0, LEAST_SECONDS)],
)
def test_what_is_left_is_without_what_the_worker_needs_and_never_nothing(left: int | None, expected: float) -> None:
    with within(lambda: left):
        assert seconds_left() == expected
        assert copy_context().run(seconds_left) == expected
    assert seconds_left() == inf


def test_it_ends_with_an_error_too() -> None:
    with suppress(ZeroDivisionError), within(lambda: 0):
        raise ZeroDivisionError
    assert seconds_left() == inf


def test_a_function_tells_its_calls() -> None:
    seen: list[float] = []
    with scene() as at:
        handler = lambda_handler(at.flow, observers=[lambda _: seen.append(seconds_left())])
        handler.using(at.handler._services)({"Records": [record(at.message())]}, Context())
    assert set(seen) == {5.0}
    assert seconds_left() == inf


@pytest.mark.parametrize("event", [{"Records": [{}]}, {"httpMethod": "GET", "path": "/no-token"}])
def test_a_function_of_answers_tells_its_calls(event: Any) -> None:
    seen: list[float] = []
    with scene() as at:
        handler = callback_handler(at.flow, observers=[lambda _: seen.append(seconds_left())])
        with suppress(NotProcessed):
            handler.using(at.handler._services)(event, Context())
    assert set(seen) == {5.0}


# -- what calls do with it


def get_item(client: Any) -> Any:
    return client.get_item(TableName="t", Key=KEY)


def test_no_try_begins_after_the_end() -> None:
    with served(BUSY) as server, pytest.raises(ClientError, match="InternalServerError") as raised:
        get_item(lean("dynamodb", server.url, left=lambda: 9.0 if len(server.requests) < 2 else 0.0))
    assert len(server.requests) == 2
    metadata: Any = raised.value.response["ResponseMetadata"]
    assert metadata["RetryAttempts"] == 1
    assert "MaxAttemptsReached" not in metadata


@pytest.mark.parametrize("remaining", [500, 300, 0, -1_000])
def test_a_service_that_is_silent_near_the_end_is_asked_once(remaining: int) -> None:
    """Each call gets a moment in any case. Four of them would last for longer than the function."""
    with served(SILENT) as server, within(lambda: remaining), pytest.raises(ReadTimeoutError):
        get_item(lean("dynamodb", server.url))
    assert len(server.requests) == 1


def test_a_pause_that_takes_all_that_is_left_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_client, "delay", lambda *_: 0.5)
    with served(BUSY) as server, pytest.raises(ClientError):
        get_item(lean("dynamodb", server.url, left=lambda: 0.5))
    assert len(server.requests) == 1


def test_a_call_that_fails_at_the_end_costs_no_quota() -> None:
    with served(BUSY) as server:
        client: Any = lean("dynamodb", server.url, left=lambda: 0.0)
        with pytest.raises(BotoCoreError):
            get_item(client)
        client = lean("dynamodb", server.url, left=lambda: 0.001)
        with suppress(BotoCoreError, ClientError):
            get_item(client)
        assert client._quota.left >= 486


def test_an_answer_is_waited_for_no_longer() -> None:
    with served(SILENT) as server:
        connections, begun = Connections(server.url), time.monotonic()
        with pytest.raises(ReadTimeoutError):
            connections.exchange(b"POST / HTTP/1.1\r\n\r\n", 0.05)
        assert time.monotonic() - begun < 2


class Endless:
    """A server that sends the same bytes again and again, after those that an answer begins with."""

    def __init__(self, begun: bytes, again: bytes) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._begun, self._again = begun, again
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError), self._server, self._server.accept()[0] as accepted:
            accepted.recv(65_536)
            accepted.sendall(self._begun)
            while True:
                accepted.sendall(self._again)


@pytest.mark.parametrize(
    ("begun", "again"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", b" " * 9_999),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 999999999\r\n\r\n", b" " * 9_999),
        (b"HTTP/1.1 200 OK\r\n", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["a body", "a body of another form", "a head", "interim answers"],
)
def test_an_answer_in_pieces_is_waited_for_no_longer(begun: bytes, again: bytes) -> None:
    """Each look at the clock takes a second, and there are two before anything is received."""
    moments = itertools.count()
    connections = Connections(Endless(begun, again).url, clock=lambda: float(next(moments)))
    with pytest.raises(ReadTimeoutError):
        connections.exchange(b"POST / HTTP/1.1\r\n\r\n", 8.0)
    assert next(moments) < 12


def test_a_request_that_nobody_reads_is_sent_no_longer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url, begun = f"http://127.0.0.1:{server.getsockname()[1]}", time.monotonic()
        with pytest.raises(ReadTimeoutError):
            Connections(url).exchange(b"x" * 50_000_000, 0.2)
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_nothing_is_sent_when_no_time_is_left(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(connection: socket.socket, request: bytes) -> None:
        raise AssertionError("it was sent")

    with served(Reply(answer(200, {}))) as server:
        connections = Connections(server.url, clock=lambda: 5.0)
        connections.open()
        monkeypatch.setattr(socket.socket, "sendall", send)
        with pytest.raises(ReadTimeoutError):
            connections.exchange(b"POST / HTTP/1.1\r\n\r\n", seconds)
    assert server.requests == []


def test_the_next_call_of_a_connection_may_wait_as_usual() -> None:
    with served(Reply(answer(200, {}))) as server:
        connections = Connections(server.url, read_seconds=7)
        for seconds, expected in ((0.5, 0.5), (inf, 7), (9, 7)):
            connections.exchange(b"POST / HTTP/1.1\r\n\r\n", seconds)
            assert connections._kept[-1].connection.gettimeout() == pytest.approx(expected, abs=0.4)


# -- what is kept


URL: Final = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"
TAKEN: Final = {"Successful": [{"Id": "0"}, {"Id": "1"}], "Failed": []}


class Price(Stage[dict[str, Any]], name="price"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Price,)


class Ending:
    """An invocation that ends at a moment, with a quarter of a second for calls that hang."""

    aws_request_id = "an-invocation"

    def __init__(self) -> None:
        self._ends = time.monotonic() + KEPT_MS / 1_000 + 0.25

    def get_remaining_time_in_millis(self) -> int:
        return round((self._ends - time.monotonic()) * 1_000)


@pytest.mark.parametrize("answered", [0, 1], ids=["its claim", "its commit, and the release after it"])
def test_after_a_wait_that_ended_at_its_limit_all_records_are_hidden(answered: int) -> None:
    """The name of their queue is looked up for that, over a connection that is not open yet."""
    queue = Reply(answer(200, {"QueueUrl": URL})), Reply(answer(200, TAKEN))
    with served(*[Reply(answer(200, {}))] * answered, SILENT) as dynamodb, served(*queue) as sqs:
        clients = LeanClients(KEYS, REGION, {"dynamodb": dynamodb.url, "sqs": sqs.url})
        handler = lambda_handler(Orders).using(aws_services(Settings(), clients))
        context = Ending()
        event = batch(*(sqs_event("orders", {"order_id": name}, message_id=name) for name in ("o1", "o2")))
        for each in event["Records"]:
            each["receiptHandle"] = "a-handle"
        failures = handler(event, context)["batchItemFailures"]
        assert len(failures) == 2
        assert context.get_remaining_time_in_millis() > 0
    assert len(dynamodb.requests) == (3 if answered else 1)
    targets = [request.headers["x-amz-target"] for request in sqs.requests]
    assert targets == ["AmazonSQS.GetQueueUrl", "AmazonSQS.ChangeMessageVisibilityBatch"]
    assert len(json.loads(sqs.requests[1].body)["Entries"]) == 2


# -- a connection that cannot be made


class Dialled:
    """Stands for the addresses of a service, none of which answers: a wait for each is noted, and passes at once."""

    def __init__(self, addresses: int = 3) -> None:
        self.now = 1_000.0
        self.waits: list[float] = []
        self._addresses = [(None, None, 0, "", (f"192.0.2.{n}", 443, 0, 0)) for n in range(addresses)]

    def clock(self) -> float:
        return self.now

    def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        return self._addresses

    def create_connection(self, address: Any, seconds: float) -> Any:
        assert len(address) == 2
        self.waits.append(seconds)
        self.now += seconds
        raise TimeoutError("timed out")


@pytest.mark.parametrize(
    ("seconds", "waits"), [(1.0, [1.0]), (2.0, [2.0]), (3.0, [2.0, 1.0]), (60.0, [2.0] * 3), (0.0, [])]
)
def test_all_addresses_together_take_no_longer(
    seconds: float, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, as sockets try them, they would take 2 s each."""
    dialled = Dialled()
    monkeypatch.setattr("socket.getaddrinfo", dialled.getaddrinfo)
    monkeypatch.setattr("socket.create_connection", dialled.create_connection)
    with pytest.raises(ConnectTimeoutError):
        Connections("https://x.test", clock=dialled.clock).open(seconds)
    assert dialled.waits == waits


def test_a_clock_that_has_passed_the_end_leaves_a_moment_for_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that may wait for nothing is one that does not block, and its handshake fails at once."""
    times = iter([0.0, 0.0])
    with served(Reply(answer(200, {}))) as server:
        waits: list[float] = []
        dial = socket.create_connection

        def noted(address: tuple[str, int], seconds: float) -> socket.socket:
            waits.append(seconds)
            return dial(address, 5)

        monkeypatch.setattr("socket.create_connection", noted)
        Connections(server.url, clock=lambda: next(times, 9.0)).open(1.0)
    assert waits == [0.01]


def test_an_address_with_a_mistake_in_it_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled: list[Any] = []

    def broken(address: Any, _: float) -> Any:
        dialled.append(address)
        raise ZeroDivisionError

    monkeypatch.setattr("socket.getaddrinfo", Dialled().getaddrinfo)
    monkeypatch.setattr("socket.create_connection", broken)
    with pytest.raises(ZeroDivisionError):
        Connections("http://x.test").open(1.0)
    assert len(dialled) == 1


def test_a_function_waits_a_second_for_its_first_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = lean("dynamodb", "https://x.test")
    waits: list[float] = []
    monkeypatch.setattr(client._place.connections, "open", waits.append)
    client.connect()
    assert waits == [1.0]


def test_the_first_address_that_answers_is_taken() -> None:
    with served(Reply(answer(200, {}))) as server:
        connections = Connections(server.url.replace("127.0.0.1", "localhost"))
        connections.open(5.0)
        assert connections.exchange(b"POST / HTTP/1.1\r\n\r\n", 5.0).status == 200


def test_a_handshake_takes_no_longer_either() -> None:
    times = iter([0.0, 0.0, 0.0])  # all is used up once the service is reached
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url, begun = f"https://127.0.0.1:{silent.getsockname()[1]}", time.monotonic()
        with pytest.raises(ReadTimeoutError):
            Connections(url, connect_seconds=9, clock=lambda: next(times, 9.0)).open(9.0)
        assert time.monotonic() - begun < 5
