"""Calls that botocore makes end before the invocation does, and are as they were outside one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import botocore.endpoint
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, ReadTimeoutError

from flowguard.aws.botocore_clients import BotocoreClients
from flowguard.aws.botocore_time import _refuse_late
from flowguard.aws.transport.time_left import KEPT_MS, LEAST_SECONDS, within
from tests.aws.transport.clients import session
from tests.aws.transport.served import Reply, served

SILENT: Final = Reply(b"", "close", held=True)
TOPIC: Final = "arn:aws:sns:eu-west-1:123456789012:t"
CALLS: Final[dict[str, Callable[[Any], Any]]] = {
    "dynamodb": lambda client: client.get_item(TableName="t", Key={"pk": {"S": "a"}}),
    "events": lambda client: client.put_events(Entries=[{"Detail": "{}"}]),
    "kms": lambda client: client.generate_data_key(KeyId="alias/x", KeySpec="AES_256"),
    "lambda": lambda client: client.invoke(FunctionName="f"),
    "s3": lambda client: client.put_object(Bucket="b", Key="k", Body=b"x"),
    "scheduler": lambda client: client.list_schedules(),
    "secretsmanager": lambda client: client.get_secret_value(SecretId="s"),
    "sns": lambda client: client.publish(TopicArn=TOPIC, Message="x"),
    "sqs": lambda client: client.get_queue_url(QueueName="q"),
    "ssm": lambda client: client.get_parameter(Name="p"),
}
"""A call of each service that flowguard calls."""


def botocores(service: str, url: str = "http://127.0.0.1:9", *, once: bool = False) -> Any:
    return BotocoreClients(session()).client(service, url, once=once)


@pytest.mark.parametrize("service", CALLS)
@pytest.mark.parametrize("remaining", [KEPT_MS + 250, 0, -1_000])
def test_a_service_that_is_silent_near_the_end_is_asked_once_and_waited_for_no_longer(
    service: str, remaining: int
) -> None:
    """Four tries of five seconds would last for longer than most functions."""
    with served(SILENT) as server, within(lambda: remaining):
        client = botocores(service, server.url)
        begun = time.monotonic()
        with pytest.raises(ReadTimeoutError):
            CALLS[service](client)
    assert time.monotonic() - begun < 0.9
    assert len(server.requests) == 1


class Answered:
    """Answers each try with an error, after as long as a test says. Notes the time-outs and the pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, client: Any, *, took: float, status: int = 500) -> None:
        self.now, self.waits, self.pauses, self.headers = 100.0, list[Any](), list[float](), dict[str, str]()
        self._took, self._status = took, status
        monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=self._pause))
        monkeypatch.setattr("flowguard.aws.botocore_time.time", SimpleNamespace(monotonic=lambda: self.now))
        client.meta.events.register("before-send", self._answer)

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def _answer(self, request: Any, **_: Any) -> Any:
        self.waits.append(request.context.get("read_timeout"))
        self.now += self._took
        headers: Any = self.headers
        no_stream = None
        answer: Any = AWSResponse(request.url, self._status, headers, no_stream)
        answer._content = b'{"__type": "InternalServerError"}'
        return answer

    def within(self, seconds: float) -> within:
        """An invocation that has so many seconds for its calls."""
        ends = self.now + seconds
        return within(lambda: round((ends - self.now) * 1_000) + KEPT_MS)


def _with_kept(left: int | None) -> int | None:
    return None if left is None else left + KEPT_MS


@pytest.mark.parametrize("once", [False, True])
def test_outside_an_invocation_calls_are_as_they_were(monkeypatch: pytest.MonkeyPatch, once: bool) -> None:
    client = botocores("dynamodb", once=once)
    answered = Answered(monkeypatch, client, took=600.0)
    with pytest.raises(ClientError):
        CALLS["dynamodb"](client)
    assert answered.waits == [None] * (1 if once else 4)
    with within(lambda: None), pytest.raises(ClientError):
        CALLS["dynamodb"](client)
    assert set(answered.waits) == {None}


