"""Static evaluation of expressions in source, without running it."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import FunctionType
from typing import Any, Final

from flowguard.destinations import Bus, Function, Queue, Topic

_MAKERS: Final = (Queue, Topic, Function, Bus, timedelta)
"""What may be made in a handler's source, and is known when it is read."""


def tree_of(function: FunctionType) -> ast.FunctionDef | None:
    """Parse the source of a function. None where it is not there."""
    try:
        lines, first = inspect.getsourcelines(function)
        parsed = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    ast.increment_lineno(parsed, max(first, 1) - 1)
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    function_tree: Any = next((statement for statement in parsed.body if isinstance(statement, kinds)), None)
    return function_tree  # type: ignore[no-any-return]  # both have the same fields


class SourceValues:
    """The values of the expressions of one function."""

    def __init__(self, function: FunctionType, tree: ast.FunctionDef) -> None:
        self._names = {**function.__globals__, **_closure(function)}
        self._locals = _locals(tree)

    def of(self, node: ast.expr) -> list[Any] | None:
        """Return the possible values of an expression. None if the source does not say."""
        match node:
            case ast.Constant(value):
                return [value]
            case ast.Name(name):
                return self._named(name)
            case ast.Attribute(of, name):
                owners = self.of(of)
                attributes = None if owners is None else [getattr(owner, name, None) for owner in owners]
                return None if attributes is None or None in attributes else attributes
            case ast.IfExp(_, first, other):
                both = self.of(first), self.of(other)
                return None if both[0] is None or both[1] is None else [*both[0], *both[1]]
            case ast.Call(func, arguments, keywords):
                return self._made(func, arguments, keywords)
            case _:
                return None

    def one(self, node: ast.expr) -> Any:
        """Return the only possible value of an expression. None if there are several or none."""
        values = self.of(node)
        return values[0] if values is not None and len(values) == 1 else None

    def _named(self, name: str) -> list[Any] | None:
        if name in self._locals:
            bound = [None if local is None else self.of(local) for local in self._locals[name]]
            return None if None in bound else [value for values in bound if values is not None for value in values]
        if name in self._names:
            return [self._names[name]]
        return [getattr(builtins, name)] if hasattr(builtins, name) else None

    def _made(self, func: ast.expr, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> list[Any] | None:
        maker = self.one(func)
        if not any(maker is known for known in _MAKERS):
            return None
        given = [self.of(argument) for argument in arguments]
        named = {keyword.arg: self.of(keyword.value) for keyword in keywords}
        if not all(values is not None and len(values) == 1 for values in (*given, *named.values())) or None in named:
            return None
        make: Callable[..., Any] = maker
        try:
            return [make(*(values[0] for values in given if values), **{str(k): v[0] for k, v in named.items() if v})]
        except (TypeError, ValueError, OverflowError):
            return None


def argument(node: ast.Call, place: int | None, name: str) -> ast.expr | None:
    """Return the argument of a call at that position or of that name. It has no position where ``place`` is None."""
    if place is not None and place < len(node.args):
        return None if any(isinstance(arg, ast.Starred) for arg in node.args[: place + 1]) else node.args[place]
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)


def parameters_of(tree: ast.FunctionDef) -> list[str]:
    """Return the names of the positional parameters."""
    return [parameter.arg for parameter in (*tree.args.posonlyargs, *tree.args.args)]


def _closure(function: FunctionType) -> dict[str, Any]:
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return values


def _locals(tree: ast.FunctionDef) -> dict[str, list[ast.expr | None]]:
    """Return the expressions that each local name is assigned. None stands for any other binding."""
    assigned: dict[str, list[ast.expr | None]] = {}
    arguments = tree.args
    for parameter in (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ):
        if parameter is not None:
            assigned[parameter.arg] = [None]
    plain = {
        id(node.targets[0]): node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and len(node.targets) == 1
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            assigned.setdefault(node.id, []).append(plain.get(id(node)))
    return assigned
