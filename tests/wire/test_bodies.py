"""The texts that go where a destination has no attributes."""

from __future__ import annotations

import json

import pytest

from flowguard.wire.attributes import Attribute
from flowguard.wire.bodies import bus_detail, function_payload

ATTRIBUTES = {"uniquerequestid": Attribute.string("r-1.1.0"), "data": Attribute.binary(b"x")}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ('{"a":1}', {"a": 1}),
        ("[1]", {"payload": [1]}),
        ("5", {"payload": 5}),
        ("text", {"payload": "text"}),
        ("", {"payload": ""}),
        ("NaN", {"payload": "NaN"}),
        ("[" * 100_000, {"payload": "[" * 100_000}),
    ],
)
def test_a_detail_is_always_an_object_with_the_attributes_inside(body: str, detail: dict[str, object]) -> None:
    found = json.loads(bus_detail(body, ATTRIBUTES))
    assert found.pop("flowguard") == {"uniquerequestid": "r-1.1.0", "data": "eA=="}
    assert found == detail


def test_a_function_gets_a_record_in_the_shape_of_sqs() -> None:
    assert json.loads(function_payload("r-1.1.0", "{}", {"n": Attribute.number(5)})) == {
        "Records": [
            {
                "messageId": "r-1.1.0",
                "body": "{}",
                "attributes": {},
                "messageAttributes": {
                    "n": {"stringValue": "5", "stringListValues": [], "binaryListValues": [], "dataType": "Number"}
                },
                "eventSource": "aws:lambda",
            }
        ]
    }
