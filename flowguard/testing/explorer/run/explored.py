"""What is explored by import path: flows and plain handlers with the queues that they read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from flowguard.errors import SettingsError
from flowguard.flow import AnyFlow
from flowguard.project.declared import DeclaredKey, TableKey, declared_tables, overridden, read_keys
from flowguard.project.loading import NoSuchFlow, load_flows
from flowguard.testing.explorer.run.plain import Handler, PlainFunction


def load_explored(names: Sequence[str], queues: Sequence[str], **about: Any) -> list[AnyFlow | PlainFunction]:
    """Load flows and plain handlers. ``queues`` are those of the handlers in the order of their names.

    ``about`` are the handlers' other fields, such as ``visibility``.

    Raises :class:`flowguard.project.loading.NoSuchFlow` for what is neither flow nor handler and SettingsError where
    queues and handlers do not match in number.
    """
    left = list(queues)
    loaded: list[AnyFlow | PlainFunction] = []
    for name in dict.fromkeys(names):
        target = _load(name)
        if isinstance(target, type):
            loaded.append(target)
        elif left:
            loaded.append(PlainFunction(left.pop(0), target, **about))
        else:
            raise SettingsError("--queue", f"say which queue {name} reads; one for each handler, in their order")
    if left:
        raise SettingsError("--queue", f"no handler is left to read {', '.join(left)}")
    return loaded


def keys_of(
    flows: Sequence[AnyFlow], functions: Iterable[PlainFunction], tables: Mapping[str, DeclaredKey]
) -> dict[str, TableKey]:
    """Return the key of each table: of ``TABLES`` in the modules of flows and handlers and of ``tables``."""
    return overridden(declared_tables(modules_of([*flows, *functions])), read_keys(tables))


def modules_of(explored: Iterable[AnyFlow | PlainFunction]) -> list[ModuleType]:
    """Return the modules in which they were written, each once."""
    modules = (
        target.module if isinstance(target, PlainFunction) else sys.modules.get(target.__module__)
        for target in explored
    )
    return [fromkey for fromkey in dict.fromkeys(modules) if fromkey is not None]


def _load(name: str) -> AnyFlow | Handler:
    try:
        return load_flows([name])[0]
    except NoSuchFlow:
        module, _, attribute = name.partition(":")
        value: Any = getattr(sys.modules.get(module), attribute, None) if attribute else None
        if value is None or isinstance(value, type) or not callable(value):
            raise
        handler: Handler = value
        return handler
