"""What modules keep from one record to the next: found, named, and put back where a process would be a new one."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final

_KEPT: Final = (list, dict, set, bytearray, int, float, str, bytes, tuple, frozenset, type(None))
"""Types of the values that are looked at, with their subclasses. What libraries keep is left alone."""


class KeptValues:
    """The values of a module's own names at one moment."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._values = {name: _copied(value) for name, value in vars(module).items() if _is_kept(name, value)}

    def changed(self) -> list[str]:
        """Return the names whose values are others by now, with the module's: ``shop.orders.lines``."""
        now = vars(self._module)
        return [f"{self._module.__name__}.{name}" for name, value in self._values.items() if _differ(value, now, name)]

    def put_back(self) -> None:
        """Give the names their values again. Whoever has imported a list or dict has the same one."""
        now = vars(self._module)
        for name, value in self._values.items():
            if _differ(value, now, name):
                now[name] = _filled(now.get(name), _copied(value))
        for value in list(now.values()):
            clear = getattr(value, "cache_clear", None)
            if callable(clear) and getattr(value, "__module__", None) == self._module.__name__:
                clear()


class Memory:
    """What the explored modules keep. ``is_lost`` says that each record finds a new process, as after a cold start.

    ``seen`` are the names that changed in the last schedule.
    """

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self.is_lost = False
        self.seen: dict[str, None] = {}
        self._shared = [KeptValues(module) for module in modules]

    def begin(self) -> None:
        """Let a schedule begin: no process is warm."""
        self.seen = {}
        self.lose()

    def lose(self) -> None:
        """Let the next record of a flow find a new process."""
        for one in self._shared:
            one.put_back()

    def after(self, kept: KeptValues | None = None) -> None:
        """Note what an invocation left behind in its own module or in those that are shared."""
        for one in [kept] if kept is not None else self._shared:
            self.seen.update(dict.fromkeys(one.changed()))
        if self.is_lost:
            self.lose()


def _is_kept(name: str, value: object) -> bool:
    return not name.startswith("__") and isinstance(value, _KEPT)


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # it holds what cannot be copied, such as a client
        return value


def _differ(value: Any, now: Mapping[str, Any], name: str) -> bool:
    try:
        return name not in now or bool(value != now[name]) or type(value) is not type(now[name])
    except Exception:  # a comparison of the user's own
        return False


def _filled(there: Any, value: Any) -> Any:
    if type(there) is not type(value):
        return value
    if isinstance(there, list | bytearray):
        there[:] = value
    elif isinstance(there, dict | set):
        there.clear()
        there.update(value)
    else:
        return value
    return there
