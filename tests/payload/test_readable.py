"""Texts that are read again: what would come back as something else is refused, by its field and without its value."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    SecretBytes,
    SecretStr,
    computed_field,
    field_serializer,
    model_validator,
)

from flowguard.errors import PayloadLost, RunFailed
from flowguard.payload.encoding import encode
from flowguard.payload.readable import hidden_fields, written

SECRET = "4111-1111"


class Card(BaseModel):
    number: SecretStr | None = None


class Order(BaseModel):
    order_id: str = "o-1"
    cards: dict[str, list[Card]] = {}


class Bytes(BaseModel):
    number: SecretBytes = SecretBytes(b"4111-1111")


class LeftOut(BaseModel):
    order_id: str = "o-1"
    note: str = Field(default="", exclude=True)


class Around(BaseModel):
    inner: LeftOut = LeftOut()


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    order_id: str = SECRET

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def twice(self) -> str:
        return self.order_id * 2


class ReadAs(BaseModel):
    x: str = Field(validation_alias="in_x", serialization_alias="out_x")


class ReadAsWithDefault(BaseModel):
    x: str = Field(default="", validation_alias="in_x", serialization_alias="out_x")


class Least(BaseModel):
    total: int = Field(ge=0)


class Counting(RootModel[list[int]]):
    @model_validator(mode="after")
    def counts(self) -> Counting:
        self.root = [number + 1 for number in self.root]
        return self


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Order(cards={"c": [Card(), Card(number=SecretStr(SECRET))]}), "cards.number: a secret does not travel"),
        (Bytes(), "number: a secret does not travel"),
        (LeftOut(note=SECRET), "note: exclude= leaves it out"),
        (Around(inner=LeftOut(note=SECRET)), "inner.note: exclude= leaves it out"),
        (Computed(), "again as Computed: twice: Extra inputs are not permitted"),
        (ReadAs(in_x=SECRET), "again as ReadAs: in_x: Field required"),
        (ReadAsWithDefault(in_x=SECRET), "out_x changes; are the aliases"),
        (Least.model_construct(total=-1), "again as Least: total: Input should be greater"),
        (Counting([1]), "the whole changes"),
    ],
)
def test_what_would_be_lost_is_refused_by_its_field(value: BaseModel, told: str) -> None:
    with pytest.raises(PayloadLost) as refused:
        written(type(value), value, what="the payload")
    assert told in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


class Rounded(BaseModel):
    total: Decimal

    @field_serializer("total")
    def rounded(self, total: Decimal) -> str:
        return f"{total:.2f}"


class Kept(BaseModel):
    _price: int = PrivateAttr(default=0)
    order_id: str = "o-1"

    @cached_property
    def price(self) -> int:
        return 7


class OfSets(BaseModel):
    names: frozenset[str]


class Unnumbered(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="strings")
    rate: float


class Asking(BaseModel):
    total: int = 1

    @model_validator(mode="after")
    def asks(self) -> Asking:
        raise ConnectionError("the price list does not answer")


def kept() -> Kept:
    value = Kept()
    value._price = value.price
    return value


@pytest.mark.parametrize(
    "value",
    [
        Order(cards={"c": [Card()]}),
        LeftOut(),
        Rounded(total=Decimal("1.005")),
        kept(),
        OfSets(names=frozenset(map(str, range(50)))),
        Unnumbered(rate=math.nan),
        Asking.model_construct(),
    ],
)
def test_what_comes_back_as_its_author_means_it_travels(value: BaseModel) -> None:
    assert written(type(value), value, what="it") == encode(value)


class At(BaseModel):
    at: Any


def test_a_moment_in_a_named_zone_travels() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC).astimezone(ZoneInfo("Europe/Berlin"))
    assert written(At, At(at=moment), what="it") == '{"at":"2026-01-02T01:00:00+01:00"}'


class Larger(Order):
    more: int = 1


def test_a_derived_model_is_read_as_the_declared_one() -> None:
    assert '"more":1' in written(Order, Larger(), what="it")


@pytest.mark.parametrize("value", ["text", {"n": 1}])
def test_text_and_dicts_travel_as_they_are(value: str | dict[str, Any]) -> None:
    assert written(type(value), value, what="it") == encode(value)


def test_the_hidden_fields_of_a_model_are_those_of_models_inside_it_too() -> None:
    assert hidden_fields(Order) == ("Card.number",)
    assert hidden_fields(Around) == ("LeftOut.note",)
    assert hidden_fields(Computed) == ()


def test_it_is_a_failure_for_good_and_a_type_error() -> None:
    assert issubclass(PayloadLost, RunFailed)
    assert issubclass(PayloadLost, TypeError)
