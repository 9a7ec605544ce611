"""Models that need not be read again to know that they come back, and all others."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Optional
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from flowguard.errors import PayloadLost
from flowguard.payload import readable
from flowguard.payload.encoding import encode
from flowguard.payload.plain_models import is_plain
from flowguard.payload.readable import written


class Line(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    """Whatever is plain."""

    model_config = ConfigDict(frozen=False, title="An order")
    order_id: str
    paid: bool = False
    at: datetime | None = None
    day: Optional[date] = None  # noqa: UP045 - the older way to write it
    key: UUID | None = None
    lines: list[Line] = []
    notes: dict[str, str] = {}
    first: Line | None = None
    racks: dict[str, list[Line]] = {}


def lacking() -> Line:
    line = Line(sku="pen")
    del line.sku
    return line


class Named(str):
    """Its objects have a dict, which pydantic writes in the place of a model without a word."""


class Other(BaseModel):
    name: str = ""


class Bare(BaseModel):
    name: str = "bare"


class Shelf(BaseModel):
    bare: Bare = Bare()


def model(**fields: Any) -> type[BaseModel]:
    return type("Made", (BaseModel,), {"__annotations__": fields, "__module__": __name__})


def with_field(field: Any, kind: Any = str) -> type[BaseModel]:
    return type("Made", (BaseModel,), {"__annotations__": {"x": kind}, "x": field, "__module__": __name__})


class Validated(BaseModel):
    x: str

    @field_validator("x")
    @classmethod
    def upper(cls, value: str) -> str:
        return value.upper()


class Whole(BaseModel):
    x: str

    @model_validator(mode="after")
    def same(self) -> Whole:
        return self


class Serialized(BaseModel):
    x: str

    @field_serializer("x")
    def upper(self, value: str) -> str:
        return value.upper()


class SerializedWhole(BaseModel):
    x: str

    @model_serializer
    def upper(self) -> dict[str, str]:
        return {"x": self.x.upper()}


class Computed(BaseModel):
    x: str

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def twice(self) -> str:
        return self.x * 2


class Counting(BaseModel):
    x: str

    def model_post_init(self, context: object) -> None:
        self.x += "!"


class Derived(Counting):
    y: str = ""


class Private(BaseModel):
    x: str
    _cache: int = PrivateAttr(default=0)


class Colour(enum.StrEnum):
    RED = "red"


class Tree(BaseModel):
    name: str = ""
    parts: list[Tree] = []


class Forbidding(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: str


OTHERS: Final[dict[str, type[BaseModel]]] = {
    "float": model(x=float),
    "decimal": model(x=Decimal),
    "bytes": model(x=bytes),
    "any": model(x=Any),
    "enum": model(x=Colour),
    "literal": model(x=Literal["a"]),
    "set": model(x=set[str]),
    "tuple": model(x=tuple[str, ...]),
    "a bare list": model(x=list),
    "a bare dict": model(x=dict),
    "keys that are no texts": model(x=dict[int, str]),
    "a union": model(x=int | str),
    "a union of three": model(x=int | str | None),
    "a float in a list": model(x=list[float]),
    "a float in a dict": model(x=dict[str, float]),
    "a float or none": model(x=float | None),
    "a constraint in a list": model(x=list[Annotated[int, Field(ge=0)]]),
    "a model that is not plain": model(x=Validated),
    "an alias": with_field(Field(alias="y")),
    "an alias for reading": with_field(Field(default="", validation_alias="y")),
    "an alias for writing": with_field(Field(serialization_alias="y")),
    "a constraint": with_field(Field(ge=0), int),
    "a function": model(x=Annotated[str, AfterValidator(str.upper)]),
    "left out": with_field(Field(default="", exclude=True)),
    "a validator": Validated,
    "a validator of the whole": Whole,
    "a serializer": Serialized,
    "a serializer of the whole": SerializedWhole,
    "a computed field": Computed,
    "a hook": Counting,
    "a hook of its base": Derived,
    "a private attribute": Private,
    "a setting": Forbidding,
    "a root": RootModel[list[str]],
    "a model that contains itself": Tree,
}


def test_models_of_plain_fields_are_plain() -> None:
    assert is_plain(Order)
    assert is_plain(Line)


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_else_a_model_says_it_is_not(name: str) -> None:
    assert not is_plain(OTHERS[name])


lines = st.builds(Line, sku=st.text(), count=st.integers())
orders = st.builds(
    Order,
    order_id=st.text(),
    paid=st.booleans(),
    at=st.none() | st.datetimes(timezones=st.just(UTC) | st.none()),
    day=st.none() | st.dates(),
    key=st.none() | st.uuids(),
    lines=st.lists(lines, max_size=3),
    notes=st.dictionaries(st.text(), st.text(), max_size=3),
    first=st.none() | lines,
)


@given(orders)
@settings(max_examples=200)
def test_a_plain_model_is_written_as_any_other_and_comes_back(order: Order) -> None:
    text = written(Order, order, what="the order")
    assert text == encode(order)
    assert Order.model_validate_json(text) == order


def not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise AssertionError("it is read again")

    monkeypatch.setattr(readable, "_changed", read)
    monkeypatch.setattr(readable, "encode", read)


def test_a_plain_model_is_not_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    not_read(monkeypatch)
    assert written(Line, Line(sku="pen"), what="the line") == '{"sku":"pen","count":1}'
    assert '"at":null' in written(Order, Order(order_id="o1"), what="the order")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda order: setattr(order, "paid", "perhaps"),
        lambda order: setattr(order.lines[0], "count", "many"),
        lambda order: order.notes.update(a=[1]),
        lambda order: setattr(order, "at", "tomorrow"),
        lambda order: setattr(order, "first", "this"),
    ],
)
def test_a_value_of_another_type_that_was_assigned_is_noticed(spoil: Callable[[Order], object]) -> None:
    order = Order(order_id="o1", lines=[Line(sku="pen")])
    spoil(order)
    with (
        pytest.warns(UserWarning, match="Pydantic serializer"),
        pytest.raises(PayloadLost, match="the order would not be read again as Order"),
    ):
        written(Order, order, what="the order")


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(TypeError, match="cannot become JSON"):
        written(Line, Line.model_construct(sku="\ud800", count=1), what="the line")


@pytest.mark.parametrize(
    ("spoil", "place"),
    [
        (lambda order: setattr(order, "order_id", None), "order_id"),
        (lambda order: setattr(order.lines[0], "count", None), "lines.0.count"),
        (lambda order: order.notes.update(a=None), "notes.a"),
        (lambda order: delattr(order, "order_id"), "order_id"),
        (lambda order: delattr(order.lines[0], "sku"), "lines.0.sku"),
        (lambda order: setattr(order, "first", Named("a line")), "first.sku"),
        (lambda order: setattr(order, "first", Other()), "first.sku"),
        (lambda order: order.racks.update(a=[lacking()]), "racks.a.0.sku"),
    ],
)
def test_a_value_that_is_missing_is_noticed(spoil: Callable[[Order], object], place: str) -> None:
    order = Order(order_id="o1", lines=[Line(sku="pen")], at=datetime(2026, 1, 2, tzinfo=UTC), day=date(2026, 1, 2))
    spoil(order)
    with pytest.raises(PayloadLost, match=f"the order would not be read again as Order: {place}"):
        written(Order, order, what="the order")


def test_a_tree_that_is_deeper_than_pydantic_reads_is_refused() -> None:
    tree = Tree()
    for _ in range(120):
        tree = Tree(parts=[tree])
    with pytest.raises(PayloadLost, match="recursion limit"):
        written(Tree, tree, what="the tree")


def test_another_model_in_the_place_of_one_with_defaults_is_refused() -> None:
    shelf = Shelf()
    shelf.bare = Line(sku="pen")  # type: ignore[assignment]  # as who does not check types
    with pytest.raises(PayloadLost, match=r"bare\.name is read, and is not written"):
        written(Shelf, shelf, what="the shelf")


class Longer(Line):
    more: int = 1


def test_a_derived_model_inside_is_read_as_the_declared_one() -> None:
    assert written(Order, Order(order_id="o", first=Longer(sku="pen")), what="it").count("more") == 0
