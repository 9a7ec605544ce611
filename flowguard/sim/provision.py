"""Creates what flows use. What is not known beforehand is created when it is first used.

So a replay needs no list of queues, topics, buses and functions. Tables are created where their keys are known: from
the flow's ``TABLES``, or from the key of an update or delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from botocore.exceptions import ClientError

from flowguard.errors import SettingsError
from flowguard.project.declared import GivenItems, Keys, TableKey, read_items
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.engine import Engine
from flowguard.sim.limits.buses import bus_name
from flowguard.sim.limits.functions import function_name
from flowguard.sim.limits.queues import queue_name
from flowguard.sim.limits.refusing import tables_of_statements
from flowguard.sim.limits.schedules import DEFAULT_GROUP, group_name
from flowguard.sim.limits.topics import topic_name
from flowguard.sim.prepared import low_level
from flowguard.sim.table_keys import create_table

_NO_QUEUE = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
_NO_TOPIC = frozenset({"NotFound", "NotFoundException"})
_NO_FUNCTION = frozenset({"ResourceNotFoundException"})

LONGEST_RETENTION: Final = 1_209_600
"""Seconds. Templates keep dead letters so long, and SQS nothing any longer."""

LowLevelKey = Mapping[str, Any]
"""A table's key, low-level: ``{"pk": {"S": "…"}, "sk": {"S": "…"}}``, the hash key first."""


@dataclass(frozen=True, slots=True)
class Provided:
    """What was there at one moment."""

    tables: tuple[str, ...]
    queues: frozenset[str]
    groups: frozenset[str]


