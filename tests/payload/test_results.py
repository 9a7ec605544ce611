"""Results come back exactly as they were, or are refused by name when they are stored."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from io import BytesIO
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    PrivateAttr,
    SecretStr,
    TypeAdapter,
    computed_field,
    field_serializer,
    field_validator,
)

from flowguard.payload.results import ResultType, Unstorable, difference, from_text, result_type, to_plain_text, to_text


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


class Raw(enum.Enum):
    BYTES = b"\xff"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    own: int = 1
    _private: int = PrivateAttr(0)


class Wide(BaseModel):
    anything: Any


class Stubborn(BaseModel):
    own: int

    @field_serializer("own")
    def refuse(self, own: int) -> int:
        raise LookupError("4111")

    @field_validator("own")
    @classmethod
    def refuse_too(cls, own: int) -> int:
        return {1: 1}[own]


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
    (Raw, Raw.BYTES),
    (Open, Open.model_validate({"own": 2, "more": [1]})),
    (Place, Place(2, Decimal("1"))),
    (datetime, TypeAdapter(datetime).validate_python("2026-01-01T00:00:00+05:30")),
]


@pytest.mark.parametrize(("declared", "value"), DECLARED)
def test_a_value_of_a_declared_type_comes_back_as_that_type(declared: Any, value: Any) -> None:
    kind = ResultType(declared)
    assert difference(value, kind.decode(kind.encode(value))) is None


BERLIN, NAMED = ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=1), "CET")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({8, 1}, '{"$":["set",[1,8]]}'),
        ("half \ud800 a pair", '"half \\ud800 a pair"'),
        ("é", '"é"'),
        (datetime(2026, 1, 1, tzinfo=UTC), '{"$":["datetime","2026-01-01T00:00:00",0,[0,0,0,null]]}'),
        (datetime(2026, 1, 1, tzinfo=NAMED), '{"$":["datetime","2026-01-01T00:00:00",0,[0,3600,0,"CET"]]}'),
        (time(1, tzinfo=timezone(timedelta(hours=-5))), '{"$":["time","01:00:00",0,[-1,68400,0,null]]}'),
        (datetime(2026, 1, 1, tzinfo=BERLIN, fold=1), '{"$":["datetime","2026-01-01T00:00:00",1,"Europe/Berlin"]}'),
    ],
)
def test_a_value_has_one_text(value: Any, text: str) -> None:
    assert to_text(value) == text
    assert text.encode()
    back = from_text(text)
    assert back == value
    if isinstance(value, datetime):
        assert (back.utcoffset(), back.tzname()) == (value.utcoffset(), value.tzname())


@pytest.mark.parametrize("text", ['{"$":["unknown",1]}', '{"$":["decimal","1"],"a":1}', '{"$":["declared",1],"a":1}'])
def test_what_has_more_than_a_mark_or_an_unknown_one_is_a_plain_object(text: str) -> None:
    assert ResultType().decode(text) == json.loads(text)


def wrapped(levels: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(levels - 1):
        value = wrap(value)
    return value


WRAPS: tuple[Callable[[Any], Any], ...] = (
    lambda inner: [inner],
    lambda inner: (inner,),
    lambda inner: {"a": inner},
    lambda inner: {1: inner},
)


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_value_has_at_most_64_levels(wrap: Callable[[Any], Any]) -> None:
    assert to_text(wrapped(64, wrap))
    with pytest.raises(Unstorable, match="more than 64 levels deep"):
        to_text(wrapped(65, wrap))


@pytest.mark.parametrize("wrap", WRAPS)
def test_so_has_one_that_is_stored_without_a_type(wrap: Callable[[Any], Any]) -> None:
    assert to_plain_text(wrapped(64, wrap), json.dumps)
    round_and_round: dict[str, Any] = {}
    round_and_round["a"] = round_and_round
    for value in (wrapped(65, wrap), endless(), round_and_round):
        with pytest.raises(Unstorable, match="more than 64 levels deep"):
            to_plain_text(value, json.dumps)


def test_so_has_a_key() -> None:
    assert to_text({wrapped(63, WRAPS[1]): 1})
    with pytest.raises(Unstorable, match="more than 64 levels deep"):
        to_text({wrapped(64, WRAPS[1]): 1})


def test_what_json_has_is_stored_as_plain_json() -> None:
    value = {"statusCode": 200, "body": "é", "price": 1.5, "tags": ["a", None, True]}
    assert json.loads(ResultType(dict[str, Any]).encode(value)) == value


class Other(tzinfo):
    """A time zone of a library's."""

    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=1)

    dst = tzname = lambda self, dt: None


