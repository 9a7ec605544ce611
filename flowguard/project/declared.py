"""Reads the user's tables from ``TABLES`` and ``ITEMS`` of a flow's module.

::

    TABLES = {
        "prices": "sku",
        "lines": ("order_id", "line"),
        "days": {"shop": "S", "day": "N"},
        "orders": {"key": "order_id", "indexes": {"by-customer": ("customer", "placed_at")}},
    }
    ITEMS = {"prices": [{"sku": "tea", "price": 4}]}

Replay, the test runner and the explorer read both alike.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from flowguard.aws.writes import from_item, to_item
from flowguard.errors import SettingsError, shown
from flowguard.flow import AnyFlow

DeclaredKey: TypeAlias = str | tuple[str, ...] | Mapping[str, Any]
"""A table's key, in one of three forms, alone or with global secondary indexes.

``"sku"`` is a hash key, ``("order_id", "line")`` a hash and a range key, ``{"shop": "S", "day": "N"}`` either with its
types. A key without types is of type ``S``. ``{"key": "sku", "indexes": {"by-maker": ("maker", "price")}}`` has the key
of the table and of each index in one of these forms; an index holds the whole items.
"""

GivenItems: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""Items by table, as boto3's resource takes them: ``{"prices": [{"sku": "tea", "price": 4}]}``. Floats become Decimals,
as in what a step records."""

_TYPES: Final = {"S": "a text that is not empty", "N": "a number", "B": "bytes that are not empty"}
_LIKE_KEYS: Final = 'say "sku", ("order_id", "line") or {"shop": "S", "day": "N"}'
_LIKE_INDEXES: Final = 'say {"key": "sku", "indexes": {"by-maker": ("maker", "price")}}'
_INDEX_NAME: Final = re.compile("[A-Za-z0-9_.-]{3,255}")

_LIKE_ITEMS: Final = 'list what lies in each table: items={"prices": [{"sku": "tea", "price": 4}]}'


class TableIndex(NamedTuple):
    """A global secondary index with the attributes of its key and their types. The hash key is first."""

    name: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    keys_only: bool = False
    """Whether it has the keys of items alone, and not the whole items."""


class TableKey(NamedTuple):
    """The attributes of a table's key with their types. The hash key is first."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    indexes: tuple[TableIndex, ...] = ()

    def __str__(self) -> str:
        """Format the key as messages show it."""
        return ", ".join(self.names)

    def text_of(self, item: Mapping[str, Any]) -> str:
        """Return an item's key as text. Attributes that the item lacks are left out."""
        return "/".join(str(item[name]) for name in self.names if name in item)


Keys: TypeAlias = Mapping[str, TableKey]
"""The keys of tables, by the tables' names."""


def read_key(table: str, declared: object) -> TableKey:
    """Read the declared key of a table. Raises :class:`SettingsError` for what is none."""
    if isinstance(declared, Mapping) and isinstance(declared.get("indexes"), Mapping):
        return _with_indexes(table, declared)
    types: tuple[object, ...] = ()
    if isinstance(declared, Mapping):
        names, types = tuple(declared), tuple(declared.values())
    else:
        names = (declared,) if isinstance(declared, str) else declared if isinstance(declared, tuple) else ()
        types = ("S",) * len(names)
    if not all(isinstance(name, str) and name for name in names) or not 1 <= len(set(names)) == len(names) <= 2:
        raise SettingsError("tables", f"{table} has the key {shown(repr(declared))}; {_LIKE_KEYS}")
    if any(kind not in list(_TYPES) for kind in types):  # a list compares what cannot be hashed, too
        problem = f"{table} has a key of the types {shown(repr(types))}; DynamoDB has S, N and B"
        raise SettingsError(
            "tables", problem if "key" not in names else f"{problem}. For a table with indexes {_LIKE_INDEXES}"
        )
    return TableKey(tuple(map(str, names)), tuple(map(str, types)))


def _with_indexes(table: str, declared: Mapping[str, Any]) -> TableKey:
    if "key" not in declared:
        raise SettingsError("tables", f"{table} has indexes and no key; {_LIKE_INDEXES}")
    key, indexes = read_key(table, declared["key"]), declared["indexes"]
    if more := ", ".join(sorted(map(str, declared.keys() - {"key", "indexes"}))):
        raise SettingsError("tables", f"{table} has {shown(more)} beside its indexes; {_LIKE_INDEXES}")
    for name in indexes:
        if not isinstance(name, str) or not _INDEX_NAME.fullmatch(name):
            problem = f"{shown(str(name))}, which is no index's name: it is 3 to 255 of a-z, A-Z, 0-9, '-', '_', '.'"
            raise SettingsError("tables", f"{table} has the index {problem}")
    made = tuple(TableIndex(name, *read_key(f"{table}'s index {name}", each)[:2]) for name, each in indexes.items())
    types = dict(zip(key.names, key.types, strict=True))
    for index in made:
        for name, kind in zip(index.names, index.types, strict=True):
            if types.setdefault(name, kind) != kind:
                problem = f"{name} is {types[name]} in one key of {table} and {kind} in another"
                raise SettingsError("tables", f"{problem}; give both its type: {{{name!r}: {kind!r}}}")
    return key._replace(indexes=made)