class AutoProvisioner:
    """An interceptor that creates what is missing.

    ``keys`` are those of the declared tables. ``tables`` are the user's that are
    there, by whomever they were created; ``queues`` the URLs of queues by their names.
    """

    def __init__(self, engine: Engine, keys: Keys, run_table: str) -> None:
        self._engine = engine
        self._declared = keys
        self._run_table = run_table
        self._groups = {DEFAULT_GROUP}
        self._used_with: dict[str, TableKey] = {}
        self.tables: list[str] = []
        self.queues: dict[str, str] = {}

    # -- beforehand

    def set_up(self, queues: Iterable[str], topics: Iterable[str] = ()) -> None:
        """Create the tables and these queues and topics. Tables that are there stay."""
        pages = self._engine.client("dynamodb").get_paginator("list_tables").paginate()
        there = [name for page in pages for name in page["TableNames"]]
        if self._run_table not in there:
            self._engine.create_table(self._run_table)
        for name in there:
            self._note(name)
        for table in sorted(self._declared):
            self.table(table)
        for queue in sorted(queues):
            self.queue(queue)
        for topic in topics:
            self._engine.create_topic(topic)

    def subscribe(self, topics: Mapping[str, str]) -> None:
        """Subscribe queues to the topics in front of them, which are given by the queues' names."""
        for queue, topic in topics.items():
            self._engine.subscribe(self._engine.create_topic(topic), self.queue(queue))

    def queue(self, name: str) -> str:
        """Return the URL of the queue. It is created if it does not exist."""
        if name not in self.queues:
            fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
            self.queues[name] = self._engine.create_queue(name, MessageRetentionPeriod=str(LONGEST_RETENTION), **fifo)
        return self.queues[name]

    def put_in(self, items: GivenItems) -> None:
        """Put declared items into their tables. One whose key is there already stays as it is."""
        dynamodb = self._engine.client("dynamodb")
        for number, (table, item) in enumerate(read_items(items, self._declared), 1):
            names = {f"#k{place}": name for place, name in enumerate(self._declared[table].names)}
            try:
                dynamodb.put_item(
                    TableName=table,
                    Item=item,
                    ConditionExpression=" AND ".join(f"attribute_not_exists({name})" for name in names),
                    ExpressionAttributeNames=names,
                )
            except dynamodb.exceptions.ConditionalCheckFailedException:
                continue
            except ClientError as error:
                problem = f"DynamoDB refuses number {number}, of {table}: {error.response['Error']['Message']}"
                raise SettingsError("items", problem) from None

    def table(self, name: str, key: TableKey | None = None) -> None:
        """Create the table if it is missing and its key is known. An undeclared one takes the key it is used with."""
        known = self._declared.get(name) or key
        if known is None or not self._may_miss(name):
            return
        self.tables.append(name)
        self._used_with[name] = known
        create_table(self._engine.client("dynamodb"), name, *known.names, types=known.types, indexes=known.indexes)

    def _note(self, table: str) -> None:
        """Leave a table alone that somebody else created."""
        if self._may_miss(table):
            self.tables.append(table)

    def _may_miss(self, table: str) -> bool:
        return table != self._run_table and table not in self.tables

    # -- when it is first used

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        match call.service:
            case "dynamodb" if any(self._may_miss(name) for name, _ in tables_of(call.params)):
                for name, key in tables_of(low_level(call)):
                    self.table(name, _key_of(key or {}))
            case "events" if call.operation == "PutEvents":
                self._buses({bus_name(entry) for entry in call.params["Entries"] if entry.get("EventBusName")})
            case "scheduler" if call.operation == "CreateSchedule":
                self._schedule_group(group_name(call.params))
        try:
            answer = proceed()
        except ClientError as error:
            return self._supplied(call, proceed, error)
        if (call.service, call.operation) == ("dynamodb", "CreateTable"):
            self._note(call.params["TableName"])
        return answer

    def _supplied(self, call: ApiCall, proceed: Proceed, error: ClientError) -> Response:
        code = error.response.get("Error", {}).get("Code", "")
        if call.service == "sqs" and code in _NO_QUEUE:
            url = self.queue(queue_name(call.params))
            return {"QueueUrl": url} if call.operation == "GetQueueUrl" else proceed()
        if call.service == "sns" and code in _NO_TOPIC and call.operation.startswith("Publish"):
            return self._published(call, proceed)
        if call.service == "lambda" and code in _NO_FUNCTION and call.operation == "Invoke":
            self._engine.create_function(function_name(call.params))
            return proceed()
        raise error

    def _published(self, call: ApiCall, proceed: Proceed) -> Response:
        """Publish to the topic of that name here, whatever region and account its ARN names."""
        name = "TopicArn" if call.params.get("TopicArn") else "TargetArn"
        try:
            here = self._engine.create_topic(topic_name(call.params))
            with _with(call, name, here):
                return proceed()
        except ClientError as error:
            raise _about(error, call.operation, str(call.params.get(name))) from None

    def _schedule_group(self, name: str) -> None:
        if name not in self._groups:
            self._groups.add(name)
            self._engine.client("scheduler").create_schedule_group(Name=name)

    def _buses(self, names: Iterable[str]) -> None:
        events = self._engine.client("events")
        for name in sorted(names):
            try:
                events.describe_event_bus(Name=name)
            except ClientError:
                events.create_event_bus(Name=name)

    # -- with an engine that goes back

    def provided(self) -> Provided:
        return Provided(tuple(self.tables), frozenset(self.queues), frozenset(self._groups))

    def go_back(self, to: Provided) -> bool:
        """Create anew what was supplied since, for an engine that is as it was then. Answer whether there was any.

        Tables that user code created since are gone.
        """
        tables = [name for name in self.tables if name not in to.tables and name in self._used_with]
        queues, groups = self.queues.keys() - to.queues, self._groups - to.groups
        self.tables = list(to.tables)
        for table in tables:
            self.table(table, self._used_with[table])
        for queue in sorted(queues):
            self.queues.pop(queue)
            self.queue(queue)
        self._groups -= groups
        for group in sorted(groups):
            self._schedule_group(group)
        return bool(tables or queues or groups)


@contextmanager
def _with(call: ApiCall, name: str, value: str) -> Iterator[None]:
    """Give one parameter of the call another value for the block."""
    params = cast("dict[str, Any]", call.params)
    before, params[name] = params[name], value
    try:
        yield
    finally:
        params[name] = before


def _about(error: ClientError, operation: str, subject: str) -> ClientError:
    """Return the error with the name of what it is about."""
    details: Any = error.response.get("Error", {})
    response: Any = {**error.response, "Error": {**details, "Message": f"{details.get('Message')}: {subject}"}}
    return type(error)(response, operation)


def _key_of(key: LowLevelKey) -> TableKey | None:
    """Return the key that a table is used with."""
    return TableKey(tuple(key), tuple(next(iter(value)) for value in key.values())) if key else None


def tables_of(params: Mapping[str, Any]) -> list[tuple[str, LowLevelKey | None]]:
    """Return each table that a DynamoDB call reads or writes by key. With it goes that key, where the call gives it."""
    actions = [action for item in params.get("TransactItems", ()) for action in item.values()]
    named = [request for request in (params, *actions) if "TableName" in request and "KeySchema" not in request]
    of_statements = [(name, None) for name in tables_of_statements(params)]
    return [*((request["TableName"], request.get("Key")) for request in named), *of_statements]