WESTWARD = timezone(timedelta(hours=-4), "EDT")


@pytest.mark.parametrize(
    ("moment", "zone"),
    [
        (datetime(2026, 7, 2, tzinfo=Other()), timezone(timedelta(hours=1))),
        (datetime(2026, 7, 2, tzinfo=WESTWARD), WESTWARD),
        (datetime(2026, 7, 2, tzinfo=ZoneInfo("America/New_York")), ZoneInfo("America/New_York")),
        (datetime(2026, 7, 2), None),  # noqa: DTZ001 - one without a zone
    ],
)
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [(1, {"at": one})]])
def test_a_plain_moment_of_a_zone_without_a_name_comes_back_at_its_offset(
    moment: datetime, zone: tzinfo | None, wrap: Callable[[Any], Any]
) -> None:
    back = from_text(to_plain_text(wrap(moment), json.dumps))
    assert back == wrap(moment)
    assert difference(wrap(moment.replace(tzinfo=zone)), back) is None


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


def zone(key: str | None) -> ZoneInfo:
    """A time zone that is read from a file, always at UTC."""
    counts = b"".join(number.to_bytes(4, "big") for number in (0, 0, 0, 0, 1, 4))
    return ZoneInfo.from_file(BytesIO(b"TZif" + bytes(16) + counts + bytes(6) + b"UTC\0"), key=key)


def with_private(value: int) -> Open:
    found = Open()
    found._private = value
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
    (None, datetime(2026, 1, 1, tzinfo=zone(None)), "a time zone of the type ZoneInfo, which would be lost"),
    (None, datetime(2026, 1, 1, tzinfo=zone("No/Where")), r"a datetime that does not come back \(ZoneInfoNotFound"),
    (Open, Open.model_validate({"more": Color.RED}), r"fields\['more'\] is a Color, and would come back as a str"),
    (Open, with_private(3), r"private attributes\['_private'\] is an int, and would come back as another one"),
    (Wide, Wide(anything=Place(1, Decimal("1"))), "result.anything is a Place, and would come back as a"),
    (Wide, Wide(anything=object()), "result.anything is an object, which has no text in JSON"),
    (Stubborn, Stubborn(own=1), r"result is a Stubborn that does not come back \(PydanticSerializationError\)"),
]


@pytest.mark.parametrize(("declared", "value", "why"), REFUSED, ids=[why for _, _, why in REFUSED])
def test_what_would_not_come_back_is_refused_with_its_place_and_type(declared: Any, value: Any, why: str) -> None:
    with pytest.raises(Unstorable, match=why) as refused:
        ResultType(declared).encode(value)
    assert "4111" not in str(refused.value)


def test_values_that_python_calls_equal_differ() -> None:
    assert difference(1, True) == "result is an int, and would come back as a bool; declare its type"
    assert difference({"a": 1, 2: 3}, {"a": 1, 2: True}) == (
        "result[int] is an int, and would come back as a bool; declare its type"
    )
    assert str(difference({"a": 1}, {"a": True})).startswith("result['a'] is an int")
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
    with pytest.raises(Unstorable, match="the declared type does not take it"):
        ResultType(Stubborn).decode('{"$":["declared",{"own":4111}]}')


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

    def misspelt() -> "not a type": ...  # type: ignore[valid-type]  # noqa: F722 - that is the point

    with pytest.raises(TypeError, match=r"its annotations cannot be read"):
        result_type(misspelt)
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


@pytest.mark.slow("tries generated texts")
@given(values)
def test_any_nested_value_comes_back_exactly(value: Any) -> None:
    assert difference(value, from_text(to_text(value))) is None
