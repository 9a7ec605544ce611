"""Query and Scan: one page of a table or an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from flowguard.sim.calls import Response
from flowguard.sim.limits.fault import Fault, invalid
from flowguard.sim.memory.keys import Schema
from flowguard.sim.memory.paths import Path, projected
from flowguard.sim.memory.requests import Bound, bind
from flowguard.sim.memory.service import Params
from flowguard.sim.memory.table import Index, Table
from flowguard.sim.memory.values import Item, item_weight, shown_item, stored_item
from flowguard.sim.scans import Scans

LARGEST_PAGE: Final = 1_048_576


def query(table: Table, params: Params) -> Response:
    """Return a page of one partition in the order of its sort key."""
    bound, index = bind(params), _index(table, params)
    if bound.key is None:
        raise invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
    bound.key.fits(index.schema)
    items = [item for item in table.items() if index.schema.has(item) and bound.key.holds(item, bound.values)]
    return _page(table, index, items, bound, params, backwards=not params.get("ScanIndexForward", True))


def scan(table: Table, params: Params, scans: Scans = Scans.FORWARDS) -> Response:
    """Return a page of all items in the order of their keys, or as is said.

    The real order is by a hash of the key, on which nobody may rely.
    """
    index = _index(table, params)
    items = [item for item in table.items() if index.schema.has(item)]
    if scans is Scans.IN_PAGES:
        params = {"Limit": 1, **params}
    return _page(table, index, items, bind(params), params, backwards=scans is Scans.BACKWARDS)


def _index(table: Table, params: Params) -> Index:
    if "IndexName" not in params:
        return Index(table.schema, None)
    if params["IndexName"] not in table.indexes:
        raise invalid(f"The table does not have the specified index: {params['IndexName']}")
    return table.indexes[params["IndexName"]]


def _page(
    table: Table, index: Index, items: Iterable[Item], bound: Bound, params: Params, *, backwards: bool
) -> Response:
    if params.get("Limit", 1) < 1:
        raise invalid("Limit must be greater than or equal to 1")
    position = _position(index.schema, table.schema)
    ordered = sorted(items, key=position, reverse=backwards)
    if (start := params.get("ExclusiveStartKey")) is not None:
        after = _started(start, position)
        ordered = [item for item in ordered if (position(item) < after if backwards else position(item) > after)]
    seen, more = _cut(ordered, params.get("Limit"))
    matching = [item for item in seen if bound.filter is None or bound.filter.holds(item, bound.values)]
    answer: Response = {"Count": len(matching), "ScannedCount": len(seen)}
    if params.get("Select") != "COUNT":
        answer["Items"] = [_shown(item, index.attributes, bound) for item in matching]
    if more:
        names = dict.fromkeys([*table.schema.names, *index.schema.names])
        answer["LastEvaluatedKey"] = shown_item({name: seen[-1][name] for name in names})
    return answer


def _position(index: Schema, table: Schema) -> Callable[[Item], Any]:
    return lambda item: (index.order(item), table.order(item))


def _started(start: dict[str, Any], position: Callable[[Item], Any]) -> Any:
    try:
        return position(stored_item(start))
    except KeyError:
        raise Fault("ValidationException", "The provided starting key is invalid") from None


def _cut(items: list[Item], limit: int | None) -> tuple[list[Item], bool]:
    """Return the items of one page, and whether it stopped before it knew that nothing is left."""
    size = 0
    for place, item in enumerate(items):
        if place == limit:
            return items[:place], True
        size += item_weight(item)
        if size > LARGEST_PAGE and place:
            return items[:place], True
    return items, len(items) == limit


def _shown(item: Item, attributes: tuple[Path, ...] | None, bound: Bound) -> Item:
    if attributes is not None:
        item = projected(item, attributes)
    return shown_item(projected(item, bound.projection.paths) if bound.projection else item)
