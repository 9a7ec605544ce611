"""Libraries that are changed for a while: those that are imported by now, and each other one once it is imported.

Nothing is imported for it: a handler that does not use a library needs it no more than before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeAlias

Change: TypeAlias = Callable[[Any], AbstractContextManager[None]]
"""Takes a module and changes it until the context ends."""


@contextmanager
def changed_when_imported(changes: Mapping[str, Change]) -> Iterator[None]:
    """Apply each change to the module of its name, at once or with its import, until the block ends."""
    with ExitStack() as applied:
        finder = _Finder(changes, applied)
        for name in changes:
            if (module := sys.modules.get(name)) is not None:
                finder.change(name, module)
        sys.meta_path.insert(0, finder)
        applied.callback(sys.meta_path.remove, finder)
        yield


class _Finder:
    """Finds a module as the other finders do, and changes it once it has run."""

    def __init__(self, changes: Mapping[str, Change], applied: ExitStack) -> None:
        self._changes = changes
        self._applied = applied
        self._changed: set[str] = set()

    def change(self, name: str, module: ModuleType) -> None:
        """Change a module once."""
        if name not in self._changed:
            self._changed.add(name)
            self._applied.enter_context(self._changes[name](module))

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a library of the changes, with a loader that changes it. None for all other modules."""
        if name not in self._changes:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._extend(name, spec.loader)
        return spec

    def _extend(self, name: str, loader: Any) -> None:
        real = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            real(module)
            self.change(name, module)

        loader.exec_module = exec_module


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute of a module or class another value for the block."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
