"""Tables and their rows. CreateTable calls are read and described here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flowguard.sim.limits.fault import invalid
from flowguard.sim.limits.items import LARGEST_ITEM
from flowguard.sim.memory.keys import Key, Schema
from flowguard.sim.memory.paths import Path
from flowguard.sim.memory.service import Params
from flowguard.sim.memory.values import Item, item_weight


class Row:
    """A stored item. Rows are replaced, never changed, so snapshots share them and their digests."""

    __slots__ = ("_digest", "_without", "item")

    def __init__(self, item: Item) -> None:
        self.item = item
        self._digest = b""
        self._without: frozenset[str] | None = None

    def digest(self, without: frozenset[str]) -> bytes:
        """Return a digest of all attributes but these."""
        if self._without != without:
            kept = {name: value for name, value in self.item.items() if name not in without}
            self._digest = hashlib.blake2b(repr(_plain({"M": kept})).encode(), digest_size=16).digest()
            self._without = without
        return self._digest


def _plain(value: dict[str, Any]) -> Any:
    """Return the value with its maps in one order."""
    match value:
        case {"M": content}:
            return "M", [(name, _plain(content[name])) for name in sorted(content)]
        case {"L": content}:
            return "L", [_plain(part) for part in content]
        case _:
            return value


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index. ``attributes`` are what it projects; None for all of them."""

    schema: Schema
    attributes: tuple[Path, ...] | None
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table. ``description`` is what CreateTable said; only ``rows`` changes, and a copy of the table has its own."""

    name: str
    schema: Schema
    indexes: Mapping[str, Index]
    description: Mapping[str, Any]
    rows: dict[Key, Row] = field(default_factory=dict)

    def copy(self) -> Table:
        return Table(self.name, self.schema, self.indexes, self.description, dict(self.rows))

    def store(self, key: Key, item: Item | None) -> None:
        if item is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = Row(item)

    def items(self) -> list[Item]:
        return [row.item for row in self.rows.values()]

    def check(self, item: Item) -> Item:
        """Return the item if all indexes accept it."""
        for index in self.indexes.values():
            for name, kind in index.schema.types:
                if name in item and not item[name].get(kind):
                    raise invalid(f"One or more parameter values were invalid: Type mismatch for Index Key {name}")
            index.schema.check_sizes(item)
        return item


_INDEXES: Final = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")


def check_size(item: Item, too_large: str) -> None:
    """Check that the item may be stored. ``too_large`` is the error's message otherwise."""
    if item_weight(item) > LARGEST_ITEM:
        raise invalid(too_large)


def table_from(params: Params, arn: str, now: int) -> Table:
    """Build the table that a CreateTable call asks for."""
    types = {param["AttributeName"]: param["AttributeType"] for param in params["AttributeDefinitions"]}
    schema = _schema(params["KeySchema"], types)
    description = {
        "TableName": params["TableName"],
        "KeySchema": params["KeySchema"],
        "AttributeDefinitions": params["AttributeDefinitions"],
        "TableStatus": "ACTIVE",
        "TableArn": arn,
        "CreationDateTime": now / 1000,
        "BillingModeSummary": {"BillingMode": params.get("BillingMode", "PROVISIONED")},
        **{kind: [_shown(index, kind) for index in params[kind]] for kind in _INDEXES if params.get(kind)},
    }
    read = {
        index["IndexName"]: _index(index, types, schema, is_global=kind == "GlobalSecondaryIndexes")
        for kind in _INDEXES
        for index in params.get(kind, ())
    }
    return Table(params["TableName"], schema, read, description)


def _shown(index: Mapping[str, Any], kind: str) -> dict[str, Any]:
    status = {"IndexStatus": "ACTIVE"} if kind == "GlobalSecondaryIndexes" else {}
    return {**{name: index[name] for name in ("IndexName", "KeySchema", "Projection")}, **status}


def _index(definition: Mapping[str, Any], types: Mapping[str, str], table: Schema, *, is_global: bool) -> Index:
    schema, projection = _schema(definition["KeySchema"], types), definition["Projection"]
    if projection["ProjectionType"] == "ALL":
        return Index(schema, None, is_global)
    names = dict.fromkeys([*table.names, *schema.names, *projection.get("NonKeyAttributes", ())])
    return Index(schema, tuple((name,) for name in names), is_global)


def _schema(parts: list[Mapping[str, str]], types: Mapping[str, str]) -> Schema:
    names = [part["AttributeName"] for kind in ("HASH", "RANGE") for part in parts if part["KeyType"] == kind]
    if missing := set(names) - types.keys():
        raise invalid(f"One or more parameter values were invalid: no definition of key attributes {sorted(missing)}")
    return Schema(tuple((name, types[name]) for name in names))
