"""Results come back exactly as they were, or are refused by name when they are stored."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, HttpUrl, SecretStr, computed_field

from flowguard.results import ResultType, Unstorable, difference, from_text, result_type, to_text


class Color(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    SMALL = 1


class Money(BaseModel):
    amount: Decimal
    paid_at: datetime
    raw: bytes = b"\xff"
    color: Color = Color.RED
    sizes: frozenset[Size] = frozenset({Size.SMALL})
    pair: tuple[int, str] = (1, "x")
    link: HttpUrl | None = None


class Named(BaseModel):
    model_config = ConfigDict(extra="forbid")
    own: int = Field(alias="theirs")

    @computed_field  # type: ignore[prop-decorator]  # as pydantic's docs have it
    @property
    def twice(self) -> int:
        return 2 * self.own


@dataclasses.dataclass
class Receipt:
    money: Money | None
    weight: float
    size: Size = Size.SMALL


class Place(NamedTuple):
    row: int
    price: Decimal


MONEY = Money(amount=Decimal("1.10"), paid_at=datetime(2026, 1, 1, tzinfo=UTC), link=HttpUrl("https://a.example/b"))

PLAIN = [
    None,
    True,
    1,
    2**70,
    -0.0,
    0.1,
    1e22,
    5e-324,
    "",
    "é😀",
    "half \ud800 a pair",
    [],
    {"a": [1, {"b": None}]},
    {1: "a", (1, 2): "b", None: "c"},
    {"$": ["decimal", "1"]},
    [{"$": ["declared", 1]}],
    (1, (2, [3])),
    {1, 2},
    frozenset({"a"}),
    {Decimal("1.0"), b"a"},
    Decimal("1.10"),
    Decimal("-0"),
    Decimal("1E+3"),
    datetime(2026, 1, 1, 1, 2, 3, 4),  # noqa: DTZ001 - a naive one is a result too
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-5, minutes=-30))),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
    datetime(1890, 1, 1, tzinfo=timezone(timedelta(seconds=3208))),
    datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    date(2026, 1, 1),
    time(1, 2, 3, 4),
    time(1, 2, tzinfo=UTC),
    timedelta(days=-3, microseconds=1),
    UUID("1158ce2f-3250-493a-ae63-e97550b71c6e"),
    b"",
    b"\xff\x00",
]


@pytest.mark.parametrize("value", PLAIN)
def test_a_plain_value_needs_no_declared_type(value: Any) -> None:
    kind = ResultType()
    assert difference(value, kind.decode(kind.encode(value))) is None


DECLARED: list[tuple[Any, Any]] = [
    (Money, MONEY),
    (Money | None, None),
    (list[Money], [MONEY]),
    (dict[str, Money], {"a": MONEY}),
    (tuple[Money, ...], (MONEY, MONEY)),
    (Named, Named(theirs=3)),
    (Receipt, Receipt(MONEY, -0.0)),
    (Receipt | None, Receipt(None, 1.5)),
    (Place, Place(1, Decimal("1.0"))),
    (Color, Color.RED),
    (Size | None, Size.SMALL),
    (set[Color], {Color.RED}),
    (HttpUrl, HttpUrl("https://a.example/")),
    (str, 5),
]


@pytest.mark.parametrize(("declared", "value"), DECLARED)
def test_a_value_of_a_declared_type_comes_back_as_that_type(declared: Any, value: Any) -> None:
    kind = ResultType(declared)
    assert difference(value, kind.decode(kind.encode(value))) is None


def test_what_json_has_is_stored_as_plain_json() -> None:
    value = {"statusCode": 200, "body": "é", "price": 1.5, "tags": ["a", None, True]}
    assert json.loads(ResultType(dict[str, Any]).encode(value)) == value


class Other(tzinfo):
    """A time zone of a library's."""

    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=1)

    dst = tzname = lambda self, dt: None


class Derived(Money):
    more: int = 1


class Holder(BaseModel):
    money: Money


class Secret(BaseModel):
    word: SecretStr


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


