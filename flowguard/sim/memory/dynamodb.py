"""Single reads and writes, batches and tables of DynamoDB in memory.

Transactions and queries have their own modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from flowguard.sim.calls import Response
from flowguard.sim.limits.fault import Fault, invalid
from flowguard.sim.limits.items import MOST_READ_TOGETHER, MOST_WRITTEN_TOGETHER, check_count, no_table
from flowguard.sim.memory.keys import Key
from flowguard.sim.memory.paths import projected
from flowguard.sim.memory.querying import query, scan
from flowguard.sim.memory.requests import bind
from flowguard.sim.memory.service import Operation, Params, Surroundings, operation
from flowguard.sim.memory.statements import batch_execute
from flowguard.sim.memory.table import Table, table_from
from flowguard.sim.memory.transactions import Transactions
from flowguard.sim.memory.values import Item, shown_item
from flowguard.sim.memory.writing import Kind, planned

_EXPRESSIONS: Final = "ExpressionAttributeNames ExpressionAttributeValues"
_COUNTED: Final = "ReturnConsumedCapacity ReturnItemCollectionMetrics"
_WRITE: Final = (
    f"TableName ConditionExpression {_EXPRESSIONS} ReturnValues ReturnValuesOnConditionCheckFailure {_COUNTED}"
)
_READ: Final = f"TableName ProjectionExpression ConsistentRead ReturnConsumedCapacity {_EXPRESSIONS}"
_PAGE: Final = f"{_READ} IndexName Limit ExclusiveStartKey FilterExpression Select"
_TABLE: Final = """
    TableName KeySchema AttributeDefinitions BillingMode ProvisionedThroughput GlobalSecondaryIndexes
    LocalSecondaryIndexes Tags SSESpecification TableClass DeletionProtectionEnabled StreamSpecification
    """


class DynamoDB:
    """The tables. All writes are atomic, for calls are made one at a time."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._tables: dict[str, Table] = {}
        self._transactions = Transactions(around, self.table)
        self.operations: Mapping[str, Operation] = {
            "GetItem": operation(self._get, f"{_READ} Key"),
            "PutItem": operation(lambda params: self._write("Put", params), f"{_WRITE} Item"),
            "UpdateItem": operation(lambda params: self._write("Update", params), f"{_WRITE} Key UpdateExpression"),
            "DeleteItem": operation(lambda params: self._write("Delete", params), f"{_WRITE} Key"),
            "Query": operation(
                lambda params: query(self.table(params), params, self._around.scans),
                f"{_PAGE} KeyConditionExpression ScanIndexForward",
            ),
            "Scan": operation(lambda params: scan(self.table(params), params, self._around.scans), _PAGE),
            "BatchGetItem": operation(self._batch_get, "RequestItems ReturnConsumedCapacity"),
            "BatchWriteItem": operation(self._batch_write, f"RequestItems {_COUNTED}"),
            "BatchExecuteStatement": operation(
                lambda params: batch_execute(self.table, params), "Statements ReturnConsumedCapacity"
            ),
            "TransactWriteItems": operation(self._transactions.write, f"TransactItems ClientRequestToken {_COUNTED}"),
            "TransactGetItems": operation(self._transact_get, "TransactItems ReturnConsumedCapacity"),
            "CreateTable": operation(self._create, _TABLE),
            "DescribeTable": operation(lambda params: {"Table": self._described(self.table(params))}, "TableName"),
            "DeleteTable": operation(self._delete, "TableName"),
            "ListTables": operation(lambda params: {"TableNames": sorted(self._tables)}),
            "UpdateTimeToLive": operation(self._expire, "TableName TimeToLiveSpecification"),
            "DescribeTimeToLive": operation(self._expiry, "TableName"),
        }

    def table(self, params: Params) -> Table:
        """Return the table that a call gives by name or ARN."""
        table = self._tables.get(params["TableName"].rpartition("/")[2])
        if table is None:
            raise no_table()
        return table

    # -- items

    def _get(self, params: Params) -> Response:
        item = self._found(self.table(params), params["Key"], params)
        return {} if item is None else {"Item": item}

    def _found(self, table: Table, key: Mapping[str, Any], params: Params) -> Item | None:
        given = table.schema.given(key)
        table.schema.check_sizes(given)
        bound, row = bind(params), table.rows.get(table.schema.of(given))
        if row is None:
            return None
        return shown_item(projected(row.item, bound.projection.paths) if bound.projection else row.item)

    def _write(self, kind: Kind, params: Params) -> Response:
        write = planned(kind, self.table(params), params)
        write.check_key()
        if not write.holds():
            raise Fault("ConditionalCheckFailedException", "The conditional request failed", **write.shown_on_failure())
        old, new = write.old, write.new()
        write.table.store(write.key, new)
        return write.answer(old, new)

    def _batch_get(self, params: Params) -> Response:
        asked = params["RequestItems"]
        check_count(MOST_READ_TOGETHER, sum(len(request["Keys"]) for request in asked.values()))
        answers: dict[str, list[Item]] = {}
        for name, request in asked.items():
            table = self.table({"TableName": name})
            keys = [table.schema.of(table.schema.given(key)) for key in request["Keys"]]
            _refuse_repeated(keys)
            options = {kind: value for kind, value in request.items() if kind not in ("Keys", "ConsistentRead")}
            items = [self._found(table, key, options) for key in request["Keys"]]
            answers[name] = [item for item in items if item is not None]
        return {"Responses": answers, "UnprocessedKeys": {}}

    def _batch_write(self, params: Params) -> Response:
        asked = params["RequestItems"]
        check_count(MOST_WRITTEN_TOGETHER, sum(len(requests) for requests in asked.values()))
        writes = []
        for name, requests in asked.items():
            table = self.table({"TableName": name})
            several = [
                planned("Put", table, {"Item": request["PutRequest"]["Item"]})
                if "PutRequest" in request
                else planned("Delete", table, {"Key": request["DeleteRequest"]["Key"]})
                for request in requests
            ]
            _refuse_repeated([write.key for write in several])
            for write in several:
                write.check_key()
            writes += [(write, write.new()) for write in several]
        for write, new in writes:
            write.table.store(write.key, new)
        return {"UnprocessedItems": {}}

    def _transact_get(self, params: Params) -> Response:
        answers = []
        for param in params["TransactItems"]:
            item = self._found(self.table(param["Get"]), param["Get"]["Key"], param["Get"])
            answers.append({} if item is None else {"Item": item})
        return {"Responses": answers}

    # -- tables

    def _create(self, params: Params) -> Response:
        name = params["TableName"]
        if name in self._tables:
            raise Fault("ResourceInUseException", f"Table already exists: {name}")
        table = table_from(params, self._around.arn("dynamodb", f"table/{name}"), self._around.now())
        self._tables[name] = table
        return {"TableDescription": self._described(table)}

    def _described(self, table: Table) -> dict[str, Any]:
        return {**table.description, "ItemCount": len(table.rows)}

    def _delete(self, params: Params) -> Response:
        table = self.table(params)
        del self._tables[table.name]
        return {"TableDescription": {**self._described(table), "TableStatus": "DELETING"}}

    def _expire(self, params: Params) -> Response:
        table, setting = self.table(params), params["TimeToLiveSpecification"]
        self._tables[table.name] = replace(table, description={**table.description, "TimeToLive": setting})
        return {"TimeToLiveSpecification": setting}

    def _expiry(self, params: Params) -> Response:
        setting = self.table(params).description.get("TimeToLive", {"Enabled": False})
        if not setting["Enabled"]:
            return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
        name = setting["AttributeName"]
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": name}}

    # -- state

    def state(self) -> Any:
        return {name: table.copy() for name, table in self._tables.items()}, self._transactions.tokens

    def put_back(self, state: Any) -> None:
        tables, self._transactions.tokens = state
        self._tables = {name: table.copy() for name, table in tables.items()}

    def items(self, table: str) -> list[Item]:
        """Return all items of a table as they are stored. They must not be changed."""
        return self.table({"TableName": table}).items()

    def digest(self, without: frozenset[str]) -> Any:
        return tuple(
            (name, sorted(row.digest(without) for row in table.rows.values()))
            for name, table in sorted(self._tables.items())
        )


def _refuse_repeated(keys: list[Key]) -> None:
    if len(set(keys)) < len(keys):
        raise invalid("Provided list of item keys contains duplicates")
