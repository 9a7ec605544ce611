"""DynamoDB's rules for moto. A write is planned as the AWS in memory does it, on moto's table and item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.items import MOST_WRITTEN_TOGETHER, check_count, no_table
from flowguard.sim.memory.table import Table, table_from
from flowguard.sim.memory.transactions import judged, planned_together
from flowguard.sim.memory.values import stored_item
from flowguard.sim.memory.writing import Kind, PlannedWrite, planned
from flowguard.sim.strict import state

Params: TypeAlias = Mapping[str, Any]


def check_get(region: str, params: Params) -> None:
    schema = _table(region, params).schema
    schema.check_sizes(schema.given(params["Key"]))


def check_put(region: str, params: Params) -> None:
    _check("Put", region, params)


def check_update(region: str, params: Params) -> None:
    _check("Update", region, params)


def check_delete(region: str, params: Params) -> None:
    _check("Delete", region, params)


def check_batch(region: str, params: Params) -> None:
    check_count(MOST_WRITTEN_TOGETHER, sum(map(len, params["RequestItems"].values())))
    for name, requests in params["RequestItems"].items():
        table = _table(region, {"TableName": name})
        for request in requests:
            if "PutRequest" in request:
                planned("Put", table, {"Item": request["PutRequest"]["Item"]}).check_key()
            else:
                planned("Delete", table, {"Key": request["DeleteRequest"]["Key"]}).check_key()


def check_transaction(region: str, params: Params) -> None:
    """Check the writes of a transaction without its conditions.

    Conditions are left to moto, which also knows the transactions that it has seen before.
    """
    tables: dict[str, Table] = {}

    def table(params: Params) -> Table:
        return tables.setdefault(params["TableName"], _table(region, params))

    writes = planned_together(params["TransactItems"], table)
    for write in writes:
        _fetch(region, write)
    try:
        judged(writes)
    except Fault as fault:
        if any(reason["Code"] == "ValidationError" for reason in fault.more["CancellationReasons"]):
            raise


def _check(kind: Kind, region: str, params: Params) -> None:
    """Check the write whatever its condition says. Where the condition holds, check the new item too."""
    write = planned(kind, _table(region, params), params)
    write.check_key()
    _fetch(region, write)
    if write.holds():
        write.new()


def _table(region: str, params: Params) -> Table:
    """Return moto's table without its items."""
    name = params["TableName"].rpartition("/")[2]
    table = state.table(region, name)
    if table is None:
        raise no_table()
    description = {
        "TableName": name,
        "KeySchema": table.schema,
        "AttributeDefinitions": table.attr,
        "GlobalSecondaryIndexes": [_index(index) for index in table.global_indexes],
        "LocalSecondaryIndexes": [_index(index) for index in table.indexes],
    }
    return table_from(description, table.table_arn, 0)


def _index(index: Any) -> dict[str, Any]:
    return {"IndexName": index.name, "KeySchema": index.schema, "Projection": index.projection}


def _fetch(region: str, write: PlannedWrite) -> None:
    """Put the item that the write finds in moto into its table."""
    given = write.params["Item" if write.kind == "Put" else "Key"]
    key = [given[name] for name in write.table.schema.names]
    item = state.item(state.table(region, write.table.name), *key)
    if item is not None:
        write.table.store(write.key, stored_item(item))
