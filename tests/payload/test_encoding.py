"""Payloads as text: what goes in comes out, and an error names fields but quotes no value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ImportString,
    RootModel,
    TypeAdapter,
    ValidationError,
    field_serializer,
)

from flowguard.errors import PayloadLost, RunFailed
from flowguard.payload import encoding
from flowguard.payload.encoding import decode, encode, encode_json, is_payload_type, problems_of
from flowguard.testing import hostile


class Line(BaseModel):
    sku: str = Field(alias="SKU", max_length=8)
    quantity: int = 1


class Tea(BaseModel):
    kind: Literal["tea"]


class Cup(BaseModel):
    kind: Literal["cup"]


class Cart(BaseModel):
    cart_id: str
    total: Decimal = Decimal("4.20")
    day: date | None = None
    lines: list[Line] = []
    gift: Tea | Cup | None = Field(None, discriminator="kind")


@pytest.mark.parametrize(
    ("kind", "legal"),
    [(Cart, True), (dict, True), (str, True), (list, False), (int, False), (None, False), (dict[str, Any], False)],
)
def test_a_payload_is_a_model_a_dict_or_text(kind: object, legal: bool) -> None:
    assert is_payload_type(kind) is legal


# -- there and back ---------------------------------------------------------------------------------------------------


def test_a_model_comes_back_as_it_was() -> None:
    cart = Cart(cart_id="ж", day=date(2026, 1, 2), lines=[Line(SKU="tea")], gift=Cup(kind="cup"))
    assert decode(Cart, encode(cart), what="it") == cart


def test_a_model_travels_under_its_aliases() -> None:
    assert encode(Line(SKU="tea")) == '{"SKU":"tea","quantity":1}'


@given(st.text())
def test_text_stays_what_it_is(text: str) -> None:
    assert encode(text) == decode(str, text, what="it") == text


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def dicts(most: int) -> st.SearchStrategy[dict[str, Any]]:
    """Dicts of what JSON holds, with at most so many values in each of theirs."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
        lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
        max_leaves=most,
    )
    return st.dictionaries(TEXTS, values)


@pytest.mark.slow("Hypothesis makes its tables of all characters in a fresh clone")
@given(dicts(10))
def test_a_dict_comes_back_as_it_was(value: dict[str, Any]) -> None:
    assert decode(dict, encode(value), what="it") == value


@pytest.mark.proof("Hypothesis thinks long of large values")
@given(dicts(100))
def test_a_large_dict_comes_back_as_it_was(value: dict[str, Any]) -> None:
    assert decode(dict, encode(value), what="it") == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", '"text"'),
        (None, "null"),
        ([1, 2.5, True], "[1,2.5,true]"),
        ({"total": Decimal("4.20")}, '{"total":"4.20"}'),
        ({"day": date(2026, 1, 2)}, '{"day":"2026-01-02"}'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ([Line(SKU="tea")], '[{"SKU":"tea","quantity":1}]'),
    ],
)
def test_a_result_is_whatever_json_can_hold(value: object, text: str) -> None:
    assert encode_json(value) == text


def test_what_json_cannot_hold_is_refused_by_its_type() -> None:
    with pytest.raises(TypeError, match="object cannot become JSON"):
        encode(object())


class Rate(BaseModel):
    rate: float = math.nan
    beside: dict[str, Any] = {}


class Named(Rate):
    model_config = ConfigDict(ser_json_inf_nan="strings")


class Bare(Rate):
    model_config = ConfigDict(ser_json_inf_nan="constants")


class Noted(Rate):
    @field_serializer("rate")
    def noted(self, rate: float) -> str | float:
        return "unknown" if math.isnan(rate) else rate


@dataclass
class Plain:
    rates: list[float]


