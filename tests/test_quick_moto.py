"""Moto answers the same with names that are found out once."""

from __future__ import annotations

from typing import Any

import pytest
from moto.core import serialize
from moto.core.utils import get_service_model

from tests.quick_moto import BY_MOTO, with_known_names

ITEM: dict[str, Any] = {
    "id": {"S": "o1"},
    "n": {"N": "1"},
    "b": {"B": "AQI="},
    "l": {"L": [{"M": {"a": {"NULL": True}}}, {"BOOL": False}]},
    "m": {"M": {"s": {"SS": ["x"]}, "S": {"S": ""}, "empty": {"M": {}}}},
}


class Found:
    """An answer that is no dict, and whose names are Python's."""

    def __init__(self) -> None:
        self.item = ITEM
        self.consumed_capacity = {"table_name": "carts", "CapacityUnits": 1.0}


@pytest.mark.parametrize(
    "answer",
    [
        {"Item": ITEM},
        {"Item": ITEM, "ConsumedCapacity": {"TableName": "carts", "capacity_units": 2.0, "Table": None}},
        {"item": ITEM, "consumed_capacity": {}},
        {},
        Found(),
    ],
)
@pytest.mark.parametrize("transformed", [{}, {"GetItemOutput.Item": lambda item: item and {"id": item["id"]}}])
def test_an_answer_is_the_same(answer: Any, transformed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def bodies() -> list[Any]:
        operation = get_service_model("dynamodb").operation_model("GetItem")
        picker = serialize.XFormedAttributePicker(response_transformers=transformed)
        make: Any = serialize.get_serializer_class("dynamodb", "json")
        return [make(operation_model=operation, value_picker=picker).serialize(answer) for _ in range(2)]

    monkeypatch.setattr(serialize.ResponseSerializer, "get_value", BY_MOTO)
    expected = bodies()
    monkeypatch.setattr(serialize.ResponseSerializer, "get_value", with_known_names())
    assert bodies() == expected
