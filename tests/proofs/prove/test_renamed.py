"""Rows of the tables hold while variables are renamed, and for no other guard than that which they were written for."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import Final

import pytest

from tests.proofs.prove import code as made_by
from tests.proofs.prove.elsewhere import TESTED
from tests.proofs.prove.harmless import HARMLESS
from tests.proofs.prove.mutant import Mutant, Scope
from tests.proofs.prove.mutants import Mutants
from tests.proofs.prove.renamed import differ_in_variables, scope_of, variables, with_names_of
from tests.proofs.prove.tree import Source

CONVENTIONS: Final = frozenset({"self", "emitter", "call_off"})
"""Variables that ``left_alone.STATEMENTS`` knows by their names."""

SCOPE: Final = Scope({"item", "other"}, {"Ending", "len"})


class NoChange:
    def apply(self) -> None: ...

    def undo(self) -> None: ...


def mutants(*guards: str, scope: Scope = SCOPE) -> list[Mutant]:
    return [
        Mutant(number, f"a.f: {guard} → forced true", "a.py", 1, NoChange(), scope)
        for number, guard in enumerate(guards)
    ]


@pytest.mark.parametrize(
    ("row", "now", "holds"),
    [
        ("found is None", "item is None", True),
        ("found.found(one, found=1) == 'found'", "item.found(other, found=1) == 'found'", True),
        ("item is None", "other is None", False),
        ("found is None", "item is not None", False),
        ("found < 1", "item < 2", False),
        ("found == 'a'", "item == 'b'", False),
        ("found.done", "item.ended", False),
        ("found.done", "item.other", False),
        ("f(found=1)", "f(item=1)", False),
        ("found is Ending", "item is len", False),
        ("isinstance(found, Ending)", "isinstance(item, other)", False),
        ("found < one", "item < item", False),
        ("found < found", "item < other", False),
        ("found < item", "item < item", False),
        ("found < 1", "gone < 1", False),
        ("found and one", "item and other", True),
        ("'found'", "item", False),
    ],
)
def test_which_guard_is_the_same_but_for_its_variables(row: str, now: str, holds: bool) -> None:
    assert differ_in_variables(f"a.f: {row} → forced true", f"a.f: {now} → forced true", SCOPE) == holds


def test_the_second_of_two_that_read_alike_is_not_the_first() -> None:
    assert not differ_in_variables("a.f: found → forced true", "a.f: item → forced true (2)", SCOPE)


def test_a_mutant_keeps_the_name_that_a_row_has_for_it() -> None:
    row = "a.f: found is None → forced true"
    kept = with_names_of([row], mutants("item is None", "item.done"))
    assert [one.name for one in kept] == [row, "a.f: item.done → forced true"]


@pytest.mark.parametrize(
    ("rows", "guards"),
    [
        (["found is None"], ["item is None", "other is None"]),
        (["found is None", "one is None"], ["item is None"]),
        (["found is None"], ["item is not None"]),
    ],
    ids=["of two guards", "by two rows", "of a guard that has changed"],
)
def test_nobody_guesses_what_is_meant(rows: list[str], guards: list[str]) -> None:
    there = mutants(*guards)
    assert with_names_of([f"a.f: {row} → forced true" for row in rows], there) == there


def test_a_guard_that_a_row_quotes_as_it_is_is_left_to_that_row() -> None:
    there = mutants("item is None", "found is None", scope=Scope({"item", "found"}, ()))
    rows = ["a.f: found is None → forced true", "a.f: one is None → forced true"]
    assert [one.name for one in with_names_of(rows, there)] == [rows[1], rows[0]]


def test_a_row_is_of_its_function() -> None:
    there = mutants("item is None")
    assert with_names_of(["a.g: found is None → forced true"], there) == there


def test_what_a_function_binds() -> None:
    [function] = ast.parse(
        """
def f(a, *b, c=0, **d):
    e, (g, *h) = a
    for i in b:
        with c as j:
            k: int = i
    try:
        l = [m for m in d if (n := m)]
    except ValueError as o:
        match o:
            case {"p": p, **q} | [p, *q] | (int() as p):
                return len(lambda r: r.s(t=u))
"""
    ).body
    assert isinstance(function, ast.FunctionDef)
    assert set(variables(function)) == set("abcdeghijklmnopqr")
    assert {"Code", "len"} <= set(scope_of(function, made_by).outside)


MOST_STALE: Final = 10
"""Rows that go stale when their variables are renamed: a guard of the same function reads alike then, or a formatted
text has the variable. A row that is added says more of what is near its variable: a call, an attribute."""


@pytest.mark.proof("makes all mutants twice")
def test_whatever_variables_are_renamed_no_row_holds_for_another_guard_and_few_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All variables of all functions at once."""
    before = Mutants().all
    monkeypatch.setattr(made_by, "Source", WithOtherNames)
    pairs = list(zip(before, Mutants().all, strict=True))
    assert all(one.function == now.function for one, now in pairs)
    assert [one.name for one, now in pairs if _row(one.name) != _row(now.name)] == []
    assert [one.name for one, now in pairs if now.name in HARMLESS and now.name != one.name] == []
    stale = [one.name for one, now in pairs if one.name in HARMLESS and now.name != one.name]
    assert len(stale) <= MOST_STALE, stale


class WithOtherNames(Source):
    """A module whose functions have other variables."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        for _, function in self.functions():
            _rename(function, frozenset(variables(function)) - CONVENTIONS)


def _rename(function: ast.FunctionDef, names: Collection[str]) -> None:
    for node in ast.walk(function):
        for field in ("id", "arg", "name", "rest"):
            is_keyword = isinstance(node, ast.keyword | ast.FunctionDef)
            if not is_keyword and (name := getattr(node, field, None)) in names:
                setattr(node, field, f"{name}_")


def _row(name: str) -> int | None:
    return next((place for place, one in enumerate(TESTED) if re.match(one.pattern, name)), None)
