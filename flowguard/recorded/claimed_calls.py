"""The calls of a step that work only under a claim, and where a handler's code makes them."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final

NEED_CLAIM: Final = ("once", "apply", "fence")
"""Methods of the step that write, or let the handler write, before the commit."""


def claimed_calls(handle: Any) -> list[str]:
    """Return those that a handler's code calls on its step. One in a helper is not seen."""
    code = getattr(inspect.unwrap(handle), "__code__", None)
    if not isinstance(code, CodeType) or not code.co_argcount:
        return []
    step = code.co_varnames[code.co_argcount - 1]
    return sorted(set(_calls_on(code, step)))


def _calls_on(code: CodeType, step: str) -> Iterator[str]:
    loaded: object = None
    for each in dis.get_instructions(code):
        if loaded == step and each.argval in NEED_CLAIM:
            yield each.argval
        several = isinstance(each.argval, tuple) and each.argval  # one instruction may load two variables
        loaded = each.argval[-1] if several else each.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and step in inner.co_freevars:
            yield from _calls_on(inner, step)
