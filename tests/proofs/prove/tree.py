"""A module's syntax tree beside its living functions: the tree is changed, compiled, and put into the functions.

Only the code of a function is exchanged, never the function: whoever holds it, under whatever name, runs the new code.
Nothing is imported anew, so classes and enums stay what they are.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import inspect
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests.proofs.prove import probes
from tests.proofs.prove.mutant import within


@dataclass(frozen=True)
class Slot:
    """Where a node sits: a field of its parent, or one place of a field that is a list."""

    parent: ast.AST
    field: str
    place: int | None = None

    def get(self) -> Any:
        value = getattr(self.parent, self.field)
        return value if self.place is None else value[self.place]

    def put(self, value: Any) -> None:
        if self.place is None:
            setattr(self.parent, self.field, value)
        else:
            getattr(self.parent, self.field)[self.place] = value


@dataclass(frozen=True)
class Edit:
    slot: Slot
    new: Any


class Source:
    """``name`` is the module's. Functions are known by their qualified names: ``Batch.run``."""

    def __init__(self, name: str) -> None:
        self.module = importlib.import_module(name)
        self.path = str(self.module.__file__)
        self.file = within(self.path)
        self.tree = ast.parse(Path(self.path).read_text())

    def functions(self) -> Iterator[tuple[str, ast.FunctionDef]]:
        """Those of the module and of its classes; what is defined inside of one is a part of it."""
        yield from _functions(self.tree.body, "")

    def compiled(self, names: Sequence[str]) -> dict[str, CodeType]:
        """The code of these functions as the tree now is. Nothing else is compiled: that takes ten times as long."""
        future = [one for one in self.tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
        alone = ast.Module([*future, *_only(self.tree.body, frozenset(names), "")], [])
        ast.fix_missing_locations(alone)
        found = {code.co_qualname: code for code in _codes(compile(alone, self.path, "exec"))}
        return {name: found[name] for name in names}

    def living(self, name: str) -> FunctionType:
        """The function itself, out of whatever it is wrapped in."""
        *owners, last = name.split(".")
        owner: Any = functools.reduce(getattr, owners, self.module)
        function: Any = inspect.getattr_static(owner, last)
        while not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
            wrapped = (getattr(function, within, None) for within in ("__wrapped__", "__func__", "fget", "func"))
            function = next(one for one in wrapped if one is not None)
        return function


class CodeChange:
    """Edits of one function's tree. Between ``apply`` and ``undo`` the process runs the edited code."""

    def __init__(self, source: Source, function: str, edits: Sequence[Edit]) -> None:
        self._source = source
        self._function = function
        self._edits = edits
        self._undone: list[Edit] = []
        self._code: CodeType | None = None

    def apply(self) -> None:
        self._undone = [Edit(edit.slot, edit.slot.get()) for edit in self._edits]
        for edit in self._edits:
            edit.slot.put(edit.new)
        function = self._source.living(self._function)
        self._code = function.__code__
        try:
            function.__code__ = self._source.compiled([self._function])[self._function]
        finally:
            for edit in reversed(self._undone):
                edit.slot.put(edit.new)

    def undo(self) -> None:
        if self._code is not None:
            self._source.living(self._function).__code__ = self._code


def exchange(source: Source, names: Sequence[str]) -> dict[str, CodeType]:
    """Put the tree as it is now into these functions. Answers their code of before."""
    setattr(source.module, probes.NAME, probes)
    before: dict[str, CodeType] = {}
    for name, code in source.compiled(names).items():
        function = source.living(name)
        before[name] = function.__code__
        function.__code__ = code
    return before


def _functions(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node


def _only(body: Sequence[ast.stmt], names: Collection[str], prefix: str) -> Iterator[ast.stmt]:
    """These functions, within their classes and without what else those have."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            if within := [*_only(node.body, names, f"{prefix}{node.name}.")]:
                found = copy.copy(node)
                found.body = within
                yield found
        elif isinstance(node, ast.FunctionDef) and f"{prefix}{node.name}" in names:
            yield node


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
