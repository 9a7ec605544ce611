"""Creates what a flow uses when it is first used. A replay needs no list of queues, topics and buses.

Tables are created too, where the keys are known: from the flow's ``TABLES``, or from the key of an update or delete.
Functions are not run: an invocation is accepted, and that is all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.engine import Engine
from flowguard.sim.keyed import create_table
from flowguard.sim.limits.functions import function_name
from flowguard.sim.limits.queues import queue_name
from flowguard.sim.limits.schedules import DEFAULT_GROUP, group_name
from flowguard.sim.limits.topics import topic_name
from flowguard.sim.prepared import low_level

_NO_QUEUE = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
_NO_TOPIC = frozenset({"NotFound", "NotFoundException"})
_NO_FUNCTION = "ResourceNotFoundException"

Keys = Mapping[str, Any]
"""A table's key, low-level: ``{"pk": {"S": "…"}, "sk": {"S": "…"}}``, the hash key first."""


class AutoProvisioner:
    """An interceptor that creates what is missing.

    ``keys`` maps the names of tables to those of their hash keys, which are text; the run table is there already.
    """

    def __init__(self, engine: Engine, keys: Mapping[str, str], run_table: str) -> None:
        self._engine = engine
        self._declared = keys
        self._there = {run_table}
        self._groups = {DEFAULT_GROUP}
        self.tables: list[str] = []
        self.queues: dict[str, str] = {}

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        match call.service:
            case "dynamodb":
                for name, key in tables_of(low_level(call)):
                    self.table(name, key)
            case "events" if call.operation == "PutEvents":
                self._buses({entry.get("EventBusName") for entry in call.params["Entries"]})
            case "scheduler" if call.operation == "CreateSchedule":
                self._schedule_group(group_name(call.params))
        try:
            return proceed()
        except ClientError as error:
            return self._supplied(call, proceed, error)

    def queue(self, name: str) -> str:
        """Return the URL of the queue. It is created if it does not exist."""
        if name not in self.queues:
            fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
            self.queues[name] = self._engine.create_queue(name, **fifo)
        return self.queues[name]

    def table(self, name: str, key: Keys | None = None) -> None:
        """Create the table if it is missing and its key is known. An undeclared one takes the key it is used with."""
        declared = self._declared.get(name)
        keys: Keys = {declared: {"S": ""}} if declared is not None else key or {}
        if name in self._there or not keys:
            return
        self._there.add(name)
        self.tables.append(name)
        types = tuple(next(iter(value)) for value in keys.values())
        create_table(self._engine.client("dynamodb"), name, *keys, types=types)

    def _supplied(self, call: ApiCall, proceed: Proceed, error: ClientError) -> Response:
        code = error.response.get("Error", {}).get("Code", "")
        if call.service == "sqs" and code in _NO_QUEUE:
            url = self.queue(queue_name(call.params))
            return {"QueueUrl": url} if call.operation == "GetQueueUrl" else proceed()
        if call.service == "sns" and code in _NO_TOPIC and call.operation.startswith("Publish"):
            self._engine.create_topic(topic_name(call.params))
            return proceed()
        if call.service == "lambda" and code == _NO_FUNCTION and call.operation == "Invoke":
            self._engine.create_function(function_name(call.params))
            return proceed()
        raise error

    def _schedule_group(self, name: str) -> None:
        if name not in self._groups:
            self._groups.add(name)
            self._engine.client("scheduler").create_schedule_group(Name=name)

    def _buses(self, names: Iterable[str | None]) -> None:
        events = self._engine.client("events")
        for name in sorted(found.rpartition("/")[2] for found in names if found):
            try:
                events.describe_event_bus(Name=name)
            except ClientError:
                events.create_event_bus(Name=name)


def tables_of(params: Mapping[str, Any]) -> list[tuple[str, Keys | None]]:
    """Return each table that a DynamoDB call reads or writes by key. With it goes that key, where the call gives it."""
    actions = [action for item in params.get("TransactItems", ()) for action in item.values()]
    named = [one for one in (params, *actions) if "TableName" in one and "KeySchema" not in one]
    return [(one["TableName"], one.get("Key")) for one in named]
