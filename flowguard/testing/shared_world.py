"""A world on an AWS and a time that a test has opened before, to which flows come one after another."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, aws_store
from flowguard.clock import no_pause
from flowguard.events import Event
from flowguard.flow import AnyFlow
from flowguard.names.ids import SeededIds
from flowguard.project.declared import TableKey, declared_items, declared_tables, modules_of_flows
from flowguard.project.queues import topics
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.delivered import Delivered
from flowguard.sim.engine import Engine
from flowguard.sim.functions import Functions
from flowguard.sim.points import with_points
from flowguard.sim.posted_messages import Posted, posted
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.world import World
from flowguard.testing.raised import described
from flowguard.wire.signing import simulated


class SharedWorld(World):
    """A world on an AWS and a clock that are open already. ``posted`` are all messages that were sent, in order."""

    def __init__(self, aws: Engine, clock: VirtualTime, *, seed: int = 0) -> None:
        super().__init__((), seed=seed, start=clock.now(), aws=aws, clock=clock)
        self.posted: list[Posted] = []
        self._raised: list[BaseException] = []
        self._outside: BaseException | None = None

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            for interceptor in (self._watch, self.mail, self._post, self.provisioner):
                opened.enter_context(intercept(interceptor))
            self._set_up()
            self._exit = opened.pop_all()
        return self

    def _set_up(self) -> None:
        clients = Clients()
        self.store = aws_store(self.settings, clients)
        services = aws_services(
            self.settings,
            clients,
            clock=self.clock,
            ids=SeededIds(self._seed),
            observer=self._tell,
            draw=random.Random(self._seed),  # noqa: S311 - repeatable on purpose
            pause=no_pause,
        )
        tokens = self.made_tokens.noting(services.tokens)
        self.services = services._replace(signer=simulated(services.signer), tokens=tokens)
        self.provisioner.set_up(())

    def serve(self, flows: Iterable[AnyFlow]) -> None:
        """Serve these flows too, from now on. They get their functions, queues and tables."""
        new = tuple(flow for flow in flows if flow not in self.flows)
        if not new:
            return
        self.store.codecs.learn(new)
        flows = self.flows + new
        self.source.functions = Functions(flows, with_points(self.services, self._pass))
        self.flows = flows
        modules = modules_of_flows(new)
        for table, key in declared_tables(modules).items():
            self.declare(table, key)
        self.provisioner.put_in(declared_items(modules))
        for queue in sorted(self.source.functions.by_queue):
            self.provisioner.queue(queue)
        self.provisioner.subscribe(topics(new))

    def declare(self, table: str, key: TableKey) -> None:
        """Create the table if it is not there."""
        self.keys.setdefault(table, key)
        self.provisioner.table(table)

    def _deliver(self, delivery: Delivery) -> Delivered:
        self._raised, self._outside = [], sys.exception()
        row = super()._deliver(delivery)
        return replace(row, why=described(self._raised[-1])) if self._raised else row

    def _tell(self, event: Event) -> None:
        """Record the error of a failure while the runtime handles it. It still has its traceback then."""
        error = sys.exception()
        if error is not None and error is not self._outside:
            self._raised.append(error)
        self._on_event(event)

    def _post(self, call: ApiCall, proceed: Proceed, /) -> Response:
        answer = proceed()
        self.posted += posted(call, answer, call=call.number)
        return answer
