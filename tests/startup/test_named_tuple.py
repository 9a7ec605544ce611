"""A named tuple is what ``typing`` would have made, for less."""

from __future__ import annotations

import pickle
import re
import typing
from pathlib import Path

import pytest

from flowguard.startup.named_tuple import NamedTuple

PACKAGE = Path(__file__).parents[2] / "flowguard"
STARTED = ("aws", "items", "names", "observers", "payload", "protocol", "recorded", "startup", "text", "wire", "worker")
"""The folders of what a function loads; and the modules at the root."""


class Cheap(NamedTuple):
    """A place."""

    name: str
    size: int = 3
    kept: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.name} of {self.size}"

    def __repr__(self) -> str:
        return "hidden"


class Pair(NamedTuple):
    left: int
    right: int


class Sized(NamedTuple):
    width: int
    height: int = 4


class Loud(NamedTuple):
    name: str

    def __len__(self) -> int:
        return super().__len__() * 10


class Outer:
    class Inner(NamedTuple):
        depth: int


class Usual(typing.NamedTuple):
    """A place."""

    name: str
    size: int = 3
    kept: tuple[str, ...] = ()


def test_it_has_what_a_named_tuple_has() -> None:
    cheap, usual = Cheap("a", size=2), Usual("a", size=2)
    assert tuple(cheap) == ("a", 2, ())
    assert cheap._asdict() == usual._asdict()
    assert tuple(cheap._replace(name="b")) == tuple(usual._replace(name="b"))
    assert Cheap._fields == Usual._fields
    assert Cheap._field_defaults == Usual._field_defaults
    assert Cheap.__match_args__ == Usual.__match_args__
    assert typing.get_type_hints(Cheap) == typing.get_type_hints(Usual)
    assert issubclass(Cheap, tuple)
    assert Cheap._make(["a", 2, ()]) == Cheap("a", 2)


def test_several_of_one_length_keep_their_own_fields() -> None:
    assert Pair(left=1, right=2) == (1, 2)
    assert Sized(width=3) == (3, 4)
    assert Sized(3)._replace(height=5) == Sized(height=5, width=3)
    assert repr(Sized(3)) == "Sized(width=3, height=4)"
    assert (Pair(1, 2).right, Sized(3).height) == (2, 4)


def test_other_fields_are_refused_with_their_names() -> None:
    with pytest.raises(ValueError, match="depth"):
        Sized(3)._replace(depth=1)  # type: ignore[call-arg]  # what is asked
    with pytest.raises(TypeError, match="depth"):
        Sized(3, depth=1)  # type: ignore[call-arg]  # what is asked


def test_a_field_without_a_default_comes_before_those_with_one() -> None:
    with pytest.raises(TypeError, match="Late has a field without a default after one that has one"):

        class Late(NamedTuple):
            first: int = 1
            second: int  # type: ignore[misc]  # what is asked


def test_its_methods_know_their_class() -> None:
    assert len(Loud("a")) == 10


def test_a_field_without_a_default_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="name"):
        Cheap()  # type: ignore[call-arg]  # what is asked


def test_it_keeps_the_methods_the_text_and_the_names_of_its_class() -> None:
    assert Cheap("a").shown == "a of 3"
    assert repr(Cheap("a")) == "hidden"
    assert Cheap.__doc__ == "A place."
    assert (Cheap.__module__, Outer.Inner.__qualname__) == (__name__, "Outer.Inner")
    assert repr(Outer.Inner(1)) == "Inner(depth=1)"


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Cheap("a"))) == Cheap("a")  # noqa: S301 - made here


def test_its_fields_cannot_be_set() -> None:
    with pytest.raises(AttributeError):
        Cheap("a").name = "b"  # type: ignore[misc]  # what is asked


def test_what_a_function_loads_is_made_of_these() -> None:
    """Those that are generic need the machinery of ``typing``."""
    files = [*PACKAGE.glob("*.py"), *(file for folder in STARTED for file in (PACKAGE / folder).rglob("*.py"))]
    dear = [
        str(file.relative_to(PACKAGE))
        for file in files
        if re.search(r"^from typing import .*\bNamedTuple\b", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert dear == ["group.py"]
