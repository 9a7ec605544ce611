"""Every operation, on each engine: both clients get equal answers and equal errors."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.botocore_clients import BotocoreClients
from flowguard.aws.transport.credentials import Credentials
from flowguard.aws.transport.services import SERVICES
from flowguard.sim.table_keys import create_table
from tests.aws.transport.clients import lean, session

REGION: Final = "us-east-1"
Step = tuple[str, dict[str, Any]]

ALL: Final = {"S": {"S": "é\u2028\U0001f600"}, "B": {"B": b"\x00\xff"}, "BS": {"BS": [b"a", b"b"]}, "N": {"N": "1.5"}}
DEEP: Final = {"M": {"B": {"B": b"x"}, "L": {"L": [{"B": b""}, {"NULL": True}, {"BOOL": False}, {"M": ALL}]}}}
KEY: Final = {"id": {"S": "é"}}
ITEM: Final = {**KEY, "deep": DEEP, "NS": {"NS": ["1"]}, **ALL}
FREE: Final = "attribute_not_exists(id)"


def put(**more: Any) -> Step:
    return "put_item", {"TableName": "carts", "Item": ITEM, **more}


def update(expression: str, **more: Any) -> Step:
    return "update_item", {"TableName": "carts", "Key": KEY, "UpdateExpression": expression, **more}


OLD: Final = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
VALUES: Final = {"ExpressionAttributeValues": {":a": {"B": b"new"}}}
PUT: Final = {"Put": {"TableName": "carts", "Item": ITEM, "ConditionExpression": FREE, **OLD}}

ON_DYNAMODB: Final[list[Step]] = [
    ("get_item", {"TableName": "carts", "Key": KEY, "ConsistentRead": True}),
    put(),
    ("get_item", {"TableName": "carts", "Key": KEY, "ConsistentRead": True, "ReturnConsumedCapacity": "TOTAL"}),
    put(ConditionExpression=FREE, **OLD),
    put(ConditionExpression=FREE),
    update("SET a = :a", ReturnValues="ALL_OLD", **VALUES),
    update("SET a = :a", ReturnValues="ALL_NEW", **VALUES),
    update("SET a = :a", ConditionExpression=FREE, **VALUES, **OLD),
    update("SET a ="),
    (
        "query",
        {"TableName": "carts", "KeyConditionExpression": "id = :a", "ExpressionAttributeValues": {":a": KEY["id"]}},
    ),
    ("batch_get_item", {"RequestItems": {"carts": {"Keys": [KEY, {"id": {"S": "none"}}]}}}),
    ("batch_write_item", {"RequestItems": {"carts": [{"PutRequest": {"Item": {"id": {"S": "b"}}}}]}}),
    ("batch_write_item", {"RequestItems": {"none": [{"DeleteRequest": {"Key": KEY}}]}}),
    ("transact_write_items", {"TransactItems": [PUT]}),
    ("transact_write_items", {"TransactItems": [{"Delete": {"TableName": "carts", "Key": {"id": {"S": "b"}}}}, PUT]}),
    ("transact_write_items", {"TransactItems": [{"Delete": {"TableName": "carts", "Key": {"id": {"S": "b"}}}}]}),
    (
        "batch_execute_statement",
        {"Statements": [{"Statement": "SELECT * FROM carts WHERE id = ?", "Parameters": [KEY["id"]]}]},
    ),
    (
        "batch_execute_statement",
        {"Statements": [{"Statement": "INSERT INTO carts VALUE {'id': ?}", "Parameters": [KEY["id"]]}]},
    ),
    ("batch_execute_statement", {"Statements": []}),
    ("delete_item", {"TableName": "carts", "Key": KEY, "ReturnValues": "ALL_OLD"}),
    ("delete_item", {"TableName": "none", "Key": KEY}),
    ("get_item", {"TableName": "carts", "Key": {"other": {"S": "a"}}}),
    ("get_item", {"TableName": "carts", "Key": KEY, "ProjectionExpression": "("}),
]


def entries(**more: Any) -> Step:
    attributes = {"a": {"DataType": "String", "StringValue": "é"}, "b": {"DataType": "Binary", "BinaryValue": b"\x00"}}
    first = {"Id": "0", "MessageBody": "a \u2028 body", "MessageAttributes": attributes, "DelaySeconds": 0}
    return "send_message_batch", {"QueueUrl": "URL", "Entries": [first, {"Id": "1", "MessageBody": "b", **more}]}


def change(method: str, **more: Any) -> Step:
    return method, {"QueueUrl": "URL", **more}


ON_SQS: Final[list[Step]] = [
    ("get_queue_url", {"QueueName": "orders"}),
    ("get_queue_url", {"QueueName": "none"}),
    ("get_queue_attributes", {"QueueUrl": "URL", "AttributeNames": ["QueueArn", "VisibilityTimeout"]}),
    entries(),
    entries(DelaySeconds=9_999),
    ("send_message_batch", {"QueueUrl": "URL", "Entries": []}),
    change("change_message_visibility", ReceiptHandle="none", VisibilityTimeout=1),
    change("change_message_visibility_batch", Entries=[{"Id": "0", "ReceiptHandle": "none", "VisibilityTimeout": 1}]),
]

EVENT: Final = {"Source": "a", "DetailType": "b", "Detail": '{"a": "é"}'}

ON_EVENTS: Final[list[Step]] = [
    ("put_events", {"Entries": [EVENT, {**EVENT, "Detail": "no JSON"}]}),
    ("put_events", {"Entries": [{**EVENT, "EventBusName": "none"}]}),
]

ON_SSM: Final[list[Step]] = [
    ("get_parameter", {"Name": "/keys", "WithDecryption": True}),
    ("get_parameter", {"Name": "/keys:7"}),
    ("get_parameter", {"Name": "/none"}),
]

ON_SECRETS: Final[list[Step]] = [
    ("get_secret_value", {"SecretId": "text"}),
    ("get_secret_value", {"SecretId": "bytes"}),
    ("get_secret_value", {"SecretId": "text", "VersionStage": "none"}),
    ("get_secret_value", {"SecretId": "none"}),
]

STEPS: Final = {
    "dynamodb": ON_DYNAMODB,
    "sqs": ON_SQS,
    "events": ON_EVENTS,
    "ssm": ON_SSM,
    "secretsmanager": ON_SECRETS,
}


def test_all_operations_are_asked() -> None:
    for service, steps in STEPS.items():
        assert {method for method, _ in steps} == SERVICES[service].operations.keys()


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    from moto.server import ThreadedMotoServer  # heavy

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


ENGINES: Final = [
    pytest.param("dynamodb", "dynamodb_local_url", id="dynamodb-local"),
    pytest.param("sqs", "elasticmq_url", id="elasticmq"),
    pytest.param("dynamodb", "moto_url", id="moto, dynamodb"),
    *(pytest.param(service, "moto_url", id=f"moto, {service}") for service in STEPS if service != "dynamodb"),
]


@pytest.mark.proof("starts three engines")
@pytest.mark.parametrize(("service", "engine"), ENGINES)
def test_both_clients_see_the_same(service: str, engine: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(engine)
    ours = list(steps(service, url, is_lean=True))
    theirs = list(steps(service, url, is_lean=False))
    for (method, given), one, other in zip(STEPS[service], ours, theirs, strict=True):
        assert one == other, (method, given)


def steps(service: str, url: str, *, is_lean: bool) -> Iterator[Any]:
    """What a client sees of each step, beginning with nothing."""
    keys = Credentials(uuid.uuid4().hex[:20], "local")
    botocores = BotocoreClients(session(keys, REGION)).client(service, url)
    queue = _provided(service, botocores)
    client: Any = lean(service, url, keys=keys, region=REGION) if is_lean else botocores
    for method, given in STEPS[service]:
        parameters = {name: queue if value == "URL" else value for name, value in given.items()}
        try:
            yield _plain(getattr(client, method)(**parameters))
        except ClientError as error:
            yield type(error).__name__, _plain_text(str(error)), _plain(error.response), error.operation_name
    if is_lean:
        assert client._made is None, "botocore has made a call"


def _provided(service: str, botocores: Any) -> str:
    """A table or a queue with nothing in it, or keys that are stored. The URL of the queue."""
    if service == "sqs":
        url: str = botocores.create_queue(QueueName="orders")["QueueUrl"]
        return url
    with suppress(ClientError):  # the client before has stored it
        if service == "ssm":
            botocores.put_parameter(Name="/keys", Value="k1:é", Type="SecureString")
        if service == "secretsmanager":
            botocores.create_secret(Name="bytes", SecretBinary=b"\x00\xff")
            botocores.create_secret(Name="text", SecretString="k1:é")
    if service != "dynamodb":
        return ""
    if "carts" in botocores.list_tables()["TableNames"]:
        botocores.delete_table(TableName="carts")
    create_table(botocores, "carts", "id")
    return ""


_CHANGING: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[A-Z0-9]{52}")
_IDS: Final = frozenset({"MessageId", "SequenceNumber"})


def _plain_text(text: str) -> str:
    return _CHANGING.sub("ID", text)


def _plain(found: Any) -> Any:
    """What is seen, without ids, and of the headers only their names."""
    if isinstance(found, dict):
        if (metadata := found.get("ResponseMetadata")) is not None:
            headers = sorted(metadata["HTTPHeaders"])
            names = {name: value for name, value in metadata.items() if name not in ("RequestId", "HTTPHeaders")}
            found = {**found, "ResponseMetadata": {**names, "HTTPHeaders": headers}}
        return {name: _plain(value) for name, value in found.items() if name not in _IDS}
    if isinstance(found, list):
        return [_plain(one) for one in found]
    return _plain_text(found) if isinstance(found, str) else found