def read_keys(declared: Mapping[str, DeclaredKey]) -> dict[str, TableKey]:
    """Read the declared keys of tables. Raises :class:`SettingsError` for what is none."""
    if not isinstance(declared, Mapping):
        raise SettingsError("tables", f"{shown(repr(declared))} names no tables; give each its key: {_LIKE_KEYS}")
    return {str(table): read_key(str(table), key) for table, key in declared.items()}


def modules_of_flows(flows: Iterable[AnyFlow]) -> list[ModuleType]:
    """Return the modules in which the flows are, each once."""
    modules = [sys.modules[flow.__module__] for flow in flows if flow.__module__ in sys.modules]
    return list(dict.fromkeys(modules))


def declared_tables(modules: Iterable[ModuleType]) -> dict[str, TableKey]:
    """Collect the ``TABLES`` of modules. Raises :class:`SettingsError` where two of them contradict each other."""
    tables: dict[str, TableKey] = {}
    for module in modules:
        tables = joined(tables, read_keys(getattr(module, "TABLES", {})))
    return tables


def joined(tables: Keys, others: Keys) -> dict[str, TableKey]:
    """Merge what two modules say of tables and their indexes. Raises :class:`SettingsError` for a contradiction."""
    both = {**tables, **others}
    for name in tables.keys() & others.keys():
        first, second = tables[name], others[name]
        indexes = {index.name: index for index in (*first.indexes, *second.indexes)}
        if first[:2] != second[:2] or not {*first.indexes, *second.indexes} <= {*indexes.values()}:
            raise SettingsError("tables", f"{name} has two keys, or an index of two keys, in TABLES of two modules")
        both[name] = second._replace(indexes=tuple(indexes.values()))
    return both


def overridden(tables: Keys, given: Keys) -> dict[str, TableKey]:
    """Return the tables with the keys that are given. A table keeps its indexes where none are given for it."""
    kept = {name: tables[name].indexes for name in given.keys() & tables.keys() if not given[name].indexes}
    return {**tables, **{name: key._replace(indexes=kept.get(name, key.indexes)) for name, key in given.items()}}


def declared_items(modules: Iterable[ModuleType]) -> GivenItems:
    """Collect ``ITEMS`` of these modules. An item that two of them list is there once.

    Raises :class:`SettingsError` for what is no list of items.
    """
    items: dict[str, list[Any]] = {}
    for module in modules:
        for table, listed in _listed(getattr(module, "ITEMS", {})):
            there = items.setdefault(table, [])
            there += [item for item in listed if item not in there]
    return items


def read_items(items: GivenItems, keys: Keys) -> list[tuple[str, dict[str, Any]]]:
    """Return each item with its table in DynamoDB's low-level form.

    Raises :class:`SettingsError` for the first item that no table with these keys can hold.
    """
    rows: list[tuple[str, dict[str, Any]]] = []
    for table, listed in _listed(items):
        if table not in keys:
            fix = f'say tables={{"{table}": …}}, or name it in TABLES of the flow\'s module'
            raise _refused(f"the hash key of the table {table} is not known; {fix}")
        places: dict[str, int] = {}
        for number, item in enumerate(listed, 1):
            where = f"item {number} of {table}"
            stored = _with_key(where, item, keys[table])
            key = keys[table].text_of(from_item(stored))
            if (first := places.setdefault(key, number)) != number:
                raise _refused(f"{where} has the same {keys[table]} {key!r} as item {first}")
            rows.append((table, stored))
    return rows


def _listed(items: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    if not isinstance(items, Mapping):
        raise _refused(f"{items!r} names no tables; {_LIKE_ITEMS}")
    for table, listed in items.items():
        if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
            raise _refused(f"{table} has {listed!r}; {_LIKE_ITEMS}")
        yield str(table), listed


def _with_key(where: str, item: object, key: TableKey) -> dict[str, Any]:
    """Return an item in low-level form after its key was checked."""
    if not isinstance(item, Mapping):
        raise _refused(f"{where} is {item!r}; {_LIKE_ITEMS}")
    stored = low_level(where, item)
    for place, (name, kind) in enumerate(zip(key.names, key.types, strict=True)):
        if not stored.get(name, {}).get(kind):
            which = "hash" if place == 0 else "range"
            raise _refused(
                f"{where} needs a {name!r}, {_TYPES[kind]}: the table's {which} key; it has {item.get(name)!r}"
            )
    return stored


def low_level(where: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item in DynamoDB's low-level form. ``where`` names the item.

    Raises :class:`SettingsError` with the attribute for a value that DynamoDB cannot hold.
    """
    for name, value in item.items():
        try:
            to_item({name: value})
        except (TypeError, ValueError, ArithmeticError) as error:
            raise _refused(f"{where} has {name}={value!r}, which DynamoDB cannot hold: {error}") from None
    return to_item(item)


def _refused(problem: str) -> SettingsError:
    return SettingsError("items", problem)


def declared_by_name(name: str, modules: Iterable[ModuleType]) -> dict[str, Any]:
    """Collect what modules declare under a name such as ``STUBS``."""
    declared: dict[str, Any] = {}
    for module in modules:
        given = getattr(module, name, {})
        declared |= given if isinstance(given, Mapping) else {each: {} for each in given}
    return declared
