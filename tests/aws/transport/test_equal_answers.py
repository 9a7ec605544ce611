"""Whatever a service answers, or fails to answer, both clients return or raise the same."""

from __future__ import annotations

import base64
import functools
import pickle
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from flowguard.aws.botocore_clients import BotocoreClients
from tests.aws.transport.clients import lean, session
from tests.aws.transport.served import Reply, Server, answer, served

DYNAMODB: Final = "com.amazonaws.dynamodb.v20120810"
PATIENCE: Final = 10.0
LITTLE_PATIENCE: Final = 0.3
"""Seconds, where an answer comes and where none does."""

KEY: Final = {"pk": {"S": "run#f#o"}, "sk": {"S": "run"}}
BYTES: Final = base64.b64encode(b"\x00\xff packed").decode()

ITEM: Final = {
    "pk": {"S": "run#f#é\u2028"},
    "packed": {"B": BYTES},
    "several": {"BS": [BYTES, ""]},
    "B": {"M": {"B": {"B": BYTES}, "BS": {"L": [{"B": BYTES}, {"N": "1"}, {"NULL": True}]}, "S": {"S": '"B"'}}},
    "BS": {"S": "a name of bytes"},
    "numbers": {"NS": ["1", "-2.5"]},
    "empty": {"M": {}},
    "no": {"BOOL": False},
}


def failed(status: int, code: str, message: str = "no", *, key: str = "message", **more: Any) -> bytes:
    return answer(status, {"__type": f"{DYNAMODB}#{code}", key: message, **more})


