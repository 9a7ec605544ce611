"""Late imports of user code, whose state is looked at."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from flowguard.testing.explorer.record.site import is_user_code
from flowguard.testing.explorer.run.module_state import Memory


@contextmanager
def remembered_when_imported(memory: Memory) -> Iterator[None]:
    """Add late imports to the memory, for a block."""
    finder = _Finder(memory)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    """Finds late imports of user code."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a late import of user code."""
        if name not in self._memory.imports:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None or not is_user_code(spec.origin or "<frozen"):
            return None
        loader: Any = spec.loader
        loader.exec_module = self._adding(loader.exec_module)
        return spec

    def _adding(self, real: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def exec_module(module: ModuleType) -> None:
            real(module)
            self._memory.add(module)

        return exec_module