@pytest.mark.parametrize(
    ("seconds", "took", "waits"),
    [
        (600.0, 5.0, [5.0, 5.0, 5.0, 5.0]),
        (10.9, 5.0, [5.0]),  # a pause of a second at most, and another try like that, would need six
        (11.1, 5.0, [5.0, pytest.approx(5.0)]),
        (9.1, 4.0, [5.0, pytest.approx(4.6, abs=0.5)]),
        (1.3, 0.0, [1.3, pytest.approx(0.8, abs=0.5)]),
        (1.1, 0.0, [1.1]),  # a try takes a moment in any case
        (0.0, 0.0, [LEAST_SECONDS]),
        (-9.0, 0.0, [LEAST_SECONDS]),
    ],
)
def test_a_try_begins_if_the_last_ones_time_is_left_and_waits_for_no_longer(
    monkeypatch: pytest.MonkeyPatch, seconds: float, took: float, waits: list[Any]
) -> None:
    client = botocores("kms")
    answered = Answered(monkeypatch, client, took=took)
    with answered.within(seconds), pytest.raises(ClientError):
        CALLS["kms"](client)
    assert answered.waits == waits
    assert answered.now <= 100 + max(seconds, took)


@pytest.mark.parametrize(("after", "refused"), [(1, 22.0), (2, 23.0), (3, 25.0), (5, 37.0), (6, 41.0), (9, 41.0)])
def test_a_pause_of_botocore_is_twenty_seconds_at_most(
    monkeypatch: pytest.MonkeyPatch, after: int, refused: float
) -> None:
    """Exactly the time that another try would take is too little."""
    monkeypatch.setattr("flowguard.aws.botocore_time.time", SimpleNamespace(monotonic=lambda: 121.0))
    request = {"context": {"flowguard_began": 100.0}}
    for left, answer in ((refused, False), (refused + 0.5, None)):
        monkeypatch.setattr("flowguard.aws.botocore_time.seconds_left", partial(float, left))
        assert _refuse_late(attempts=after, request_dict=request, response=None) is answer


def test_what_it_took_to_sign_is_no_longer_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of a container are renewed for that."""

    def sign(**_: Any) -> None:
        answered.now += 1.0

    client = botocores("kms")
    answered = Answered(monkeypatch, client, took=0.0, status=400)
    client.meta.events.register("request-created.kms", sign)
    with answered.within(3.0), pytest.raises(ClientError):
        CALLS["kms"](client)
    assert answered.waits == [2.0]


def test_a_service_may_ask_for_a_longer_pause_than_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    client = botocores("kms")
    answered = Answered(monkeypatch, client, took=0.0)
    answered.headers["x-amz-retry-after"] = "5000"
    with answered.within(5.5), pytest.raises(ClientError):
        CALLS["kms"](client)
    assert answered.pauses == []
    with answered.within(6.5), pytest.raises(ClientError):
        CALLS["kms"](client)
    assert len(answered.pauses) == 1


@pytest.mark.parametrize(("seconds", "asks"), [(None, True), (6.0, True), (5.9, False), (0.0, False)])
def test_s3_is_not_asked_first_whether_it_takes_an_object_where_that_second_is_missing(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None, asks: bool
) -> None:
    """botocore waits for that in its own way, and no time-out of a request cuts it."""
    client = botocores("s3")
    Answered(monkeypatch, client, took=0.0, status=400)
    asked: list[bool] = []
    client.meta.events.register_first("before-send", lambda request, **_: asked.append("Expect" in request.headers))
    left = None if seconds is None else round(seconds * 1_000)
    with within(partial(_with_kept, left)), pytest.raises(ClientError):
        CALLS["s3"](client)
    assert asked == [asks]


def test_what_is_left_is_asked_at_each_try_and_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    client = botocores("kms")
    answered = Answered(monkeypatch, client, took=0.0, status=400)
    for left, expected in ((1_000, 1.0), (None, None), (3_000, 3.0)):
        with within(partial(_with_kept, left)), pytest.raises(ClientError):
            CALLS["kms"](client)
        assert answered.waits[-1] == expected


def test_other_clients_of_a_session_that_was_handed_in_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    its_own = session()
    BotocoreClients(its_own).client("kms")
    theirs: Any = its_own.client("kms")
    answered = Answered(monkeypatch, theirs, took=0.0, status=400)
    with answered.within(1.0), pytest.raises(ClientError):
        CALLS["kms"](theirs)
    assert answered.waits == [None]
