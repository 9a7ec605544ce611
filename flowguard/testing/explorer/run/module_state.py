"""What modules keep from one record to the next: found, named, and put back where a process would be a new one.

Looked at are the values of a module's own names, of its classes and of the objects of its own classes::

    lines = []                       shop.orders.lines
    class Seen: ids = set()          shop.orders.Seen.ids
    buffer = Buffer()                shop.orders.buffer.rows
"""

from __future__ import annotations

import ast
import copy
import sys
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from flowguard.testing.explorer.record.site import is_user_code

_KEPT: Final = (list, dict, set, bytearray, int, float, str, bytes, tuple, frozenset, type(None))
"""Types of the values that are looked at, with their subclasses. What libraries keep is left alone."""

_DEEPEST: Final = 3
"""How deep module state is compared: a module's attributes, the attributes of those, and one level more."""


class _Place(NamedTuple):
    """Something with names: a module, a class, or an object. ``name`` is the path to it."""

    name: str
    holder: Any

    def set(self, name: str, value: Any) -> None:
        if isinstance(self.holder, type):
            setattr(self.holder, name, value)
        else:
            vars(self.holder)[name] = value

    def remove(self, name: str) -> None:
        if isinstance(self.holder, type):
            delattr(self.holder, name)
        else:
            del vars(self.holder)[name]


class _Kept(NamedTuple):
    """What a place had at the beginning, and how many names there were in all."""

    place: _Place
    values: Mapping[str, Any]
    names: frozenset[str]

    def differing(self) -> list[str]:
        """Return the changed names, new ones too."""
        now = vars(self.place.holder)
        changed = [
            name
            for name, value in self.values.items()
            if value is not now.get(name, _GONE) and _differ(value, now, name)  # most are the same object: no call
        ]
        if len(now) != len(self.names):
            changed += [name for name in now if name not in self.names and _is_kept(name, now[name])]
        return changed


class KeptValues:
    """The values that a module keeps at one moment."""

    def __init__(self, module: ModuleType) -> None:
        self._kept = [
            _Kept(place, _kept_in(place), frozenset(vars(place.holder)))
            for place in _places(_Place(module.__name__, module), _DEEPEST)
        ]
        self._caches = [value for value in vars(module).values() if _is_cache(value, module)]

    def changed(self) -> list[str]:
        """Return the changed names: ``shop.orders.lines``."""
        return [f"{kept.place.name}.{name}" for kept in self._kept for name in kept.differing()]

    @property
    def has_cached(self) -> bool:
        """Answer whether a function's cache has anything, which is in no value."""
        return any(_fills(cache) for cache in self._caches)

    def values(self) -> list[Any]:
        """Copy the changed values. :meth:`put_in` restores them."""
        return [
            (kept.place, name, _copied(vars(kept.place.holder).get(name, _GONE)))
            for kept in self._kept
            for name in kept.differing()
        ]

    def put_back(self) -> None:
        """Give the names their values again. Lists and dicts are restored in place, for modules that imported them."""
        for kept in self._kept:
            for name in kept.differing():
                if name in kept.values:
                    there = vars(kept.place.holder).get(name)
                    kept.place.set(name, _filled(there, _copied(kept.values[name])))
                else:
                    kept.place.remove(name)
        for cache in self._caches:
            cache.cache_clear()

    def put_in(self, values: Iterable[Any]) -> None:
        """Give the names what :meth:`values` returned. All others have what they had at the beginning."""
        self.put_back()
        for place, name, value in values:
            if value is not _GONE:
                place.set(name, _filled(vars(place.holder).get(name), value))