@dataclass(slots=True)
class Slotted:
    rate: float | None = None


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"amount": math.nan}, "dict.amount"),
        ([1.0, {"a": (None, -math.inf)}], r"list\[1\].a\[1\]"),
        ({"all": {math.inf}}, r"dict.all\[0\]"),
        (Rate(), "Rate.rate"),
        (Rate(rate=1, beside={"low": math.inf}), "Rate.beside.low"),
        ({"of": [Rate()]}, r"dict.of\[0\].rate"),
        ({"of": Plain([math.nan])}, r"dict.of.rates\[0\]"),
        ({"of": Slotted(math.nan)}, "dict.of.rate"),
        (Bare(), "Bare.rate"),
        (RootModel[float](math.nan), r"RootModel\[float\]"),
        ({"of": RootModel[list[float]]([1, math.inf])}, r"dict.of\[1\]"),
        (math.nan, "float"),
    ],
)
def test_what_is_no_number_is_refused_by_its_place(value: object, place: str) -> None:
    with pytest.raises(PayloadLost, match=f"^{place} is NaN or infinite, which JSON does not have"):
        encode_json(value)


def test_a_value_with_a_none_alone_is_not_put_beside_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(*_: object) -> None:
        raise AssertionError("no float of it is odd")

    monkeypatch.setattr(encoding, "_no_number", compared)
    assert encode_json({"of": [None, 1.5, Plain([2.5])]}) == '{"of":[null,1.5,{"rates":[2.5]}]}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Named(), '{"rate":"NaN","beside":{}}'),
        (Noted(beside={"low": None}), '{"rate":"unknown","beside":{"low":null}}'),
        ({"NaN": "Infinity", "n": [None, 1.5]}, '{"NaN":"Infinity","n":[null,1.5]}'),
        ({"of": Slotted()}, '{"of":{"rate":null}}'),
    ],
)
def test_what_a_model_writes_in_place_of_no_number_travels(value: object, text: str) -> None:
    assert encode_json(value) == text


@pytest.mark.parametrize("name", ["300 levels", "100,000 levels", "a list that contains itself"])
def test_what_is_too_deep_for_json_is_refused_by_its_type(name: str) -> None:
    with pytest.raises(TypeError, match="list cannot become JSON"):
        encode_json(hostile.STRUCTURES[name])


# -- errors never quote the payload -----------------------------------------------------------------------------------

SECRET = "4111-1111"


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (dict, f"{SECRET}{{", "the payload is not JSON"),
        (dict, "", "the payload is not JSON"),
        (dict, f'["{SECRET}"]', "the payload is JSON, but not an object"),
        (dict, "[" * 200_000, "the payload is not JSON"),
        (Cart, f"{SECRET}{{", "the payload is no Cart: the whole: Invalid JSON"),
        (Cart, f'"{SECRET}"', "the payload is no Cart: the whole: Input should be an object"),
        (Cart, f'{{"total":"{SECRET}"}}', "the payload is no Cart: cart_id: Field required; total: Input should be"),
        (Cart, f'{{"cart_id":"c","lines":[{{"SKU":"{SECRET}"}}]}}', "lines.0.SKU: String should have at most 8"),
        (Cart, f'{{"cart_id":"c","day":"{SECRET}"}}', "day: Input should be a valid date"),
        (Cart, f'{{"cart_id":"c","gift":{{"kind":"{SECRET}"}}}}', "gift: is of an unknown kind"),
    ],
)
def test_an_error_says_where_and_what_but_quotes_nothing(kind: type[Any], text: str, told: str) -> None:
    with pytest.raises(RunFailed) as caught:
        decode(kind, text, what="the payload")
    assert told in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_error_names_the_first_five_fields_and_counts_the_rest() -> None:
    lines = ",".join(["{}"] * 7)
    with pytest.raises(RunFailed) as caught:
        decode(Cart, f'{{"lines":[{lines}]}}', what="it")
    assert str(caught.value).count("Field required") == 5
    assert str(caught.value).endswith("; and 3 more")


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (ZoneInfo, "SECRET4111", "the whole: is no time zone"),
        (ImportString, "SECRET4111.SECRET", "the whole: cannot be imported"),
    ],
)
def test_no_message_of_pydantic_quotes_the_input(kind: Any, value: str, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value)
    assert problems_of(refused.value) == told
