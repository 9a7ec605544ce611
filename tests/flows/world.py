"""A flow's Lambda functions on an embedded AWS: each reads its queue, and whatever it sends arrives somewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from flowguard import Flow, LambdaHandler, Settings
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, aws_store
from flowguard.aws.writes import from_item, to_item
from flowguard.clock import ManualClock
from flowguard.events import EventType, Tally
from flowguard.ids import SeededIds
from flowguard.protocol.run import RunItem
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.moto import EmbeddedAWS

SAMPLES = Path(__file__).parents[2] / "samples"
NOW = 1_767_323_160_000  # 2026-01-02T03:06:00Z, a little later than the samples were recorded


class World:
    """``functions`` maps the name of each stage's queue to the function that reads it."""

    def __init__(
        self,
        aws: EmbeddedAWS,
        flow: type[Flow],
        functions: Mapping[str, LambdaHandler],
        *,
        tables: Mapping[str, str],
        queues: Iterable[str],
    ) -> None:
        settings, clients = Settings.from_environment({}), Clients()
        self.tally = Tally()
        self.clock = ManualClock(NOW)
        services = aws_services(settings, clients, clock=self.clock, ids=SeededIds(), observer=self.tally)
        self._aws, self._flow, self._tables = aws, flow, tables
        self._store = aws_store(settings, clients)
        self._functions = {queue: function.using(services) for queue, function in functions.items()}
        self._urls = {queue: aws.create_queue(queue) for queue in (*functions, *queues, f"{flow.name}-dead-letters")}
        aws.create_table(settings.table)
        for table, key in tables.items():
            aws.client("dynamodb").create_table(
                TableName=table,
                BillingMode="PAY_PER_REQUEST",
                KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            )

    # -- making things happen

    def deliver(self, sample: str) -> Any:
        """Hand a recorded event to the function where requests enter; what that function answers."""
        return self.enter(json.loads((SAMPLES / sample).read_text()))

    def enter(self, event: Any) -> Any:
        return next(iter(self._functions.values()))(event)

    def work(self, *queues: str, copies: int = 1) -> None:
        """Let the functions read these queues, or all, until nothing is left; each message ``copies`` times."""
        while sum(self._work_one(queue, copies) for queue in queues or self._functions):
            pass

    def _work_one(self, queue: str, copies: int) -> bool:
        event = {"Messages": self._take(queue)}
        if not event["Messages"]:
            return False
        for _ in range(copies):
            assert self._functions[queue](event) == {"batchItemFailures": []}
        return True

    def _take(self, queue: str) -> list[Any]:
        sqs, url = self._aws.client("sqs"), self._urls[queue]
        found: Any = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            message["eventSourceARN"] = self._aws.queue_arn(url)
        return list(found)

    # -- seeing what has happened

    def item(self, table: str, key: str) -> dict[str, Any] | None:
        """An item of the flow's own tables, as plain values."""
        found: Any = self._aws.client("dynamodb").get_item(TableName=table, Key=to_item({self._tables[table]: key}))
        return from_item(found["Item"]) if "Item" in found else None

    def run(self, object_id: str) -> RunItem:
        item = self._store.read(self._flow.name, object_id)
        assert item is not None
        return item

    def messages(self, queue: str) -> dict[str, Any]:
        """Takes what is in a queue: bodies by the id that each carries. Copies share it, so a receiver sees one."""
        found: dict[str, Any] = {}
        while taken := self._take(queue):
            found |= {one["MessageAttributes"]["uniquerequestid"]["StringValue"]: one["Body"] for one in taken}
        return {own: json.loads(body) for own, body in found.items()}

    def count(self, *events: EventType) -> int:
        return self.tally.count(*events)


class Meanwhile:
    """An interceptor: something else happens just before the first call of this operation is made."""

    def __init__(self, operation: str, happens: Callable[[], object]) -> None:
        self._operation = operation
        self._happens: list[Callable[[], object]] = [happens]

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == self._operation and self._happens:
            self._happens.pop()()
        return proceed()


class Died(KeyboardInterrupt):
    """A worker that is gone at once: the runtime does not take it for a failed attempt."""


class Death:
    """An interceptor: the worker dies at the first call of this operation, before it is made or when it has been."""

    def __init__(self, operation: str, *, made: bool) -> None:
        self._operation = operation
        self._made = made
        self._died = False

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation != self._operation or self._died:
            return proceed()
        self._died = True
        if self._made:
            proceed()
        raise Died
