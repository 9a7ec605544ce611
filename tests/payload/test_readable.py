"""Texts that are read again: what would come back as something else is refused, by its field and without its value."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    SerializeAsAny,
    computed_field,
    field_serializer,
    field_validator,
    model_validator,
)
from typing_extensions import TypeAliasType, TypedDict

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


class Turning(RootModel[list[int]]):
    @model_validator(mode="after")
    def turns(self) -> Turning:
        self.root = self.root[::-1]
        return self


class Generic(BaseModel):
    number: Secret[str] = Secret(SECRET)


Aliased = TypeAliasType("Aliased", SecretStr)


class UnderAName(BaseModel):
    number: Aliased = SecretStr(SECRET)


class Pair(TypedDict):
    number: SecretStr


class InTyped(BaseModel):
    pair: Pair = {"number": SecretStr(SECRET)}


@dataclass
class Held:
    number: SecretStr


class InData(BaseModel):
    held: Held = Held(SecretStr(SECRET))


class Filled(BaseModel):
    notes: dict[str, int] = Field(default_factory=dict, exclude=True)


def filled() -> Filled:
    value = Filled()
    value.notes["a"] = 1
    return value


class Counting(RootModel[list[int]]):
    @model_validator(mode="after")
    def counts(self) -> Counting:
        self.root = [number + 1 for number in self.root]
        return self


class Charge(BaseModel):
    total: int


class Refund(BaseModel):
    total: int


class Larger(Charge):
    more: int = 1


class Booking(BaseModel):
    moves: list[Charge | Refund]


class Cents(BaseModel):
    total: int

    @field_validator("total")
    @classmethod
    def in_cents(cls, total: int) -> int:
        return total * 100


class Basket(BaseModel):
    lines: list[SerializeAsAny[Charge]]


class Dropping(BaseModel):
    notes: dict[str, int]

    @field_validator("notes")
    @classmethod
    def drops(cls, notes: dict[str, int]) -> dict[str, int]:
        return {}


class Chosen(BaseModel):
    x: str = Field(default="", validation_alias=AliasChoices("in_x", "x"), serialization_alias="out_x")  # type: ignore[pydantic-alias]  # as users write


class AroundAliases(BaseModel):
    inner: ReadAsWithDefault


class OnlyOnce(BaseModel):
    total: int

    @field_validator("total")
    @classmethod
    def below_two(cls, total: int) -> int:
        if total >= 2:
            raise ValueError("too many")
        return total + 1


class Traced(BaseModel):
    order_id: str = "o-1"
    trace: object = Field(default_factory=object, exclude=True)


class Sometimes(BaseModel):
    total: Decimal | None = Field(default=None, exclude_if=lambda total: total is None or total < 0)

    @field_serializer("total")
    def rounded(self, total: Decimal) -> str:
        return f"{total:.2f}"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Order(cards={"c": [Card(), Card(number=SecretStr(SECRET))]}), "cards.number: a secret does not travel"),
        (Bytes(), "number: a secret does not travel"),
        (LeftOut(note=SECRET), "note: exclude= leaves it out"),
        (Around(inner=LeftOut(note=SECRET)), "inner.note: exclude= leaves it out"),
        (Generic(), "number: a secret does not travel"),
        (UnderAName(), "number: a secret does not travel"),
        (InTyped(), "pair: a secret does not travel"),
        (InData(), "held: a secret does not travel"),
        (filled(), "notes: exclude= leaves it out"),
        (Traced(trace=7), "trace: exclude= leaves it out"),
        (Sometimes(total=Decimal(-1)), "total: exclude= leaves it out"),
        (Booking(moves=[Charge(total=1), Refund(total=1)]), "moves: Refund comes back as Charge; give the models"),
        (Computed(), "again as Computed: twice: Extra inputs are not permitted"),
        (ReadAs(in_x=SECRET), "again as ReadAs: in_x: Field required"),
        (ReadAsWithDefault(in_x=SECRET), "out_x changes; are the aliases"),
        (Least.model_construct(total=-1), "again as Least: total: Input should be greater"),
        (Counting([1]), "0 changes each time that it is read"),
        (Cents.model_construct(total=7), "total changes each time that it is read"),
        (Basket(lines=[Larger(total=1)]), "lines.0.more is written, and is not read"),
        (Dropping.model_construct(notes={"a": 1}), "notes.a is written, and is not read"),
        (Chosen(in_x=SECRET), "out_x changes; are the aliases"),
        (AroundAliases(inner=ReadAsWithDefault(in_x=SECRET)), "inner.out_x changes; are the aliases"),
        (OnlyOnce.model_construct(total=1), "total changes, and what becomes of it would not be read"),
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


class Numbers(BaseModel):
    numbers: set[int]
    _sum: int = PrivateAttr(default=0)


def in_another_order() -> Numbers:
    """Return a model whose set has the order of a large set. One that is made of its text has another order."""
    numbers = set(range(1_000))
    numbers.difference_update(set(range(1_000)) - {5, 8, 900})
    value = Numbers.model_construct(numbers=numbers)
    value._sum = 913
    return value


class Touched(BaseModel):
    """Each read makes its time anew."""

    touched_at: float = 0

    @model_validator(mode="after")
    def touches(self) -> Touched:
        self.touched_at = next(MOMENTS)
        return self


MOMENTS = itertools.count(1.0)


class Mail(BaseModel):
    """It is read under the name under which it is written, in the form that its validator gives it."""

    model_config = ConfigDict(populate_by_name=True)
    address: str = Field(alias="ADDRESS")
    names: set[str] = set()

    @field_validator("address")
    @classmethod
    def lowers(cls, address: str) -> str:
        return address.lower()


class Renamed(BaseModel):
    x: str = Field(default="", validation_alias=AliasChoices("in_x", "x"))  # type: ignore[pydantic-alias]  # as users write

    @field_validator("x")
    @classmethod
    def lowers(cls, x: str) -> str:
        return x.lower()


class Member(BaseModel):
    model_config = ConfigDict(frozen=True)
    name: str


class Members(BaseModel):
    """pydantic makes no dict of it, for a dict cannot be in a set. Its None is why somebody looks for NaN."""

    members: set[Member]
    note: str | None = None


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
        Traced(),
        Booking(moves=[Charge(total=1), Larger(total=1)]),
        Sometimes(total=Decimal("1.005")),
        in_another_order(),
        Touched(),
        Mail.model_construct(address="A@EXAMPLE.ORG", names={"b", "a", "c"}),
        Renamed.model_construct(x="A"),
        Members(members={Member(name="a")}),
    ],
)
def test_what_comes_back_as_its_author_means_it_travels(value: BaseModel) -> None:
    assert written(type(value), value, what="it") == encode(value)


class At(BaseModel):
    at: Any


def test_a_moment_in_a_named_zone_travels() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC).astimezone(ZoneInfo("Europe/Berlin"))
    assert written(At, At(at=moment), what="it") == '{"at":"2026-01-02T01:00:00+01:00"}'


class LargerOrder(Order):
    more: int = 1


def test_a_derived_model_is_read_as_the_declared_one() -> None:
    assert '"more":1' in written(Order, LargerOrder(), what="it")


@pytest.mark.parametrize("value", ["text", {"n": 1}])
def test_text_and_dicts_travel_as_they_are(value: str | dict[str, Any]) -> None:
    assert written(type(value), value, what="it") == encode(value)


def test_the_hidden_fields_of_a_model_are_those_of_models_inside_it_too() -> None:
    assert hidden_fields(Order) == ("Card.number",)
    assert hidden_fields(Around) == ("LeftOut.note",)
    assert hidden_fields(Computed) == ()
    assert hidden_fields(Generic) == ("Generic.number",)


def test_a_field_that_is_left_out_by_its_value_is_not_always_hidden() -> None:
    assert hidden_fields(Sometimes) == ()


def test_another_order_of_a_list_is_a_change() -> None:
    with pytest.raises(PayloadLost, match="0 changes each time that it is read"):
        written(Turning, Turning([1, 2]), what="it")


def test_it_is_a_failure_for_good_and_a_type_error() -> None:
    assert issubclass(PayloadLost, RunFailed)
    assert issubclass(PayloadLost, TypeError)
