"""The attributes by which DynamoDB removes items of the user's tables, some time after the moment in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

from flowguard.errors import SettingsError, shown

TimeToLive: TypeAlias = Mapping[str, str]
"""The attribute of each table that has one."""

_LIKE: Final = 'name the attribute of each table: ttl={"locks": "expires_at"}'

Removed: TypeAlias = list[tuple[str, Any]]
"""The items that were removed, each with its table, in low-level form."""


def checked_ttl(ttl: object, tables: Collection[str]) -> dict[str, str]:
    """Return the attributes by table. Raises :class:`SettingsError`."""
    if not isinstance(ttl, Mapping) or not all(name and isinstance(name, str) for pair in ttl.items() for name in pair):
        raise SettingsError("ttl", f"{shown(ttl)}; {_LIKE}")
    for table in ttl:
        if table not in tables:
            raise SettingsError(
                "ttl", f"{table} is no table here; there is {', '.join(sorted(tables)) or 'none at all'}"
            )
    return dict(ttl)


def has_expired(item: Mapping[str, Any], attribute: str, now: int) -> bool:
    """Answer whether an item has expired. ``now`` is in seconds, as its attribute is; a text never passes."""
    number = item.get(attribute, {}).get("N")
    return number is not None and float(number) < now


def with_removed(items: Iterable[Any], table: str, keys: Collection[str], removed: Removed) -> list[Any]:
    """Return the items with those that were removed and are not there again, each as it was last.

    Whether what has expired is still there is DynamoDB's business. So an end counts it as there.
    """

    def key_of(item: Mapping[str, Any]) -> str:
        return repr([item[name] for name in keys])

    there = list(items)
    known = {key_of(item) for item in there}
    gone = {key_of(item): item for name, item in removed if name == table}
    return there + [item for key, item in gone.items() if key not in known]
