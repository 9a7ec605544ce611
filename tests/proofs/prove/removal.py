"""What a mutant takes away from a piece of syntax, and the probes that see whether it matters."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.proofs.prove import probes
from tests.proofs.prove.tree import Edit, Slot

Probe: TypeAlias = Callable[[int], None]
"""Puts the probe of the mutant with that number into the tree."""


@dataclass(frozen=True)
class Removal:
    """``guard`` is the source that loses something, ``change`` what: ``forced true``."""

    node: ast.AST
    guard: str
    change: str
    edits: Sequence[Edit]
    probe: Probe


Found: TypeAlias = Iterator[Removal]


def text(node: ast.AST) -> str:
    """On one line, and not too long."""
    found = " ".join(ast.unparse(node).split())
    return found if len(found) <= 110 else f"{found[:109]}…"


def probe_call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name(probes.NAME, ast.Load()), name, ast.Load()), list(arguments), [])


def constant(value: Any) -> ast.expr:
    return ast.Constant(value)


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def on_truth(slot: Slot, *, of: bool) -> Probe:
    """Matters where the condition is ``of``."""

    def put(number: int) -> None:
        if_true, if_false = (number, None) if of else (None, number)
        slot.put(probe_call("truth", constant(if_true), constant(if_false), slot.get()))

    return put


def always(slot: Slot) -> Probe:
    """Matters where the expression is evaluated."""
    return lambda number: slot.put(probe_call("truth", constant(number), constant(number), slot.get()))


def on_value(slot: Slot, new: ast.expr) -> Probe:
    """Matters where the new expression has another value."""
    other = ast.Lambda(_no_arguments(), copy.deepcopy(new))
    return lambda number: slot.put(probe_call("differs", constant(number), slot.get(), other))


def on_statement(slot: Slot) -> Probe:
    def put(number: int) -> None:
        slot.put(ast.If(probe_call("reached", constant(number)), [slot.get()], []))

    return put
