"""A value is what a frozen dataclass would have been, for less."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from flowguard.destinations import Bus, Queue
from flowguard.startup.value import Value, fresh


class Place(Value):
    """A place."""

    name: str
    size: int = 3

    @property
    def shown(self) -> str:
        return f"{self.name} of {self.size}"


class Other(Value):
    name: str
    size: int = 3


class Small(Value):
    size: int

    def __post_init__(self) -> None:
        if self.size > 9:
            raise ValueError(f"{self.size} is too large")


@pytest.mark.parametrize("place", [Place("a", 2), Place("a", size=2), Place(size=2, name="a")], ids=repr)
def test_its_fields_are_given_by_position_or_by_name(place: Place) -> None:
    assert (place.name, place.size, place.shown) == ("a", 2, "a of 2")
    assert repr(place) == "Place(name='a', size=2)"


def test_help_shows_how_it_is_made() -> None:
    assert str(inspect.signature(Place)) == "(name: 'str', size: 'int' = 3)"


def test_a_field_may_have_a_default() -> None:
    assert Place("a") == Place("a", 3)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((), {"size": 3}), (("a", 3, 4), {}), (("a",), {"name": "b"}), (("a",), {"sise": 3})],
    ids=["nothing", "one missing", "too many", "one twice", "one misspelt"],
)
def test_other_arguments_are_refused_with_the_form(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    make: Any = Place
    with pytest.raises(TypeError, match=r"Place is made of \(name, size=…\), each of them once"):
        make(*args, **kwargs)


def test_it_is_equal_to_its_own_kind_alone() -> None:
    assert Place("a") == Place("a")
    assert hash(Place("a")) == hash(Place("a"))
    assert Place("a") != Place("b")
    assert Place("a") != Other("a")
    assert Place("a") != ("a", 3)
    assert len({Place("a"), Place("a"), Other("a")}) == 2


def test_its_fields_cannot_be_set_or_removed() -> None:
    place: Any = Place("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
        place.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
        del place.name
    assert place == Place("a")


def test_it_checks_itself_when_it_is_made_and_when_it_is_changed() -> None:
    with pytest.raises(ValueError, match="10 is too large"):
        Small(10)
    with pytest.raises(ValueError, match="11 is too large"):
        Small(1)._replace(size=11)
    assert Small(1)._replace(size=2) == Small(2)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda place: pickle.loads(pickle.dumps(place))])  # noqa: S301 - made here
def test_it_can_be_copied_and_pickled(copied: Any) -> None:
    assert copied(Place("a")) == Place("a")


def test_it_is_matched_by_position() -> None:
    bus: object = Bus("b", "shop", "OrderPlaced")
    match bus:
        case Queue(_):
            pytest.fail("a bus is no queue")
        case Bus(name, source, detail_type):
            assert (name, source, detail_type) == ("b", "shop", "OrderPlaced")
        case _:
            pytest.fail("it was not matched")


class Basket(Value):
    name: str
    items: list[str] = fresh(default_factory=list)


def test_a_default_may_be_made_for_each_value() -> None:
    first, second = Basket("a"), Basket("a")
    assert first == second == Basket("a", [])
    assert first.items is not second.items
    assert Basket("a", ["b"]).items == Basket("a", items=["b"]).items == ["b"]
    assert str(inspect.signature(Basket)) == "(name: 'str', items: 'list[str]' = list())"
