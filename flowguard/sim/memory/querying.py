"""Query and Scan: one page of a table or an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flowguard.sim.calls import Response
from flowguard.sim.limits.fault import Fault, invalid
from flowguard.sim.memory.keys import Schema
from flowguard.sim.memory.paths import Path, projected
from flowguard.sim.memory.requests import Bound, bind
from flowguard.sim.memory.service import Params
from flowguard.sim.memory.table import Index, Table
from flowguard.sim.memory.values import Item, item_weight, shown_item
from flowguard.sim.scans import Scans

LARGEST_PAGE: Final = 1_048_576


def query(table: Table, params: Params, scans: Scans = Scans.FORWARDS) -> Response:
    """Return a page of one partition in the order of its sort key. Items of an index share one in no certain order."""
    bound, index = bind(params), _index(table, params)
    if bound.key is None:
        raise invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
    bound.key.fits(index.schema)
    if bound.filter is not None and (keys := sorted(bound.filter.attributes & set(index.schema.names))):
        raise invalid(
            f"Filter Expression can only contain non-primary key attributes: Primary key attribute: {keys[0]}"
        )
    items = [item for item in table.items() if index.schema.has(item) and bound.key.holds(item, bound.values)]
    backwards = not params.get("ScanIndexForward", True)
    turned = "IndexName" in params and scans is Scans.BACKWARDS
    return _page(table, index, items, bound, _in_pages(params, scans), backwards=backwards, turned=turned)


def scan(table: Table, params: Params, scans: Scans = Scans.FORWARDS) -> Response:
    """Return a page of all items in the order of their keys, or as is said.

    The real order is by a hash of the key, on which nobody may rely.
    """
    index = _index(table, params)
    items = [item for item in table.items() if index.schema.has(item)]
    backwards = scans is Scans.BACKWARDS
    return _page(table, index, items, bind(params), _in_pages(params, scans), backwards=backwards)


def _in_pages(params: Params, scans: Scans) -> Params:
    return {"Limit": 1, **params} if scans is Scans.IN_PAGES else params


def _index(table: Table, params: Params) -> Index:
    if "IndexName" not in params:
        if params.get("Select") == "ALL_PROJECTED_ATTRIBUTES":
            raise invalid("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
        return Index(table.schema, None)
    if params["IndexName"] not in table.indexes:
        raise invalid(f"The table does not have the specified index: {params['IndexName']}")
    index = table.indexes[params["IndexName"]]
    if params.get("ConsistentRead") and index.is_global:
        raise invalid("Consistent reads are not supported on global secondary indexes")
    if params.get("Select") == "ALL_ATTRIBUTES" and index.is_global and index.attributes is not None:
        raise invalid(
            f"One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global "
            f"secondary index {params['IndexName']} because its projection type is not ALL"
        )
    return index


def _page(
    table: Table,
    index: Index,
    items: Iterable[Item],
    bound: Bound,
    params: Params,
    *,
    backwards: bool,
    turned: bool = False,
) -> Response:
    """Return a page of the items in the order of the index. ``turned`` are those that have one key in it."""
    if params.get("Limit", 1) < 1:
        raise invalid("Limit must be greater than or equal to 1")
    _check_projection(index, bound, params)
    listed, start = [*items], None
    if (given := params.get("ExclusiveStartKey")) is not None:
        position, start = _position(index.schema, table.schema), _started(given, index.schema, table.schema, bound)
        after = position(start)
        listed = [start, *(item for item in listed if position(item) != after)]
    listed.sort(key=table.schema.order, reverse=backwards is not turned)
    listed.sort(key=index.schema.order, reverse=backwards)
    ordered = listed if start is None else listed[next(at for at, item in enumerate(listed) if item is start) + 1 :]
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


def _check_projection(index: Index, bound: Bound, params: Params) -> None:
    if bound.projection is None:
        return
    if params.get("Select") == "COUNT":
        raise invalid("Cannot specify the ProjectionExpression when choosing to get only the Count")
    if index.is_global and index.attributes is not None:
        projected_names = {path[0] for path in index.attributes}
        if missing := [str(path[0]) for path in bound.projection.paths if path[0] not in projected_names]:
            raise invalid(
                f"One or more parameter values were invalid: Global secondary index {params['IndexName']} does not "
                f"project [{', '.join(missing)}]"
            )


def _started(given: Mapping[str, Any], index: Schema, table: Schema, bound: Bound) -> Item:
    """Return the item after which a page begins. It has the keys of the table and the index, and is one of a Query."""
    try:
        start = Schema(tuple(dict([*table.types, *index.types]).items())).given(given)
    except Fault:
        raise invalid("The provided starting key is invalid") from None
    if bound.key is not None and not bound.key.holds(start, bound.values):
        raise invalid("The provided starting key does not match the range key predicate")
    return start


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