ANSWERS: Final[dict[str, bytes]] = {
    "an item": answer(200, {"Item": ITEM, "ConsumedCapacity": {"TableName": "t", "CapacityUnits": 0.5}}),
    "a set of bytes": answer(200, {"Item": {"several": {"BS": [BYTES]}}}),
    "nothing": answer(200, {}),
    "no checksum": answer(200, {}, {"x-amz-crc32": ""}),
    "no body": answer(200, b""),
    "no request id": answer(200, {}, {"x-amzn-RequestId": ""}),
    "a condition": failed(400, "ConditionalCheckFailedException", Item=ITEM),
    "a condition of nothing": failed(400, "ConditionalCheckFailedException"),
    "a transaction": failed(
        400,
        "TransactionCanceledException",
        "Transaction cancelled, please refer cancellation reasons for specific reasons [None, ConditionalCheckFailed]",
        key="Message",
        CancellationReasons=[{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Message": "failed", "Item": ITEM}],
    ),
    "a conflict": failed(400, "TransactionConflictException"),
    "no table": failed(400, "ResourceNotFoundException", "Requested resource not found"),
    "invalid": answer(400, {"__type": "com.amazon.coral.validate#ValidationException", "message": "One or more"}),
    "a big M": failed(400, "ValidationException", key="Message"),
    "a type with a link": answer(400, {"__type": "ValidationException:http://example.com/x", "message": "no"}),
    "no type": answer(400, {"message": "no"}),
    "no message": answer(400, {"__type": "#ResourceNotFoundException"}),
    "denied": failed(403, "AccessDeniedException", "User is not authorized"),
    "text": answer(403, b"<AccessDenied>"),
    "no body of an error": answer(400, b""),
    "throttled": failed(400, "ThrottlingException", throttlingReasons=[{"reason": "a", "resource": "b"}]),
    "out of units": failed(400, "ProvisionedThroughputExceededException", ThrottlingReasons=[{"reason": "a"}]),
    "a limit": failed(400, "RequestLimitExceeded"),
    "a replica": failed(400, "ReplicatedWriteConflictException"),
    "a server's error": failed(500, "InternalServerError"),
    "a page": answer(503, b"<html><body>busy</body></html>", {"x-amzn-RequestId": ""}),
    "a page with spaces": answer(502, b"  \n<html>", {"x-amzn-RequestId": ""}),
    "no body of a server's error": answer(500, b"", {"x-amzn-RequestId": ""}),
    "other text of a server": answer(504, b"Gateway"),
    "too many": answer(429, b"{}"),
    "too many of a known code": failed(429, "ResourceNotFoundException"),
    "redirected": answer(307, b"{}"),
    "of SQS": answer(
        400,
        {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no such queue"},
        {"x-amzn-query-error": "AWS.SimpleQueueService.NonExistentQueue;Sender"},
    ),
    "of SQS, twice one code": answer(
        400, {"__type": "#InvalidAddress", "message": "m"}, {"x-amzn-query-error": "InvalidAddress;Sender"}
    ),
    "of SQS, without a name": answer(400, {"__type": "#InvalidAddress"}, {"x-amzn-query-error": ";Sender"}),
    "of SQS, half": answer(400, {"__type": "#InvalidSecurity"}, {"x-amzn-query-error": "InvalidSecurity"}),
}

BROKEN: Final[dict[str, Reply]] = {
    "closed at once": Reply(b"", "close"),
    "reset at once": Reply(b"", "reset"),
    "no HTTP": Reply(b"garbage garbage\r\n\r\n", "close"),
    "silent": Reply(b"", "close", held=True),
    "slow in the head": Reply(b"HTTP/1.1 200 OK\r\nContent-Le", "close", held=True),
    "slow in the body": Reply(answer(200, {"Item": ITEM})[:-5], "close", held=True),
    "another checksum": Reply(answer(200, {"Item": ITEM}, {"x-amz-crc32": "1"})),
}


class Saw(NamedTuple):
    """What became of a call."""

    returned: Any = None
    raised: Any = None
    requests: int = 0


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    """One for each client: neither sees what the other sends."""
    with served(Reply(b"")) as ours, served(Reply(b"")) as theirs:
        yield ours, theirs


@functools.cache
def botocores(service: str, url: str, *, once: bool, patience: float) -> Any:
    """Each takes longer to make than all its calls."""
    client = BotocoreClients(session()).client(service, url, once=once)
    client._endpoint.http_session._manager.connection_pool_kw["timeout"]._read = patience
    return client


def saw(server: Server, client: Any, call: Callable[[Any], Any], *replies: Reply) -> Saw:
    server.script(*replies)
    try:
        found = Saw(returned=call(client))
    except ClientError as error:
        found = Saw(raised=(type(error).__name__, str(error), error.response, error.operation_name))
    except BotoCoreError as error:
        found = Saw(raised=(type(error), str(error).replace(server.url, "URL")))
    server.drop()
    return found._replace(requests=len(server.requests))


def both(
    servers: tuple[Server, Server], service: str, *replies: Reply, once: bool = False, patience: float = PATIENCE
) -> tuple[Saw, Saw]:
    """What the lean client and botocore's see of a call."""
    ours, theirs = servers
    client = lean(service, ours.url, once=once, read_seconds=patience)
    found = saw(ours, client, CALLS[service], *replies)
    assert client._made is None, "botocore has made the call"
    return found, saw(theirs, botocores(service, theirs.url, once=once, patience=patience), CALLS[service], *replies)


def get_item(client: Any) -> Any:
    return client.get_item(TableName="flowguard", Key=KEY)


def get_queue_url(client: Any) -> Any:
    return client.get_queue_url(QueueName="orders")


def get_parameter(client: Any) -> Any:
    return client.get_parameter(Name="/keys")


def get_secret_value(client: Any) -> Any:
    return client.get_secret_value(SecretId="keys")


def put_events(client: Any) -> Any:
    return client.put_events(Entries=[{"Source": "a", "DetailType": "b", "Detail": "{}"}])


CALLS: Final = {
    "dynamodb": get_item,
    "sqs": get_queue_url,
    "ssm": get_parameter,
    "secretsmanager": get_secret_value,
    "events": put_events,
}


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore's own pauses, and what its one client has spent on tries. The lean client's are handed to it."""
    monkeypatch.setattr("botocore.retries.quota.RetryQuota.acquire", lambda *_: True)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)


@pytest.mark.slow("asks twice for each answer")
@pytest.mark.parametrize(("service", "once"), [("dynamodb", False), ("dynamodb", True), ("sqs", False)])
@pytest.mark.parametrize("given", ANSWERS)
def test_an_answer_is_the_same(servers: tuple[Server, Server], service: str, once: bool, given: str) -> None:
    if service == "dynamodb" or given not in ("an item", "a set of bytes"):
        ours, theirs = both(servers, service, Reply(ANSWERS[given]), once=once)
        assert ours == theirs


OTHERS: Final[list[tuple[str, bytes]]] = [
    ("ssm", answer(200, {"Parameter": {"Name": "/keys", "Value": "B", "Version": 2, "LastModifiedDate": 1.8e9}})),
    ("ssm", answer(200, {"Parameter": {"Value": "k1:a", "LastModifiedDate": 1_800_000_000.25}})),
    ("ssm", answer(400, {"__type": "ParameterNotFound", "message": "no"})),
    ("ssm", answer(400, {"__type": "InternalServerError", "Message": "no"})),
    ("secretsmanager", answer(200, {"SecretString": "k1:a", "CreatedDate": 1_800_000_000, "VersionStages": ["A"]})),
    ("secretsmanager", answer(200, {"SecretBinary": BYTES, "CreatedDate": 1.8e9})),
    ("secretsmanager", answer(400, {"__type": "ResourceNotFoundException", "Message": "no"})),
    ("secretsmanager", answer(400, {"__type": "#DecryptionFailure", "message": "no"})),
    ("events", answer(200, {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "a", "ErrorMessage": "b"}]})),
    ("events", answer(200, {"FailedEntryCount": 0, "Entries": [{"EventId": "null", "ErrorCode": None}, None]})),
    ("events", answer(500, {"__type": "#InternalException"})),
    ("events", answer(400, {"__type": "ThrottlingException", "message": "no"})),
    ("dynamodb", answer(200, {"Item": None, "ConsumedCapacity": {"TableName": "t", "CapacityUnits": None}})),
    ("dynamodb", answer(200, {"Item": {"packed": {"B": BYTES}, "no": {"NULL": True}}, "ConsumedCapacity": None})),
]


@pytest.mark.parametrize(("service", "given"), OTHERS)
def test_all_other_answers_are_the_same(servers: tuple[Server, Server], service: str, given: bytes) -> None:
    ours, theirs = both(servers, service, Reply(given))
    assert ours == theirs


@pytest.mark.slow("waits for time-outs")
@pytest.mark.parametrize("once", [False, True], ids=["again", "once"])
@pytest.mark.parametrize("given", BROKEN)
def test_what_is_no_answer_is_the_same_error(servers: tuple[Server, Server], once: bool, given: str) -> None:
    ours, theirs = both(servers, "dynamodb", BROKEN[given], once=once, patience=LITTLE_PATIENCE)
    if given != "another checksum":  # botocore takes it, if it comes often enough
        assert ours == theirs
    assert ours.requests == theirs.requests == (1 if once else 4)
    assert ours.returned is None


@pytest.mark.parametrize("given", [*ANSWERS, *BROKEN])
def test_a_failure_is_followed_by_the_answer_of_the_next_try(servers: tuple[Server, Server], given: str) -> None:
    patience = LITTLE_PATIENCE if given in BROKEN else PATIENCE
    first = BROKEN.get(given) or Reply(ANSWERS[given])
    ours, theirs = both(servers, "dynamodb", first, Reply(ANSWERS["an item"]), patience=patience)
    assert ours == theirs


CUT: Final = {
    "a success that is cut within its head": Reply(b"HTTP/1.1 200 OK\r\nContent-Le", "close"),
    "a success that is cut": Reply(answer(200, {"Item": ITEM})[:-5], "close"),
    "a success that is no JSON": Reply(answer(200, b"{not JSON")),
    "a success that is no object": Reply(answer(200, b"[]")),
    "a success that is no UTF-8": Reply(answer(200, b"\xff")),
    "bytes that are none": Reply(answer(200, {"Item": {"a": {"B": "x"}}})),
}


@pytest.mark.parametrize("given", CUT)
def test_a_damaged_success_is_no_answer_where_botocore_may_take_it_for_an_empty_one(given: str) -> None:
    """An item that is not seen would be one that is not there: the call is made again, and fails at last."""
    with served(CUT[given]) as server:
        with pytest.raises(BotoCoreError, match="Connection was closed"):
            get_item(lean("dynamodb", server.url))
        assert len(server.requests) == 4


def test_nobody_else_s_answers_have_a_checksum_of_dynamodbs(servers: tuple[Server, Server]) -> None:
    ours, theirs = both(servers, "sqs", Reply(answer(200, {"QueueUrl": "u"}, {"x-amz-crc32": "1"})))
    assert ours == theirs
    assert ours.returned["QueueUrl"] == "u"


def test_a_status_of_300_is_an_error() -> None:
    with served(Reply(answer(300, {}))) as server, pytest.raises(ClientError, match="300"):
        get_item(lean("dynamodb", server.url))


def test_an_error_can_be_pickled_as_botocores() -> None:
    with served(Reply(ANSWERS["no table"])) as server, pytest.raises(ClientError) as raised:
        get_item(lean("dynamodb", server.url))
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - its own
    assert again.response == raised.value.response


def test_a_time_that_is_no_number_is_damage() -> None:
    """botocore would guess at it. What asks for a secret asks again, and says so at last."""
    with served(Reply(answer(200, {"CreatedDate": "soon"}))) as server, pytest.raises(BotoCoreError):
        lean("secretsmanager", server.url).get_secret_value(SecretId="a")
