"""Finds, places and removes what document paths such as ``lines[0].price`` name.

Whatever is placed or removed makes new containers along the path; the old item stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from flowguard.sim.limits.fault import invalid
from flowguard.sim.memory.values import Item, Value

Path: TypeAlias = tuple[str | int, ...]
"""Names lead into maps, numbers into lists; the first is the attribute's name."""

NO_WAY: Final = "The document path provided in the update expression is invalid for update"


def found(item: Item, path: Path) -> Value | None:
    """Return the value at the path, if there is one."""
    value: Value | None = {"M": item}
    for part in path:
        value = _step(value, part)
        if value is None:
            return None
    return value


def _step(value: Value | None, part: str | int) -> Value | None:
    match value:
        case {"M": content} if isinstance(part, str):
            inner: Value | None = content.get(part)
            return inner
        case {"L": content} if isinstance(part, int) and part < len(content):
            listed: Value = content[part]
            return listed
        case _:
            return None


def placed(item: Item, path: Path, value: Value) -> Item:
    """Return the item with the value at the path. A place past a list's end means its end."""
    changed: Item = _placed({"M": item}, path, value)["M"]
    return changed


def _placed(container: Value | None, path: Path, value: Value) -> Value:
    part, rest = path[0], path[1:]
    inner = _placed(_step(container, part), rest, value) if rest else value
    match container:
        case {"M": content} if isinstance(part, str):
            return {"M": {**content, part: inner}}
        case {"L": content} if isinstance(part, int):
            return {"L": [*content[:part], inner, *content[part + 1 :]]}
        case _:
            raise invalid(NO_WAY)


def removed(item: Item, path: Path) -> Item:
    """Return the item without what is at the path. What holds it has to exist."""
    changed: Item = _removed({"M": item}, path)["M"]
    return changed


def _removed(container: Value | None, path: Path) -> Value:
    part, rest = path[0], path[1:]
    match container:
        case {"M": content} if isinstance(part, str):
            if rest:
                return {"M": {**content, part: _removed(content.get(part), rest)}}
            return {"M": {name: value for name, value in content.items() if name != part}}
        case {"L": content} if isinstance(part, int):
            if rest and part < len(content):
                return {"L": [*content[:part], _removed(content[part], rest), *content[part + 1 :]]}
            if not rest:
                return {"L": [*content[:part], *content[part + 1 :]]}
    raise invalid(NO_WAY)


def projected(item: Item, paths: Iterable[Path]) -> Item:
    """Return only what the paths name, inside the containers that lead there. Lists close their gaps."""
    tree: dict[Any, Any] = {}
    for path in paths:
        if found(item, path) is not None:
            node = tree
            for part in path:
                node = node.setdefault(part, {})
    shown: Item = _pruned({"M": item}, tree)["M"] if tree else {}
    return shown


def _pruned(value: Value, tree: dict[Any, Any]) -> Value:
    if not tree:
        return value
    match value:
        case {"M": content}:
            return {"M": {name: _pruned(content[name], inner) for name, inner in tree.items()}}
        case _:
            return {"L": [_pruned(value["L"][place], tree[place]) for place in sorted(tree)]}


def meeting(paths: Sequence[Path]) -> str | None:
    """Return why two of the paths cannot be used together. None where all can."""
    for place, path in enumerate(paths):
        for other in paths[:place]:
            shared = min(len(path), len(other))
            if path[:shared] == other[:shared]:
                return f"Two document paths overlap with each other; path one: {says(path)}, path two: {says(other)}"
            fork = next(i for i in range(shared) if path[i] != other[i])
            if isinstance(path[fork], int) is not isinstance(other[fork], int):
                return f"Two document paths conflict with each other; path one: {says(path)}, path two: {says(other)}"
    return None


def says(path: Path) -> str:
    return "[" + ", ".join(f"[{part}]" if isinstance(part, int) else part for part in path) + "]"


def backwards(path: Path) -> tuple[tuple[bool, int, str], ...]:
    """Return a key that sorts paths by their places in lists.

    Removals in reverse order move nothing that is still to be removed.
    """
    return tuple((True, part, "") if isinstance(part, int) else (False, 0, part) for part in path)