REFUSED: list[tuple[Any, Any, str]] = [
    (None, float("nan"), "result is nan, which JSON does not have"),
    (None, [1, {"a": float("-inf")}], r"result\[1\].a is -inf"),
    (None, Decimal("NaN"), "result is a Decimal that is no number"),
    (None, MONEY, "result is a Money; declare the type"),
    (None, {"a": Color.RED}, "result.a is a Color; declare the type"),
    (None, Size.SMALL, "result is a Size; declare the type"),
    (None, OrderedDict(a=1), "result is an OrderedDict; declare the type"),
    (None, bytearray(b"a"), "result is a bytearray"),
    (None, endless(), "more than 64 levels deep, or contains itself"),
    (None, 10**5_000, "a number of thousands of digits"),
    (None, datetime(2026, 1, 1, tzinfo=Other()), "a time zone of the type Other, which would be lost"),
    (None, object(), "result is an object"),
    (Money, object(), "result is an object"),
    (Money, MONEY.model_copy(update={"amount": Decimal("Infinity")}), "result.amount is a Decimal that is no number"),
    (Holder, Holder.model_construct(money=Derived(**dict(MONEY))), "result.money is a Derived, and would come back"),
    (Secret, Secret(word=SecretStr("4111")), "result.word is a SecretStr, and would come back as another one"),
    (Any, Receipt(None, 1.0), "result is a Receipt; declare the type"),
]


@pytest.mark.parametrize(("declared", "value", "why"), REFUSED, ids=[why for _, _, why in REFUSED])
def test_what_would_not_come_back_is_refused_with_its_place_and_type(declared: Any, value: Any, why: str) -> None:
    with pytest.raises(Unstorable, match=why) as refused:
        ResultType(declared).encode(value)
    assert "4111" not in str(refused.value)


def test_values_that_python_calls_equal_differ() -> None:
    assert difference(1, True) == "result is an int, and would come back as a bool; declare its type"
    for one, other in [
        (0.0, -0.0),
        (Decimal("1.0"), Decimal("1")),
        ([1.0], [1]),
        ({"a": 1}, {"a": True}),
        ({1}, {True}),
        (PLAIN[24], PLAIN[24].astimezone(ZoneInfo("Europe/Berlin"))),  # type: ignore[union-attr]  # a datetime
        ({"a": 1}, {"a": 1, "b": 2}),
        (Receipt(None, 0.0), Receipt(None, -0.0)),
    ]:
        assert difference(one, other)
        assert difference(one, one) is None


def test_a_result_of_an_older_version_that_the_type_does_not_take_is_refused_without_its_values() -> None:
    text = ResultType(Named).encode(Named(theirs=4111))
    with pytest.raises(Unstorable, match="the declared type does not take it") as refused:
        ResultType(Money).decode(text)
    assert "4111" not in str(refused.value)
    with pytest.raises(Unstorable, match="the function declares none"):
        ResultType().decode(text)


def test_the_type_is_read_from_the_annotation_or_given() -> None:
    def annotated() -> Receipt:
        raise NotImplementedError

    def plain(): ...  # type: ignore[no-untyped-def]  # that is the point

    def unknown() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821 - imported for type checkers alone

    def odd() -> Other: ...  # type: ignore[empty-body]  # never called

    assert result_type(annotated).encode(Receipt(None, 1.0))
    assert result_type(plain, Receipt).encode(Receipt(None, 1.0))
    with pytest.raises(Unstorable):
        result_type(plain).encode(Receipt(None, 1.0))
    with pytest.raises(TypeError, match=r"its annotations cannot be read .*Nowhere.*; name the type .*: result="):
        result_type(unknown)
    with pytest.raises(TypeError, match=r"declared to return .*Other.*, which pydantic does not know"):
        result_type(odd)
    assert result_type(unknown, dict).encode({})


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()))
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes(timezones=st.sampled_from([None, UTC, ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=-5))]))
    | st.times()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.binary()
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers() | st.just("$"), inner)
        | st.tuples(inner, inner)
        | st.frozensets(leaves)
    ),
    max_leaves=8,
)


@given(values)
def test_any_nested_value_comes_back_exactly(value: Any) -> None:
    assert difference(value, from_text(to_text(value))) is None
