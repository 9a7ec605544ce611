"""Values as JSON has them, by whatever release of pydantic."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

import pytest
from pydantic import BaseModel, HttpUrl
from pydantic_core import PydanticSerializationError, core_schema

from flowguard.items.rows import as_json_value, row


class Colour:
    """A class that pydantic knows by nothing but its own words, as older releases know URLs."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> core_schema.CoreSchema:
        writing = core_schema.plain_serializer_function_ser_schema(lambda it: it.name.upper(), when_used="json")
        return core_schema.is_instance_schema(cls, serialization=writing)


class Lamp(BaseModel):
    colour: Colour
    address: IPv4Address


def test_a_value_is_what_its_own_type_makes_of_it() -> None:
    assert as_json_value([Colour("red"), IPv4Address("192.0.2.1")]) == ["RED", "192.0.2.1"]
    assert as_json_value(HttpUrl("https://shop.example/o1")) == "https://shop.example/o1"


def test_a_model_is_a_row_whatever_its_fields_are() -> None:
    lamp = Lamp(colour=Colour("red"), address=IPv4Address("192.0.2.1"))
    assert row(lamp, "put") == {"colour": "RED", "address": "192.0.2.1"}


def test_what_has_no_place_in_json_is_refused_by_its_type() -> None:
    with pytest.raises(PydanticSerializationError, match="object has no place in JSON"):
        as_json_value(object())
