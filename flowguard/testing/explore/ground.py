"""What all schedules of an exploration share: the engine with its tables and queues, clients, the virtual time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self, cast

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, aws_store
from flowguard.aws.writes import from_item
from flowguard.events import Observer
from flowguard.flow import AnyFlow
from flowguard.ids import SeededIds
from flowguard.local.aftermath import plain
from flowguard.local.calls import Interceptor, intercept
from flowguard.local.embedded import EmbeddedAWS
from flowguard.local.functions import Functions, topics
from flowguard.local.recording import Recorded
from flowguard.local.supply import Supply
from flowguard.local.virtual import VirtualTime
from flowguard.local.world import START, declared_tables
from flowguard.ports import Services
from flowguard.run import RunItem
from flowguard.settings import Settings
from flowguard.testing.explore.chance import Chance, repeatable
from flowguard.testing.explore.engine import EngineFor, Snapshots
from flowguard.testing.explore.history import Items
from flowguard.testing.explore.inbox import Given, read_given


class Ground:
    """Open it as a block; ``fresh`` gives each schedule the same empty beginning. It is a clock: that of the schedule
    which is running."""

    def __init__(
        self, flows: Sequence[AnyFlow], given: Sequence[Given], tables: Mapping[str, str], engine: EngineFor, seed: int
    ) -> None:
        self.flows = tuple(flows)
        self.keys = {**declared_tables(flows), **tables}
        self.topics = topics(flows)
        self.settings = Settings.model_validate({})
        self.recorded: list[Recorded] = read_given(flows, given, START)
        self.start = min((one.sent_at for one in self.recorded if one.sent_at is not None), default=START)
        self.seed = seed
        self.chance = Chance()
        self.time = VirtualTime(self.start)
        self._engine = engine(self)
        self._exit = ExitStack()
        self._snapshot: Any = None
        self._known: set[str] = set()

    def now(self) -> int:
        return self.time.now()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self._engine)
            self._set_up()
            self._exit = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def _set_up(self) -> None:
        self._clients = Clients()
        self.store = aws_store(self.settings, self._clients)
        self.dynamodb = self._engine.client("dynamodb")
        self.supply = Supply(cast("EmbeddedAWS", self._engine), self.keys, self.settings.table)
        self._engine.create_table(self.settings.table)
        for table in sorted(self.keys):
            self.supply.table(table)
        for queue in sorted(self.functions_for(self._services(lambda _: None)).by_queue):
            self.supply.queue(queue)
        for topic in sorted(set(self.topics.values())):
            self._engine.create_topic(topic)
        if isinstance(self._engine, Snapshots):
            self._snapshot = self._engine.snapshot()
            self._known = set(self.supply.queues)

    @contextmanager
    def fresh(self, interceptor: Interceptor) -> Iterator[None]:
        """The beginning: empty tables, the time at its start, and this interceptor round each call."""
        self._take_back()
        self.time = VirtualTime(self.start)
        with self.time, repeatable(self.chance), intercept(interceptor), intercept(self.supply):
            yield

    def _take_back(self) -> None:
        if isinstance(self._engine, Snapshots):
            self._go_back(self._engine)
            return
        for table in (self.settings.table, *self.supply.tables):
            names = ("pk", "sk") if table == self.settings.table else self._key_of(table)
            for item in self._scan(table):
                self.dynamodb.delete_item(TableName=table, Key={name: item[name] for name in names})

    def _go_back(self, engine: Snapshots) -> None:
        """To the beginning, which from now on has the queues that the last schedule was the first to use."""
        engine.restore(self._snapshot)
        new = set(self.supply.queues) - self._known
        for queue in sorted(new):
            self.supply.queues.pop(queue)
            self.supply.queue(queue)
        if new:
            self._snapshot, self._known = engine.snapshot(), set(self.supply.queues)

    def _key_of(self, table: str) -> tuple[str, ...]:
        if table in self.keys:
            return (self.keys[table],)
        described = self.dynamodb.describe_table(TableName=table)["Table"]["KeySchema"]
        return tuple(one["AttributeName"] for one in described)

    def functions(self, observer: Observer) -> Functions:
        """The functions of the flows, with services of their own for each schedule."""
        return self.functions_for(self._services(observer))

    def functions_for(self, services: Services) -> Functions:
        return Functions(self.flows, services)

    def _services(self, observer: Observer) -> Services:
        return aws_services(
            self.settings,
            self._clients,
            clock=self,
            ids=SeededIds(self.seed),
            observer=observer,
            draw=random.Random(self.seed),  # noqa: S311 - repeatable on purpose
        )

    # -- what is there

    def item(self, key: Mapping[str, Any]) -> RunItem | None:
        """A run item, by its low-level key."""
        answer = self.dynamodb.get_item(TableName=self.settings.table, Key=key, ConsistentRead=True)
        return self.store.whole(answer["Item"]) if "Item" in answer else None

    def items(self) -> Items:
        """The user's tables, each item's attributes and the items themselves in one order."""
        return {
            table: tuple(sorted((plain(from_item(raw)) for raw in self._scan(table)), key=_order))
            for table in sorted(self.supply.tables)
        }

    def _scan(self, table: str) -> list[Any]:
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=table)
        return [item for page in pages for item in page["Items"]]


def _order(item: Mapping[str, Any]) -> str:
    return repr(sorted(item.items()))
