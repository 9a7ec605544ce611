"""Calls of boto3 in the source of handlers. No template can know what these may do: that takes a policy."""

from __future__ import annotations

import ast
import sys
from functools import lru_cache
from pathlib import Path
from typing import Final

from flowguard.deploy.found import FoundFunction
from flowguard.lint.checks import calls_of_clients
from flowguard.lint.handler_source import ModuleSource

_MOST_NAMED: Final = 3


def own_calls(function: FoundFunction) -> list[str]:
    """Return the lines at which a function's stages, or its body under ``@once``, call boto3: ``orders.py:7``."""
    is_once = function.once is not None
    modules = {function.module} if is_once else {stage.__module__ for _, stage in function.stages}
    files = (getattr(sys.modules.get(name), "__file__", None) for name in sorted(modules))
    return [place for file in files if file is not None for place in _places(Path(file), has_step=not is_once)]


def note_of(function: FoundFunction) -> str | None:
    """Return what to say of a function whose own calls have no policy. None where it makes none."""
    places = own_calls(function)
    if not places:
        return None
    more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
    return (
        f"{function.handler} calls AWS by boto3 ({', '.join(places[:_MOST_NAMED])}{more}), and its role allows nothing "
        f"of that; name a policy in the options: policies = […] of [functions.{function.attribute}]"
    )


def _places(file: Path, *, has_step: bool) -> list[str]:
    try:
        calls = _calls(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # it has been imported, so it is no source on this disk
    return [f"{file.name}:{line}" for line, takes_step in calls if takes_step is has_step]


@lru_cache(maxsize=64)
def _calls(text: bytes) -> tuple[tuple[int, bool], ...]:
    """Return the lines of a source's calls, and of each whether its handler takes a step.

    Functions of one module have one source.
    """
    source = ModuleSource(ast.parse(text))
    handlers = source.handlers()
    return tuple(
        sorted({(call.lineno, bool(code.steps)) for code in handlers for call in calls_of_clients(source, code)})
    )
