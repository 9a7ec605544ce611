"""The lean client sends what botocore sends, tries again as botocore does, and leaves to botocore what it may not."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import formatdate
from functools import partial
from pathlib import Path
from traceback import TracebackException
from typing import Any, Final

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError, ParamValidationError, SSLError

from flowguard.aws.botocore_clients import BotocoreClients
from flowguard.aws.transport.credentials import Credentials
from flowguard.aws.transport.hidden import HiddenBytes, HiddenMap
from flowguard.aws.transport.json_client import DOUBTED, MOST_ATTEMPTS, JSONClient
from flowguard.aws.transport.retries import Quota
from flowguard.aws.transport.services import SERVICES
from flowguard.sim.calls import Recorder, intercept
from tests.aws.transport.clients import KEYS, REGION, lean
from tests.aws.transport.logged import logged
from tests.aws.transport.served import Reply, Request, Server, answer, served

FINE: Final = Reply(answer(200, {}))
BUSY: Final = Reply(answer(500, {"__type": "#InternalServerError"}))
VALUE: Final = {"M": {"é\ud83d": {"L": [{"B": b"\x00\xff"}, {"BS": [b"", b"a"]}, {"BOOL": True}, {"NULL": True}]}}}
KEY: Final = {"pk": {"S": "run#f#\u2028"}, "sk": {"B": b"run"}}
WRITE: Final = {"Update": {"TableName": "t", "Key": KEY, "UpdateExpression": "SET a = b"}}
ENTRY: Final = {
    "Id": "0",
    "MessageBody": "é\x01",
    "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": b"\x00"}},
    "DelaySeconds": 0,
}
URL: Final = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"

CALLS: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("dynamodb", "batch_execute_statement", {"Statements": [{"Statement": "INSERT …", "Parameters": [VALUE]}]}),
    ("dynamodb", "batch_get_item", {"RequestItems": {"t": {"Keys": [KEY], "ConsistentRead": True}}}),
    ("dynamodb", "batch_write_item", {"RequestItems": {"t": [{"PutRequest": {"Item": KEY}}]}}),
    ("dynamodb", "delete_item", {"TableName": "t", "Key": KEY}),
    ("dynamodb", "get_item", {"TableName": "t", "Key": KEY, "ConsistentRead": True}),
    ("dynamodb", "put_item", {"TableName": "t", "Item": {**KEY, "a": VALUE}}),
    ("dynamodb", "query", {"TableName": "t", "Limit": 3, "ExpressionAttributeValues": {":a": VALUE}}),
    ("dynamodb", "transact_write_items", {"TransactItems": [WRITE], "ClientRequestToken": "given"}),
    ("dynamodb", "update_item", {"TableName": "t", "Key": KEY, "ExpressionAttributeNames": {"#a": "é"}}),
    ("sqs", "change_message_visibility", {"QueueUrl": URL, "ReceiptHandle": "r", "VisibilityTimeout": 7}),
    ("sqs", "change_message_visibility_batch", {"QueueUrl": URL, "Entries": [{"Id": "0", "ReceiptHandle": "r"}]}),
    ("sqs", "get_queue_attributes", {"QueueUrl": URL, "AttributeNames": ["QueueArn"]}),
    ("sqs", "get_queue_url", {"QueueName": "orders", "QueueOwnerAWSAccountId": "123456789012"}),
    ("sqs", "send_message_batch", {"QueueUrl": URL, "Entries": [ENTRY]}),
    ("events", "put_events", {"Entries": [{"Source": "é", "DetailType": "a", "Detail": '{"EndpointId": "arn:"}'}]}),
    ("ssm", "get_parameter", {"Name": "/a/é", "WithDecryption": True}),
    ("secretsmanager", "get_secret_value", {"SecretId": "é"}),
]


@pytest.fixture
def server() -> Iterator[Server]:
    with served(FINE) as found:
        yield found


def get_item(client: Any) -> Any:
    return client.get_item(TableName="t", Key=KEY)


def botocores(service: str, url: str) -> Any:
    """The client of botocore that flowguard makes, with the credentials of the environment."""
    return BotocoreClients().client(service, url)


# -- what is sent


@pytest.mark.slow("makes a client of botocore for each call")
@pytest.mark.parametrize(("service", "method", "parameters"), CALLS, ids=[method for _, method, _ in CALLS])
@pytest.mark.parametrize("traced", [False, True])
def test_a_request_is_botocores(
    server: Server, service: str, method: str, parameters: Any, traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME", raising=False)
    for name, key in zip(("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"), KEYS, strict=True):
        monkeypatch.setenv(f"AWS_{name}", str(key))
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5; é\r\n:Parent=2,\"'")
    if traced:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    for client in (lean(service, server.url), botocores(service, server.url)):
        getattr(client, method)(**parameters)
    ours, theirs = server.requests
    assert (ours.line, ours.body) == (theirs.line, theirs.body)
    assert told(ours) == told(theirs)
    assert ("x-amzn-trace-id" in ours.headers) == traced


def test_all_calls_are_compared() -> None:
    for service in SERVICES:
        client: Any = lean(service, "http://x")
        assert sorted(client._service.operations) == sorted(method for name, method, _ in CALLS if name == service)


def told(request: Request) -> dict[str, str]:
    """The headers without what is another in each request: its moment, its id and so its signature."""
    changing = {"x-amz-date": r"^\d{8}T\d{6}Z$", "amz-sdk-invocation-id": r"^[0-9a-f-]{36}$"}
    for name, pattern in changing.items():
        assert re.match(pattern, request.headers[name])
    signed = re.sub(r"/\d{8}/|Signature=[0-9a-f]{64}$", "", request.headers["authorization"])
    assert len(signed) < len(request.headers["authorization"]) - 64
    agent = re.sub(" PT/.*", "", request.headers["user-agent"])  # what Powertools adds, once it is imported
    kept = {name: value for name, value in request.headers.items() if name not in changing}
    return {**kept, "authorization": signed, "user-agent": agent}


def test_a_transaction_has_a_token_which_its_tries_share(server: Server) -> None:
    server.script(BUSY, FINE)
    lean("dynamodb", server.url).transact_write_items(TransactItems=[WRITE])
    first, second = [request.body for request in server.requests]
    assert re.search(rb'"ClientRequestToken": "[0-9a-f-]{36}"', first)
    assert first == second
    assert [request.headers["amz-sdk-request"] for request in server.requests] == [
        "attempt=1; max=4",
        "attempt=2; max=4",
    ]
    assert len({request.headers["amz-sdk-invocation-id"] for request in server.requests}) == 1


def test_the_first_call_has_the_connection_that_was_opened_for_it(server: Server) -> None:
    client: Any = lean("dynamodb", server.url)
    client.connect()
    [kept] = client._place.connections._kept
    get_item(client)
    assert client._place.connections._kept[0].connection is kept.connection


# -- tries


def test_pauses_grow_and_a_call_ends_with_its_last_error(server: Server) -> None:
    server.script(BUSY)
    pauses: list[float] = []
    with pytest.raises(ClientError, match=r"InternalServerError\) .* \(reached max retries: 3\)") as raised:
        get_item(lean("dynamodb", server.url, pause=pauses.append))
    assert len(pauses) == MOST_ATTEMPTS - 1 == len(server.requests) - 1
    assert all(0 <= pause <= 0.025 * 2**place for place, pause in enumerate(pauses))
    assert raised.value.response["ResponseMetadata"]["RequestId"] == "REQUEST-1"


def test_an_outage_ends_the_tries_of_a_client(server: Server) -> None:
    server.script(BUSY)
    client: Any = lean("dynamodb", server.url)
    client._quota = Quota(30)
    with pytest.raises(ClientError) as raised:
        get_item(client)
    assert len(server.requests) == 3
    noted: Any = raised.value.response["ResponseMetadata"]
    assert noted["RetryQuotaReached"], "as botocore notes it"
    server.script(FINE)
    get_item(client)
    assert client._quota.left == 3


def test_a_try_that_succeeds_earns_its_price_back(server: Server) -> None:
    client: Any = lean("dynamodb", server.url)
    server.script(BUSY, FINE)
    get_item(client)
    assert client._quota.left == 500


def test_a_call_that_must_not_come_late_is_sent_once(server: Server) -> None:
    server.script(Reply(b"", "close"))
    with pytest.raises(ConnectionClosedError):
        get_item(lean("dynamodb", server.url, once=True))
    assert len(server.requests) == 1


def test_a_broken_connection_is_an_error_at_once_where_the_quota_is_used_up(server: Server) -> None:
    server.script(Reply(b"", "close"))
    client: Any = lean("dynamodb", server.url)
    client._quota = Quota(0)
    with pytest.raises(ConnectionClosedError):
        get_item(client)
    assert len(server.requests) == 1


def test_an_error_that_is_no_services_is_not_hidden(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("flowguard.aws.transport.json_client.read", broken)
    with pytest.raises(ZeroDivisionError):
        get_item(lean("dynamodb", server.url))
    assert len(server.requests) == 1


def test_a_key_without_a_token_sends_none(server: Server) -> None:
    get_item(lean("dynamodb", server.url, keys=Credentials("AK", "s")))
    assert "x-amz-security-token" not in server.requests[0].headers


# -- a clock that is wrong


def refused(code: str, at: float) -> Reply:
    return Reply(answer(403, {"__type": f"#{code}"}, {"Date": formatdate(at, usegmt=True)}))


def understood(client: Any) -> Any:
    """A client that has been understood by its service before."""
    client._is_understood = True
    return client


@pytest.mark.parametrize("off", [600, -600])
@pytest.mark.parametrize("once", [False, True])
def test_a_wrong_clock_is_corrected_by_the_services(server: Server, off: int, once: bool) -> None:
    now = 1_800_000_000.0
    server.script(refused("InvalidSignatureException", now + off), FINE)
    client = lean("dynamodb", server.url, clock=lambda: now, once=once)
    get_item(client)
    get_item(client)
    moments = [request.headers["x-amz-date"] for request in server.requests]
    at, corrected = (time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(one)) for one in (now, now + off))
    assert moments == [at, corrected, corrected]


def test_it_is_corrected_once_a_call(server: Server) -> None:
    now = 1_800_000_000.0
    server.script(refused("RequestTimeTooSkewed", now + 600), refused("RequestTimeTooSkewed", now + 6_000))
    with pytest.raises(ClientError, match="RequestTimeTooSkewed"):
        get_item(lean("dynamodb", server.url, clock=lambda: now))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("code", "off"),
    [("InvalidSignatureException", 200), ("AccessDeniedException", 900), ("UnrecognizedClientException", 0)],
)
def test_no_other_refusal_is_tried_again(server: Server, code: str, off: int) -> None:
    now = 1_800_000_000.0
    server.script(refused(code, now + off))
    with pytest.raises(ClientError, match=code):
        get_item(understood(lean("dynamodb", server.url, clock=lambda: now)))
    assert len(server.requests) == 1


def test_a_clock_is_not_corrected_where_the_service_says_no_time(server: Server) -> None:
    server.script(Reply(answer(403, {"__type": "#InvalidSignatureException"}, {"Date": ""})))
    with pytest.raises(ClientError, match="InvalidSignatureException"):
        get_item(understood(lean("dynamodb", server.url)))
    assert len(server.requests) == 1


# -- a request that a service does not understand


def no(code: str) -> Reply:
    return Reply(answer(400, {"__type": f"#{code}", "message": "no"}))


@pytest.mark.parametrize("code", sorted(DOUBTED))
@pytest.mark.parametrize("once", [False, True])
def test_where_botocore_is_understood_it_makes_all_calls(server: Server, code: str, once: bool) -> None:
    server.script(no(code), FINE)
    client: Any = lean("dynamodb", server.url, once=once)
    with logged("flowguard") as lines:
        get_item(client)
    assert (client._made is not None, client._is_heard, len(server.requests)) == (True, True, 2)
    [line] = lines
    assert line == (
        f"boto3 makes the calls of dynamodb from now on: flowguard's own client met {code}, and boto3 did not; "
        "FLOWGUARD_CLIENT=boto3 does so from the start"
    )


def test_what_botocore_does_not_achieve_either_is_its_error(server: Server) -> None:
    server.script(no("UnrecognizedClientException"))
    client: Any = lean("dynamodb", server.url)
    with logged("flowguard") as lines, pytest.raises(ClientError, match="UnrecognizedClientException"):
        get_item(client)
    assert (client._is_heard, len(server.requests), lines) == (False, 2, [])
    server.script(FINE)
    get_item(client)
    assert client._is_understood, "the next call is its own again"


@pytest.mark.parametrize("first", [FINE, no("ConditionalCheckFailedException")])
def test_once_a_service_has_understood_a_call_its_refusals_are_for_the_caller(server: Server, first: Reply) -> None:
    client: Any = lean("dynamodb", server.url)
    server.script(first, no("UnrecognizedClientException"))
    with suppress(ClientError):
        get_item(client)
    with pytest.raises(ClientError, match="UnrecognizedClientException"):
        get_item(client)
    assert client._made is None


def test_a_certificate_that_is_not_believed_is_for_botocore_to_judge(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doubted(*_: Any) -> Any:
        raise SSLError(endpoint_url=server.url, error=ValueError("certificate"))

    client: Any = lean("dynamodb", server.url)
    monkeypatch.setattr(client._place.connections, "exchange", doubted)
    with logged("flowguard") as lines:
        get_item(client)
    assert (client._is_heard, len(server.requests)) == (True, 1)
    assert "met SSLError, and" in lines[0]


def test_a_certificate_that_changes_later_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def doubted(*_: Any) -> Any:
        raise SSLError(endpoint_url=server.url, error=ValueError("certificate"))

    client: Any = lean("dynamodb", server.url)
    get_item(client)
    monkeypatch.setattr(client._place.connections, "exchange", doubted)
    with pytest.raises(SSLError):
        get_item(client)
    assert client._made is None


# -- methods


def test_a_method_is_made_once() -> None:
    client: Any = lean("dynamodb", "http://x")
    assert client.get_item is client.get_item


def test_a_function_without_a_trace_has_no_header_of_one(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    monkeypatch.delenv("_X_AMZN_TRACE_ID", raising=False)
    get_item(lean("dynamodb", server.url))
    assert "x-amzn-trace-id" not in server.requests[0].headers


# -- what is left to botocore


def test_while_botocore_is_patched_it_makes_the_calls(server: Server) -> None:
    """Traces and the engines of the process hear of them so."""
    client: Any = lean("dynamodb", server.url)
    get_item(client)
    assert client._made is None
    with intercept(Recorder()) as calls:
        get_item(client)
    assert calls.count("dynamodb", "GetItem") == 1
    get_item(client)
    assert calls.count() == 1
    assert len(server.requests) == 3


def test_once_somebody_listens_botocore_makes_the_calls(server: Server) -> None:
    heard: list[str] = []
    client: Any = lean("dynamodb", server.url)
    before = client.get_item
    client.meta.events.register("before-send.dynamodb", lambda request, **_: heard.append(request.url))
    get_item(client)
    assert heard == [f"{server.url}/"]
    before(TableName="t", Key=KEY)
    assert len(heard) == 2, "a method that somebody has kept is botocore's, too"


def test_the_region_needs_no_client_of_botocore() -> None:
    client: Any = lean("dynamodb", "http://x")
    assert client.meta.region_name == "eu-west-1"
    assert client._made is None


def test_other_calls_and_names_are_botocores(server: Server) -> None:
    client: Any = lean("dynamodb", server.url)
    client.describe_table(TableName="t")
    assert server.requests[0].headers["x-amz-target"] == "DynamoDB_20120810.DescribeTable"
    assert issubclass(client.exceptions.ResourceNotFoundException, ClientError)
    assert client.get_paginator("query") is not None
    assert client._made is client._botocore()
    with pytest.raises(AttributeError):
        client.what_is_no_call  # noqa: B018 - it raises


def test_an_error_can_be_caught_by_the_class_that_the_client_names(server: Server) -> None:
    refused = Reply(answer(400, {"__type": "a#ConditionalCheckFailedException", "message": "no"}))
    server.script(refused, refused)
    client: Any = lean("dynamodb", server.url)
    with pytest.raises(ClientError) as raised:
        get_item(client)
    assert type(raised.value).__name__ == "ConditionalCheckFailedException"
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as named:
        get_item(client)
    assert named.value.response["Error"] == raised.value.response["Error"]
    assert named.value.operation_name == "GetItem"


@pytest.mark.parametrize("name", ["ConditionalCheckFailedException", "NoSuchException"])
def test_the_first_one_can_too(server: Server, name: str) -> None:
    """Python asks for the class when the error was raised."""
    server.script(Reply(answer(400, {"__type": f"a#{name}", "message": "no"})))
    client: Any = lean("dynamodb", server.url)
    caught, kind = _caught(client, partial(get_item, client))
    named = client.exceptions.ConditionalCheckFailedException
    is_named = name == named.__name__
    assert (caught, kind) == (("by its class", named) if is_named else ("by another", ClientError))


def test_an_error_of_something_else_stays_what_it_is(server: Server) -> None:
    assert _caught(lean("dynamodb", server.url), partial(int, "a")) == ("by another", ValueError)


def _caught(client: Any, work: Callable[[], object]) -> tuple[str, type[Exception]]:
    try:
        work()
    except client.exceptions.ConditionalCheckFailedException as error:
        return "by its class", type(error)
    except Exception as error:
        return "by another", type(error)
    raise AssertionError


def test_each_call_has_an_id_of_its_own_and_each_try_that_of_its_call(server: Server) -> None:
    busy = Reply(answer(500, {"__type": "#InternalServerError"}))
    server.script(busy, Reply(answer(200, {})), Reply(answer(200, {})))
    client: Any = lean("dynamodb", server.url)
    get_item(client)
    get_item(client)
    first, again, second = (uuid.UUID(each.headers["amz-sdk-invocation-id"]) for each in server.requests)
    assert first == again != second
    assert {first.version, second.version} == {4}


@pytest.mark.parametrize("date", ["Thu, 01 Jan 99999 00:00:00 GMT", "Thu, 01 Jan 9999999999999999999 00:00:00 GMT"])
def test_a_date_that_no_calendar_has_corrects_nothing(server: Server, date: str) -> None:
    server.script(Reply(answer(400, {"__type": "#InvalidSignatureException"}, {"date": date})))
    client: Any = lean("dynamodb", server.url)
    client._is_understood = True
    with pytest.raises(ClientError, match="InvalidSignatureException"):
        get_item(client)
    assert client._skew == 0


def test_what_has_no_form_in_json_botocore_says(server: Server) -> None:
    client: Any = lean("sqs", server.url)
    with pytest.raises(ParamValidationError):
        client.get_queue_url(QueueName={1})
    assert server.requests == []


ARN: Final = "arn:aws:dynamodb:eu-west-1:123456789012:table/t"


@pytest.mark.parametrize(
    ("method", "parameters", "is_lean"),
    [
        ("get_item", {"TableName": ARN, "Key": KEY}, False),
        ("batch_get_item", {"RequestItems": {ARN: {"Keys": [KEY]}}}, False),
        ("transact_write_items", {"TransactItems": [{"Delete": {"TableName": ARN, "Key": KEY}}]}, False),
        ("put_item", {"TableName": "t", "Item": {**KEY, "a": {"S": ARN}, "b": {"S": f'"TableName": "{ARN}"'}}}, True),
    ],
)
def test_a_table_that_is_named_by_its_arn_has_an_endpoint_of_its_account(
    server: Server, method: str, parameters: dict[str, Any], is_lean: bool
) -> None:
    client: Any = lean("dynamodb", server.url)
    getattr(client, method)(**parameters)
    assert (client._made is None) == is_lean


def test_an_endpoint_of_several_regions_is_botocores(server: Server) -> None:
    client: Any = lean("events", server.url)
    with pytest.raises(BotoCoreError, match="crt"):
        client.put_events(Entries=[{"Detail": "{}"}], EndpointId="abcde.veo")
    client.put_events(Entries=[{"Detail": "{}"}])
    assert len(server.requests) == 1


# -- secrets


def test_no_secret_is_in_a_log_an_error_or_a_text(server: Server) -> None:
    server.script(Reply(b"", "close"))
    client: JSONClient = lean("dynamodb", server.url)
    with logged("") as lines, pytest.raises(ConnectionClosedError) as raised:
        get_item(client)
    signature = server.requests[0].headers["authorization"].rpartition("=")[2]
    texts = [*lines, repr(raised.value), repr(vars(raised.value)), repr(client), repr(vars(client))]
    for secret in (KEYS.secret_key, str(KEYS.token), signature):
        assert not any(secret in text for text in texts)


LOST: Final = Reply(b"", "close")
ITEM: Final = {"Item": {"a": {"S": "of-the-item"}}, "__type": "#ConditionalCheckFailedException", "message": "m"}


@pytest.mark.parametrize("reply", [LOST, Reply(answer(400, ITEM)), Reply(answer(200, b"{of-the-item"))])
def test_no_secret_or_payload_is_in_a_traceback_that_shows_locals(server: Server, reply: Reply) -> None:
    server.script(reply)
    client: Any = lean("dynamodb", server.url)
    with pytest.raises((ConnectionClosedError, ClientError)) as raised:
        client.update_item(TableName="t", Key={"pk": {"S": "of-the-payload"}})
    authorization = server.requests[0].headers["authorization"]
    shown = TracebackException.from_exception(raised.value, capture_locals=True)
    of_client = [frame for frame in shown.stack if Path(frame.filename).parent.name == "transport"]
    assert any(frame.locals for frame in of_client)
    ours = [frame for frame in of_client if "tests" not in Path(frame.filename).parts]
    texts = [text for frame in ours for text in (frame.locals or {}).values()]
    assert any("bytes>" in text for text in texts)
    for secret in (KEYS.secret_key, str(KEYS.token), authorization, "AWS4-HMAC", "of-the-payload", "of-the-item"):
        assert not any(secret in text for text in texts)


def test_what_is_hidden_says_how_much_it_is() -> None:
    assert repr(HiddenBytes(b"secret")) == "<6 bytes>"
    assert repr(HiddenMap(host="secret", date="secret")) == "<host, date>"
