"""What can be taken away from a piece of syntax: one rule for each kind, applied to every place where it fits."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

from tests.proofs.prove.expressions import Text, is_update, update_losses
from tests.proofs.prove.removal import (
    Found,
    Probe,
    Removal,
    always,
    constant,
    on_statement,
    on_truth,
    on_value,
    probe_call,
    text,
)
from tests.proofs.prove.tree import Edit, Slot

# -- conditions --------------------------------------------------------------------------------------------------------


def forced(slot: Slot, value: bool) -> Removal:
    """A condition that always or never holds. It is evaluated all the same: it may name what it has looked at."""
    node = slot.get()
    operator: ast.boolop = ast.Or() if value else ast.And()
    new = ast.BoolOp(operator, [node, constant(value)])
    change = "forced true" if value else "forced false"
    return Removal(node, text(node), change, [Edit(slot, new)], on_truth(slot, of=not value))


def is_boolean(node: ast.AST) -> bool:
    """Whether its value is True or False by its form."""
    match node:
        case ast.Compare() | ast.UnaryOp(ast.Not()):
            return True
        case ast.BoolOp():
            return all(is_boolean(value) for value in node.values)
        case _:
            return False


def conditions(node: ast.AST) -> Found:
    """Each condition forced true and forced false; each operand of an ``and`` forced true, of an ``or`` false."""
    match node:
        case ast.If() | ast.IfExp() | ast.While():
            yield from (forced(Slot(node, "test"), value) for value in (True, False))
        case ast.comprehension():
            for place in range(len(node.ifs)):
                yield from (forced(Slot(node, "ifs", place), value) for value in (True, False))
        case ast.BoolOp():
            dropped = isinstance(node.op, ast.And)
            yield from (forced(Slot(node, "values", place), dropped) for place in range(len(node.values)))
        case ast.Return() | ast.Assign() | ast.keyword() if node.value is not None and is_boolean(node.value):
            yield from (forced(Slot(node, "value"), value) for value in (True, False))


_FLIPPED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


def comparisons(slot: Slot) -> Found:
    """Strict for not strict, and the other way round; an order or an equality of several parts with one part less."""
    node = slot.get()
    if not isinstance(node, ast.Compare):
        return
    for place, operator in enumerate(node.ops):
        if (flipped := _FLIPPED.get(type(operator))) is not None:
            new = ast.Compare(node.left, [*node.ops[:place], flipped(), *node.ops[place + 1 :]], node.comparators)
            yield Removal(node, text(node), f"becomes {text(new)}", [Edit(slot, new)], on_value(slot, new))
    match node:
        case ast.Compare(ast.Tuple(left), [_], [ast.Tuple(right)]):
            for place in range(len(left)):
                shorter = [ast.Tuple(side[:place] + side[place + 1 :], ast.Load()) for side in (left, right)]
                new = ast.Compare(shorter[0], node.ops, [shorter[1]])
                change = f"without {text(left[place])}"
                yield Removal(node, text(node), change, [Edit(slot, new)], on_value(slot, new))
        case _:
            pass


# -- values ------------------------------------------------------------------------------------------------------------


def amounts(slot: Slot) -> Found:
    """``x + 1``, ``x - 1`` and ``2 * x`` become ``x``; ``max`` and ``min`` lose one of what they choose from."""
    node = slot.get()
    match node:
        case ast.BinOp(kept, ast.Add() | ast.Sub(), ast.Constant(int())) | ast.BinOp(
            ast.Constant(int()), ast.Mult(), kept
        ):
            yield Removal(node, text(node), f"becomes {text(kept)}", [Edit(slot, kept)], on_value(slot, kept))
        case ast.Call(ast.Name("min" | "max"), [_, _, *_], []):
            for place, dropped in enumerate(node.args):
                rest = node.args[:place] + node.args[place + 1 :]
                new = rest[0] if len(rest) == 1 else ast.Call(node.func, rest, [])
                change = f"without {text(dropped)}"
                yield Removal(node, text(node), change, [Edit(slot, new)], on_value(slot, new))
        case _:
            pass


def entries(slot: Slot, left_alone: Callable[[str], bool]) -> Found:
    """A dict without one of its entries, a list without one of its elements."""
    node = slot.get()
    match node:
        case ast.Dict():
            for place, key in enumerate(node.keys):
                said = text(key) if key is not None else f"**{text(node.values[place])}"
                if left_alone(said):
                    continue
                new: ast.expr = ast.Dict(_without(node.keys, place), _without(node.values, place))
                yield Removal(key or node, f"{{{said}: …}}", "left out", [Edit(slot, new)], always(slot))
        case ast.List(elements, ast.Load()) if len(elements) > 1:
            for place, element in enumerate(elements):
                new = ast.List(_without(elements, place), ast.Load())
                yield Removal(element, f"[{text(element)}, …]", "left out", [Edit(slot, new)], always(slot))


def _without(several: Sequence[Any], place: int) -> list[Any]:
    return [*several[:place], *several[place + 1 :]]


def named_arguments(slot: Slot, names: frozenset[str], left_alone: Container[str]) -> Found:
    """A call of one of these without one of the arguments that it is given by name."""
    node = slot.get()
    if not isinstance(node, ast.Call) or text(node.func) not in names:
        return
    for place, keyword in enumerate(node.keywords):
        if keyword.arg is not None and keyword.arg not in left_alone and text(keyword.value) != "None":
            new = ast.Call(node.func, node.args, _without(node.keywords, place))
            guard = f"{text(node.func)}({keyword.arg}={text(keyword.value)})"
            yield Removal(keyword.value, guard, "left out", [Edit(slot, new)], always(slot))


def answers(slot: Slot, neutral: Mapping[str, str | int]) -> Found:
    """A call whose answer is used, not made. ``neutral`` says by the call's last name what stands for the answer: a
    source, or the place of an argument."""
    node = slot.get()
    if not isinstance(node, ast.Call) or (instead := neutral.get(text(node.func).rpartition(".")[2])) is None:
        return
    new = node.args[instead] if isinstance(instead, int) else ast.parse(instead, mode="eval").body
    yield Removal(node, text(node), f"not called: {text(new)}", [Edit(slot, new)], always(slot))


def updates(slot: Slot) -> Found:
    """An update expression, written where it is used, without one of its actions."""
    node = slot.get()
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_update(node.value):
        for loss in update_losses(Text(node.value, [node.lineno] * len(node.value))):
            yield Removal(node, loss.guard, loss.change, [Edit(slot, constant(loss.after))], always(slot))


# -- statements --------------------------------------------------------------------------------------------------------


def branches(node: ast.AST) -> Found:
    """A ``case`` that is never taken, or whose guard always holds; an ``except`` that catches nothing, or all."""
    match node:
        case ast.match_case() if not (isinstance(node.pattern, ast.MatchAs) and node.pattern.pattern is None):
            guard, said = Slot(node, "guard"), f"case {text(node.pattern)}"
            probe = _in_case(guard)
            yield Removal(node.pattern, said, "never taken", [Edit(guard, constant(False))], probe)
            if node.guard is not None:
                condition = forced(guard, True)
                yield Removal(
                    node.guard, f"{said} if {condition.guard}", "forced true", condition.edits, condition.probe
                )
        case ast.Try():
            for handler in node.handlers:
                yield from _caught(node, handler)
        case _:
            pass


def _in_case(guard: Slot) -> Probe:
    def put(number: int) -> None:
        met = probe_call("reached", constant(number))
        before = guard.get()
        guard.put(met if before is None else ast.BoolOp(ast.And(), [before, met]))

    return put


def _caught(node: ast.Try, handler: ast.ExceptHandler) -> Found:
    said = f"except {text(handler.type)}" if handler.type is not None else "except"
    kind = Slot(handler, "type")
    nothing = ast.Tuple([], ast.Load())
    yield Removal(handler, said, "catches nothing", [Edit(kind, nothing)], on_statement(Slot(handler, "body", 0)))
    if said in {"except Exception", "except BaseException", "except"}:
        return

    def beside(number: int) -> None:
        seen: list[ast.stmt] = [ast.Expr(probe_call("note", constant(number))), ast.Raise()]
        node.handlers.append(ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, seen))

    yield Removal(handler, said, "catches every Exception", [Edit(kind, ast.Name("Exception", ast.Load()))], beside)


def statements(slot: Slot, told: Callable[[str], bool]) -> Found:
    """One that calls, or sets what was there before, is left out. Not where ``told`` says that it only tells."""
    node = slot.get()
    match node:
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Assign([ast.Attribute() | ast.Subscript()]):
            if not told(text(node)):
                new = ast.If(constant(False), [node], [])
                yield Removal(node, text(node), "left out", [Edit(slot, new)], on_statement(slot))
        case _:
            pass


def orders(node: ast.AST, acts: Container[str], told: Callable[[str], bool]) -> Found:
    """Two neighbours that both have an effect, and of which the second does not need the first: the other way round.
    ``acts`` are the last names of calls with an effect whose answer is used."""
    for field in ("body", "orelse", "finalbody"):
        body = getattr(node, field, None)
        if not isinstance(body, list):
            continue
        for place, (first, second) in enumerate(itertools.pairwise(body)):
            if all(_has_effect(one, acts, told) for one in (first, second)) and _independent(first, second):
                slots = Slot(node, field, place), Slot(node, field, place + 1)
                edits = [Edit(slots[0], second), Edit(slots[1], first)]
                guard = f"{text(first)}; then {text(second)}"
                yield Removal(first, guard, "the other way round", edits, on_statement(slots[0]))


def _has_effect(node: Any, acts: Container[str], told: Callable[[str], bool]) -> bool:
    """A ``return`` has to stay last."""
    match node:
        case ast.Expr(ast.Call()):
            return not told(text(node))
        case ast.Assign():
            calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
            return any(text(one.func).rpartition(".")[2] in acts for one in calls)
        case _:
            return False


def _independent(first: ast.AST, second: ast.AST) -> bool:
    def names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
        return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, context)}

    return not (names(first, ast.Store) & (names(second, ast.Load) | names(second, ast.Store)))
