"""The mutants of flowguard's own code: every rule at every place of the modules that decide."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.proofs.prove.left_alone import FIELDS, is_left, only_tells, reason
from tests.proofs.prove.mutant import Mutant, Scope
from tests.proofs.prove.removal import Found, Probe, Removal
from tests.proofs.prove.renamed import scope_of
from tests.proofs.prove.rules import (
    amounts,
    answers,
    branches,
    comparisons,
    conditions,
    entries,
    named_arguments,
    orders,
    statements,
    updates,
)
from tests.proofs.prove.tree import CodeChange, Slot, Source, exchange

NEUTRAL: Final[Mapping[str, str | int]] = {
    "dispatch": 1,
    "_send": 1,
    "send": "{}",
    "commit": "Committed()",
    "send_message_batch": "{}",
    "publish_batch": "{}",
    "put_events": "{'Entries': []}",
    "patiently": "{}",
}
"""Calls with an effect whose answer is used, and what stands for the answer: a source, or an argument's place."""

CARRIERS: Final = frozenset(
    {"Commit", "RunItem", "Ending", "Send", "Message", "replace", "self._replace", "ClaimRequest"}
)
"""Values that are carried on: each loses each of its named fields once."""

CHANGED_IN: Final = ("protocol.claims.taken", "aws.waits._after", "worker.hop_memory.HopMemory.remember")
"""Functions that carry on a changed value of another variable than ``self``."""


class Code:
    """All mutants of one module, numbered from ``first``, and the module with probes for them."""

    def __init__(self, module: str, first: int) -> None:
        self.source = Source(module)
        self._short = module.removeprefix("flowguard.")
        self._probes: list[tuple[int, str, Probe]] = []
        self.mutants: list[Mutant] = []
        names: Counter[str] = Counter()
        for function, node in self.source.functions():
            if reason(f"{self._short}.{function}") is None:
                self._add_all(function, node, first, names)

    def _add_all(self, function: str, node: ast.FunctionDef, first: int, names: Counter[str]) -> None:
        scope = scope_of(node, self.source.module)
        changed = {f"{name}._replace" for name in scope.variables if f"{self._short}.{function}" in CHANGED_IN}
        for removal in _removals(node, CARRIERS | changed):
            self._add(function, removal, first + len(self.mutants), names, scope)

    def _add(self, function: str, removal: Removal, number: int, names: Counter[str], scope: Scope) -> None:
        name = f"{self._short}.{function}: {removal.guard} → {removal.change}"
        names[name] += 1
        if names[name] > 1:
            name += f" ({names[name]})"
        change = CodeChange(self.source, function, removal.edits)
        line: int = getattr(removal.node, "lineno", 0)
        self.mutants.append(Mutant(number, name, self.source.file, line, change, scope))
        self._probes.append((number, function, removal.probe))

    def put_probes(self) -> None:
        """For good: the process is one that only watches from now on."""
        for number, _, probe in self._probes:
            probe(number)
        exchange(self.source, list(dict.fromkeys(function for _, function, _ in self._probes)))


def _removals(function: ast.FunctionDef, carriers: frozenset[str]) -> Found:
    for slot in _slots(function):
        node = slot.get()
        yield from conditions(node)
        yield from comparisons(slot)
        yield from amounts(slot)
        yield from entries(slot, is_left)
        yield from named_arguments(slot, carriers, FIELDS)
        yield from answers(slot, NEUTRAL)
        yield from updates(slot)
        yield from branches(node)
        yield from statements(slot, only_tells)
        yield from orders(node, NEUTRAL, only_tells)
    yield from orders(function, NEUTRAL, only_tells)


def _slots(node: ast.AST) -> Iterator[Slot]:
    """Everything in a function's body that has to do with what it decides, outside in."""
    for field, value in _fields(node):
        places: Sequence[int | None] = range(len(value)) if isinstance(value, list) else [None]
        for place in places:
            slot = Slot(node, field, place)
            child = slot.get()
            if isinstance(child, ast.AST) and not _is_for_people(child):
                yield slot
                yield from _slots(child)


def _fields(node: ast.AST) -> Iterator[tuple[str, object]]:
    skipped = {"args", "decorator_list", "returns"} if isinstance(node, ast.FunctionDef) else set()
    return ((field, value) for field, value in ast.iter_fields(node) if field not in skipped)


def _is_for_people(node: ast.AST) -> bool:
    """See ``left_alone.TEXTS``."""
    match node:
        case ast.JoinedStr() | ast.AnnAssign(value=None):
            return True
        case ast.Raise() | ast.Expr(ast.Constant()):
            return True
        case ast.Expr(ast.Call()) as statement:
            return only_tells(ast.unparse(statement))
        case _:
            return False