class Memory:
    """What the explored modules keep. ``is_lost`` says that each record finds a new process, as after a cold start.

    ``seen`` are the names that changed in the last schedule. ``imports`` are the names of all that the modules import,
    by now or in a handler that has not run yet. The modules are shared by all execution environments, so
    what they keep for a worker that is held up is taken away meanwhile.
    """

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self.is_lost = False
        self.seen: dict[str, None] = {}
        self.imports: set[str] = set()
        self._shared: list[KeptValues] = []
        for module in modules:
            self.add(module)

    def add(self, module: ModuleType) -> None:
        """Look at a fresh module, too."""
        self._shared.append(KeptValues(module))
        self.imports.update(names_in(module))

    @property
    def has_kept(self) -> bool:
        """Answer whether a module or one of its caches has kept something since the schedule began."""
        return bool(self.seen) or any(state.has_cached for state in self._shared)

    def begin(self) -> None:
        """Let a schedule begin: no process is warm."""
        self.seen = {}
        self.lose()

    def lose(self) -> None:
        """Let the next record of a flow find a new process."""
        for state in self._shared:
            state.put_back()

    def after(self, kept: KeptValues | None = None) -> None:
        """Note what an invocation left behind in the shared modules and in the flow's."""
        for state in [*self._shared, *([kept] if kept is not None else ())]:
            self.seen.update(dict.fromkeys(state.changed()))
        if self.is_lost:
            self.lose()

    def take(self) -> list[list[Any]]:
        """Return what is kept now, and let the next record find a new process."""
        taken = [state.values() for state in self._shared]
        self.lose()
        return taken

    def give(self, values: list[list[Any]]) -> None:
        """Put back what :meth:`take` returned. Later modules stay."""
        for state, kept in zip(self._shared, values, strict=False):
            state.put_in(kept)


def with_imported(modules: Iterable[ModuleType]) -> list[ModuleType]:
    """Return the modules with their imports of user code."""
    known: dict[str, ModuleType] = {}
    ahead = list(modules)
    while ahead:
        module = ahead.pop(0)
        if module.__name__ not in known:
            known[module.__name__] = module
            ahead += imported_by(module)
    return list(known.values())


def imported_by(module: ModuleType) -> Iterator[ModuleType]:
    """Yield the loaded imports of a module."""
    for name in names_in(module):
        imported = sys.modules.get(name)
        if imported is not None and is_user_code(getattr(imported, "__file__", None) or "<frozen"):
            yield imported


def names_in(module: ModuleType) -> tuple[str, ...]:
    """Return the names of possible imports of a module."""
    file = getattr(module, "__file__", None)
    if file is None or not is_user_code(file):
        return ()
    try:
        return _imports(Path(file).read_text(), module.__package__ or "")
    except (OSError, ValueError, SyntaxError):
        return ()


@lru_cache(maxsize=256)
def _imports(source: str, package: str) -> tuple[str, ...]:
    """Return the full names of what a module's source may load. Each exploration asks for the same few sources."""
    return tuple(name for node in ast.walk(ast.parse(source)) for name in _names(node, package))


def _names(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the full names of what an import statement may load."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        try:
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
        except ImportError:
            return
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _places(place: _Place, depth: int, seen: set[int] | None = None) -> Iterator[_Place]:
    """Yield a place and, below it, those of the module's classes and objects."""
    seen = set() if seen is None else seen
    if id(place.holder) in seen or depth == 0:
        return
    seen.add(id(place.holder))
    yield place
    for name, value in list(vars(place.holder).items()):
        if not name.startswith("__") and _is_own(value):
            yield from _places(_Place(f"{place.name}.{name}", value), depth - 1, seen)


def _is_own(value: object) -> bool:
    """Answer whether a value is a plain class of user code or an object of one."""
    kind = value if isinstance(value, type) else type(value)
    if type(kind) not in (type, ABCMeta) or isinstance(value, (*_KEPT, ModuleType)) or not hasattr(value, "__dict__"):
        return False
    module = sys.modules.get(kind.__module__)
    return is_user_code(getattr(module, "__file__", None) or "<frozen")


def _kept_in(place: _Place) -> dict[str, Any]:
    return {name: _copied(value) for name, value in vars(place.holder).items() if _is_kept(name, value)}


def _is_kept(name: str, value: object) -> bool:
    return not name.startswith("__") and isinstance(value, _KEPT)


def _fills(cache: Any) -> bool:
    """Answer whether a cache may have anything."""
    info = getattr(cache, "cache_info", None)
    return not callable(info) or bool(info().currsize)


def _is_cache(value: object, module: ModuleType) -> bool:
    return callable(getattr(value, "cache_clear", None)) and getattr(value, "__module__", None) == module.__name__


_GONE: Final = object()


def _copied(value: Any) -> Any:
    if value is _GONE:
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # it holds what cannot be copied, such as a client
        return value


def _differ(value: Any, now: Mapping[str, Any], name: str) -> bool:
    """Answer whether a name has another value than this one, which is not the very object that it has now."""
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
