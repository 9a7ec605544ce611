"""Finds the user code of handlers, and the user code that they call by name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from flowguard.testing.explorer.record.site import is_user_code

_ANNOTATIONS: Final = "__annotate__"
"""The function that Python 3.14 makes of annotations. None of its lines is a handler's."""


def handler_code(handlers: Iterable[object]) -> Iterator[CodeType]:
    """Yield the code of each function that handlers consist of or name, each once. ``handlers`` are classes too.

    What is named by a text or handed in is not followed.
    """
    ahead, seen = [*handlers], set[int]()
    while ahead:
        value = ahead.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType) and value.__name__ == _ANNOTATIONS:
            continue
        if isinstance(value, FunctionType):
            code = [*_with_inner(value.__code__)]
            yield from (part for part in code if is_user_code(part.co_filename))
            ahead += _named(value, {name for part in code for name in part.co_names})
        elif isinstance(value, type):
            ahead += [part for kind in value.__mro__ if _is_users(kind) for part in vars(kind).values()]
        else:
            ahead += _functions_of(value)


def _functions_of(value: object) -> Iterator[object]:
    """Yield what a value wraps that is no function itself, and the class of an object."""
    match value:
        case MethodType() | staticmethod() | classmethod():
            yield from (value.__func__, getattr(value, "__self__", None))
        case property():
            yield from (value.fget, value.fset)
        case functools.cached_property() | functools.partial():
            yield value.func
        case ModuleType():
            return
        case _:
            if _is_users(type(value)):
                yield type(value)
            yield getattr(value, "__wrapped__", None)


def _named(function: FunctionType, names: set[str]) -> Iterator[object]:
    """Yield what a function holds, as a decorator's does, and names in its module and in modules of user code."""
    yield from (cell.cell_contents for cell in function.__closure__ or () if _is_full(cell))
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield value
        if isinstance(value, ModuleType) and _is_of_user(value):
            yield from (vars(value)[part] for part in names & vars(value).keys())


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # it is empty
        return False


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType) and part.co_name != _ANNOTATIONS:
            yield from _with_inner(part)


def _is_users(kind: type) -> bool:
    return _is_of_user(sys.modules.get(kind.__module__))


def _is_of_user(module: ModuleType | None) -> bool:
    return is_user_code(getattr(module, "__file__", None) or "<frozen")
