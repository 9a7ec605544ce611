"""A mutant keeps the name that a table has for it while local variables of its function are renamed.

A table quotes a guard as it was written when the row was. Where no guard reads like that any more, the row holds for
the one guard of its function that differs from it in names of local variables alone. A row holds for none where the
guard has changed, or where it may be meant of two: then it is stale.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Final

from tests.proofs.prove.mutant import Mutant, Scope

_TOKENS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\.?[^\W\d]\w*(?:=(?!=))?|\S")
"""Texts, names, and all else but spaces. An attribute has its dot, a named argument its sign: they are no variables."""


def scope_of(function: ast.FunctionDef, module: ModuleType) -> Scope:
    """The variables of a function and of what is defined inside of it, beside the names that are none of its own."""
    return Scope(frozenset(variables(function)), vars(module).keys() | vars(builtins).keys())


def variables(function: ast.FunctionDef) -> Iterator[str]:
    """Each name that is given a value there: parameters, and whatever a statement or a pattern binds."""
    for node in ast.walk(function):
        match node:
            case ast.arg(name) | ast.Name(name, ast.Store()):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
            case _:
                pass


def with_names_of(rows: Collection[str], mutants: Sequence[Mutant]) -> list[Mutant]:
    """The mutants, those under the names of the rows that mean them. Each row means one, and no two the same."""
    meant = _meant(rows, mutants)
    return [replace(mutant, name=meant.get(mutant.number, mutant.name)) for mutant in mutants]


def _meant(rows: Collection[str], mutants: Sequence[Mutant]) -> Mapping[int, str]:
    names, known = {mutant.name for mutant in mutants}, frozenset(rows)
    left: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        if mutant.name not in known:
            left[mutant.function].append(mutant)
    found = {row: _renamed(row, left[row.partition(":")[0]]) for row in known - names}
    times = Counter(number for numbers in found.values() for number in numbers)
    return {numbers[0]: row for row, numbers in found.items() if len(numbers) == 1 == times[numbers[0]]}


def _renamed(row: str, mutants: Iterable[Mutant]) -> list[int]:
    return [mutant.number for mutant in mutants if differ_in_variables(row, mutant.name, mutant.scope)]


def differ_in_variables(row: str, name: str, scope: Scope) -> bool:
    """Answer whether the guard of that name is the row's but for variables of its function, each renamed throughout.

    A variable that is there still was not renamed: it was exchanged for another one.
    """
    before, after = _TOKENS.findall(row), _TOKENS.findall(name)
    if len(before) != len(after):
        return False
    pairs = set(zip(before, after, strict=True))
    changed = {(old, new) for old, new in pairs if old != new}
    if not all(scope.may_have_renamed(old, new) for old, new in changed):
        return False
    olds, news = {old for old, _ in changed}, {new for _, new in changed}
    return len(olds) == len(news) == len(changed) == sum(new in news for _, new in pairs)
