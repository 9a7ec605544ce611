"""Each rule takes away what it says, at every place where it fits."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.prove import probes
from tests.proofs.prove import tree as trees
from tests.proofs.prove.code import Code
from tests.proofs.prove.mutant import Mutant

Make = Any


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """A module of this source, and all its mutants."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(trees, "within", lambda path: Path(path).name)

    def made(source: str) -> Code:
        name = f"proved_{len(list(tmp_path.iterdir()))}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        return Code(name, 0)

    yield made
    for name in [name for name in sys.modules if name.startswith("proved_")]:
        del sys.modules[name]


def said(code: Code) -> list[str]:
    return [mutant.name.partition(": ")[2] for mutant in code.mutants]


def answers(code: Code, *arguments: Any) -> dict[str, Any]:
    """What the function ``f`` answers under each mutant."""
    found: dict[str, Any] = {}
    for mutant, name in zip(code.mutants, said(code), strict=True):
        with mutant.at_work():
            try:
                found[name] = code.source.module.f(*arguments)
            except Exception as error:
                found[name] = type(error).__name__
    return found


def test_conditions_are_forced_and_operands_dropped(make: Make) -> None:
    code = make(
        """
        def f(a, b):
            if a and b > 3:
                return 1
            return 2
        """
    )
    assert answers(code, True, 3) == {
        "a and b > 3 → forced true": 1,
        "a and b > 3 → forced false": 2,
        "a → forced true": 2,
        "b > 3 → forced true": 1,
        "b > 3 → becomes b >= 3": 1,
    }


def test_what_was_changed_is_as_it_was_afterwards(make: Make) -> None:
    code = make("def f(a):\n    return 1 if a else 2\n")
    before, tree = code.source.module.f.__code__, ast.dump(code.source.tree)
    assert answers(code, True) == {"a → forced true": 1, "a → forced false": 2}
    assert code.source.module.f.__code__ is before
    assert ast.dump(code.source.tree) == tree
    assert code.source.module.f(True) == 1


def test_orders_lose_a_part_and_amounts_their_ones(make: Make) -> None:
    code = make(
        """
        def f(a, b):
            older = (a, b) < (b, a)
            return max(a + 1, b)
        """
    )
    assert answers(code, 1, 1) == {
        "(a, b) < (b, a) → forced true": 2,
        "(a, b) < (b, a) → forced false": 2,
        "(a, b) < (b, a) → becomes (a, b) <= (b, a)": 2,
        "(a, b) < (b, a) → without a": 2,
        "(a, b) < (b, a) → without b": 2,
        "max(a + 1, b) → without a + 1": 1,
        "max(a + 1, b) → without b": 2,
        "a + 1 → becomes a": 1,
    }


def test_cases_and_handlers_are_never_taken(make: Make) -> None:
    code = make(
        """
        def f(value):
            try:
                match value:
                    case 1 if value:
                        return "one"
                    case _:
                        return 1 / value
            except ZeroDivisionError:
                return "nothing"
        """
    )
    assert answers(code, 0) == {
        "except ZeroDivisionError → catches nothing": "ZeroDivisionError",
        "except ZeroDivisionError → catches every Exception": "nothing",
        "case 1 → never taken": "nothing",
        "case 1 if value → forced true": "nothing",
    }
    assert answers(code, 1)["case 1 → never taken"] == 1.0


def test_calls_are_left_out_and_neighbours_swapped(make: Make) -> None:
    code = make(
        """
        def f(told):
            told = list(told)
            told.append(1)
            told.append(2)
            return told
        """
    )
    assert answers(code, []) == {
        "told.append(1) → left out": [2],
        "told.append(2) → left out": [1],
        "told.append(1); then told.append(2) → the other way round": [2, 1],
    }


def test_what_only_tells_is_left_alone(make: Make) -> None:
    code = make(
        """
        class Talks:
            def f(self, n):
                self._emitter.emit(n if n else 0)
                raise ValueError(f"{n or 1}")

            def __str__(self):
                return "a" if self else "b"
        """
    )
    assert code.mutants == []


def test_probes_say_which_mutants_a_call_meets(make: Make) -> None:
    code = make(
        """
        class Holds:
            @staticmethod
            def f(a, b):
                if a < b or b == 9:
                    return [1, 2]
                return {}
        """
    )
    f, names = code.source.module.Holds.f, said(code)
    unprobed = f(1, 2)
    code.put_probes()

    def met(*arguments: Any) -> set[str]:
        probes.taken()
        f(*arguments)
        return {names[number] for number in probes.taken()}

    assert f(1, 2) == unprobed
    lists = {"[1, …] → left out", "[2, …] → left out"}
    assert met(1, 2) == {"a < b or b == 9 → forced false", "a < b → forced false", *lists}
    assert met(9, 9) == {
        "a < b or b == 9 → forced false",
        "b == 9 → forced false",
        "a < b → becomes a <= b",
        *lists,
    }
    assert met(3, 3) == {"a < b or b == 9 → forced true", "a < b → becomes a <= b"}


def test_a_mutant_says_where_it_is(make: Make) -> None:
    code = make("\n\ndef f(a):\n    return not a\n")
    first: Mutant = code.mutants[0]
    assert first.place == f"{code.source.module.__name__}.py:4"
    assert first.name == f"{code.source.module.__name__}.f: not a → forced true"
