"""The state at the beginning of each schedule: the user's tables by their hash keys and the items in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

from flowguard.aws.writes import to_item
from flowguard.errors import SettingsError
from flowguard.flow import AnyFlow
from flowguard.sim.world import declared_tables
from flowguard.testing.explorer.run.plain import PlainFunction

GivenItems: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""Items by table, as boto3's resource takes them: ``{"prices": [{"sku": "tea", "price": 4}]}``. Floats become Decimals,
as in what a step records."""


def keys_of(flows: Sequence[AnyFlow], functions: Iterable[PlainFunction], tables: Mapping[str, str]) -> dict[str, str]:
    """Return the hash key of each table: of ``TABLES`` in the modules of flows and handlers and of ``tables``."""
    found = declared_tables(flows)
    for function in functions:
        found |= getattr(function.module, "TABLES", {})
    return {**found, **tables}


def read_items(items: GivenItems, keys: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return each item with its table in DynamoDB's low-level form.

    Raises SettingsError for the first item that no table with these keys can hold.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    for table, listed in _listed(items):
        if table not in keys:
            cure = f'say tables={{"{table}": …}}, or name it in TABLES of the flow\'s module'
            raise _refused(f"the hash key of the table {table} is not known; {cure}")
        places: dict[str, int] = {}
        for number, item in enumerate(listed, 1):
            where = f"item {number} of {table}"
            own = _key(where, item, keys[table])
            if (first := places.setdefault(own, number)) != number:
                raise _refused(f"{where} has the same {keys[table]} {own!r} as item {first}")
            found.append((table, low_level(where, item)))
    return found


def items_of(modules: Iterable[ModuleType]) -> GivenItems:
    """Collect ``ITEMS`` of these modules. An item that two of them list is there once.

    Raises SettingsError for what is no list of items.
    """
    found: dict[str, list[Any]] = {}
    for module in modules:
        for table, listed in _listed(getattr(module, "ITEMS", {})):
            there = found.setdefault(table, [])
            there += [item for item in listed if item not in there]
    return found


def _listed(items: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    if not isinstance(items, Mapping):
        raise _refused(f"{items!r} names no tables; {_LIKE}")
    for table, listed in items.items():
        if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
            raise _refused(f"{table} has {listed!r}; {_LIKE}")
        yield str(table), listed


_LIKE = 'list what lies in each table: items={"prices": [{"sku": "tea", "price": 4}]}'


def _key(where: str, item: object, key: str) -> str:
    if not isinstance(item, Mapping):
        raise _refused(f"{where} is {item!r}; {_LIKE}")
    own = item.get(key)
    if not isinstance(own, str) or not own:
        raise _refused(f"{where} needs a {key!r}, a text that is not empty: the table's hash key; it has {own!r}")
    return own


def low_level(where: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item in DynamoDB's low-level form. ``where`` names the item.

    Raises SettingsError with the attribute for a value that DynamoDB cannot hold.
    """
    for name, value in item.items():
        try:
            to_item({name: value})
        except (TypeError, ValueError, ArithmeticError) as error:
            raise _refused(f"{where} has {name}={value!r}, which DynamoDB cannot hold: {error}") from None
    return to_item(item)


def _refused(problem: str) -> SettingsError:
    return SettingsError("items", problem)
