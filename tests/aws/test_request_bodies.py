"""What is sent to DynamoDB is what botocore would send, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.model import Shape
from botocore.serialize import JSONSerializer

from flowguard import Settings, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.request_bodies import OPERATIONS, RequestBodies, write_bodies
from flowguard.aws.services import aws_services
from tests.proofs.bench.answering import RECORDS, one_answer
from tests.proofs.bench.batches import a_batch, taken
from tests.proofs.bench.flow import Context, OneStage
from tests.proofs.bench.stub import a_session, answer, recorded

HOSTILE = ("", "é", "\U0001f600", "\ud83d", "\x00\x1f\x7f", "\u2028", '"\\/', "</script>", "a" * 70_000)

VALUES: dict[str, Any] = {
    "B": {"B": b"\x00\xff\xfe"},
    "empty": {"B": b""},
    "other": {"B": bytearray(b"ab")},
    "BS": {"BS": [b"a", b"\x80"]},
    "SS": {"SS": list(HOSTILE)},
    "NS": {"NS": ["1", "-0.5"]},
    "N": {"N": "99999999999999999999999999999999999999"},
    "NULL": {"NULL": True},
    "L": {"L": [{"M": {"é": {"L": [{"B": b"deep"}, {"BOOL": False}]}}}, {"S": ""}]},
    **{f"S{place}": {"S": text} for place, text in enumerate(HOSTILE)},
}

CALLS: list[tuple[str, Any]] = [
    (
        "UpdateItem",
        {
            "TableName": "flowguard",
            "Key": {"pk": {"S": "run#f#\ud83d"}, "sk": {"S": "run"}},
            "UpdateExpression": "SET #a = :a",
            "ExpressionAttributeNames": {"#a": "é"},
            "ExpressionAttributeValues": {f":{name}": value for name, value in VALUES.items()},
            "ReturnValues": "ALL_OLD",
        },
    ),
    (
        "BatchExecuteStatement",
        {"Statements": [{"Statement": "INSERT …", "Parameters": [*VALUES.values()]}, {"Statement": ""}]},
    ),
    (
        "TransactWriteItems",
        {
            "TransactItems": [
                {"Put": {"TableName": "t", "Item": VALUES}},
                {"ConditionCheck": {"TableName": "t", "Key": {"pk": {"B": b"k"}}, "ConditionExpression": "a = b"}},
            ],
            "ClientRequestToken": "a-token",
        },
    ),
]


@pytest.fixture(scope="module")
def service() -> Any:
    return botocore.session.Session().get_service_model("dynamodb")


@pytest.fixture(scope="module")
def clients() -> Clients:
    found = Clients(a_session())
    answer(found.dynamodb, one_answer)
    return found


def both(service: Any, operation: str, parameters: Any) -> list[Any]:
    """The request as flowguard makes it, and as botocore does."""
    model, plain = service.operation_model(operation), JSONSerializer()
    return [each.serialize_to_request(parameters, model) for each in (RequestBodies(plain), plain)]


@pytest.mark.parametrize(("operation", "parameters"), CALLS, ids=[name for name, _ in CALLS])
def test_a_request_is_the_same(service: Any, operation: str, parameters: Any) -> None:
    ours, theirs = both(service, operation, parameters)
    assert ours == theirs


def test_each_call_of_a_message_is_the_same(service: Any, clients: Clients) -> None:
    services, calls = aws_services(Settings(), clients), []
    for together in (True, False):
        handler = lambda_handler(OneStage, together=together).using(services)
        with recorded(clients.dynamodb) as made:
            taken(handler(a_batch(RECORDS), Context()))
        calls += made
    assert [name for name, _ in calls] == ["BatchExecuteStatement"] * 2 + ["UpdateItem"] * 2 * RECORDS
    for operation, parameters in calls:
        ours, theirs = both(service, operation, parameters)
        assert ours == theirs


def test_what_is_no_json_is_refused_by_an_error(service: Any) -> None:
    with pytest.raises(TypeError, match="set"):
        both(service, "UpdateItem", {"Key": {"pk": {"S": {1}}}})


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_no_parameter_of_these_calls_has_another_form_as_json(service: Any, operation: str) -> None:
    """Times, floats and names for the wire would have one. A newer model of the service may bring them."""
    for shape in shapes(service.operation_model(operation).input_shape, set()):
        assert shape.type_name not in ("timestamp", "float", "double"), shape.name
        assert not {"name", "timestampFormat", "location"} & set(shape.serialization), shape.name


def shapes(shape: Shape, met: set[str]) -> Iterator[Shape]:
    """Yield all shapes of a parameter, each once."""
    if shape.name in met:
        return
    met.add(shape.name)
    yield shape
    inside = [*getattr(shape, "members", {}).values(), *(getattr(shape, part, None) for part in ("key", "value"))]
    for one in [*inside, getattr(shape, "member", None)]:
        if one is not None:
            yield from shapes(one, met)


def test_it_is_asked_for_the_calls_of_a_message_alone(service: Any) -> None:
    class Asked:
        def serialize_to_request(self, parameters: Any, model: Any) -> Any:
            return {"body": parameters, "asked": model.name}

    bodies: Any = RequestBodies(Asked())  # type: ignore[arg-type]  # it needs no more
    key = {"Key": {"pk": {"S": "a"}}}
    assert bodies.serialize_to_request(key, service.operation_model("GetItem")) == {"body": key, "asked": "GetItem"}
    assert bodies.serialize_to_request(key, service.operation_model("UpdateItem")) == {
        "body": b'{"Key": {"pk": {"S": "a"}}}',
        "asked": "UpdateItem",
    }


def test_flowguards_client_writes_them(clients: Clients) -> None:
    assert isinstance(clients.dynamodb._serializer, RequestBodies)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("service", "config"),
    [("sns", Config(parameter_validation=False)), ("dynamodb", Config())],
    ids=["form", "checks"],
)
def test_a_client_of_another_form_or_that_checks_parameters_is_left_alone(service: str, config: Config) -> None:
    make: Any = a_session().client
    client = make(service, config=config)
    before = client._serializer
    write_bodies(client)
    assert client._serializer is before


class AClient:
    """Keeps a serialiser where botocore's do."""

    def __init__(self, **kept: Any) -> None:
        vars(self).update(kept)


def test_a_client_that_speaks_json_writes_them_from_then_on(service: Any) -> None:
    client: Any = AClient(_serializer=JSONSerializer())
    write_bodies(client)
    assert type(client._serializer) is RequestBodies
    operation, parameters = CALLS[0]
    expected = JSONSerializer().serialize_to_request(parameters, service.operation_model(operation))
    assert client._serializer.serialize_to_request(parameters, service.operation_model(operation)) == expected


def test_a_client_that_keeps_its_serialiser_elsewhere_is_left_alone() -> None:
    client = AClient(serializer=JSONSerializer())
    write_bodies(client)
    assert list(vars(client)) == ["serializer"]
