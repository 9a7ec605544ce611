"""The cost of a flow's stages, measured on samples in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowguard.deploy.alarms import alarms_of
from flowguard.deploy.meter import Meter
from flowguard.deploy.needs import Deployment
from flowguard.deploy.prices import Prices, Unit
from flowguard.events import Event, logged_bytes
from flowguard.flow import AnyFlow
from flowguard.sim.calls import intercept
from flowguard.sim.delivered import Delivered
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.recording import RecordedRecord, plan
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.world import World

MONTH: Final = 30 * 24 * 3_600
"""Seconds of the month for which a rate is priced."""

OTHER: Final = "(answers, deadlines and other messages)"
"""Deliveries that no stage had, such as answers and records that cannot be read."""


LAMBDAS_LINES: Final = 600
"""Bytes of the lines that Lambda itself logs of an invocation, as JSON: its start and its report."""

POLLERS: Final = 5
"""Long polls that Lambda keeps open at the same time at an empty queue. AWS may lower them to two."""

A_POLL: Final = 20
"""Seconds that each long poll waits."""

Measured = tuple[Delivered, Mapping[Unit, float]]


@dataclass(frozen=True)
class Invocations:
    """What is assumed of the functions, since samples cannot tell it."""

    batch: int = 1
    """Records that an invocation gets."""
    milliseconds: float = 100
    """Time of an invocation."""
    memory: int = 256
    """Megabytes of a function."""
    cold: float = 0.01
    """Share of the invocations that begin with a cold start."""
    init_milliseconds: float = 500
    """Time of a cold start before its invocation. Lambda charges it as well."""

    def of_delivery(self, *, polled: bool) -> dict[Unit, float]:
        """Return what a delivery uses of Lambda, of its log and of SQS.

        SQS counts a request to receive the batch, and another to delete it.
        """
        seconds = (self.milliseconds + self.cold * self.init_milliseconds) / 1_000 * self.memory / 1_024
        used = {
            Unit.INVOCATIONS: 1 / self.batch,
            Unit.GB_SECONDS: seconds / self.batch,
            Unit.LOGS: LAMBDAS_LINES / 1e6 / self.batch,
        }
        return {**used, Unit.SQS: 2 / self.batch} if polled else used


@dataclass(frozen=True)
class StageCost:
    """What all deliveries to a stage used, ``deliveries`` of them."""

    flow: str
    stage: str
    deliveries: int
    used: Mapping[Unit, float]

    def dollars(self, prices: Prices) -> float:
        """Return the price of them together."""
        return sum(amount * prices.of(unit) for unit, amount in self.used.items())


@dataclass(frozen=True)
class IdleMonth:
    """What a deployment uses in a month in which nothing comes."""

    queues: int
    """Queues that functions read."""
    alarms: int

    @classmethod
    def of(cls, needed: Deployment) -> IdleMonth:
        """Count what a template makes of a deployment."""
        read = sum(queue.reader is not None for queue in needed.queues)
        return cls(read, sum(1 for _ in alarms_of(needed, oldest_message=1)))

    @property
    def used(self) -> Mapping[Unit, float]:
        """Return it in units."""
        return {Unit.SQS: self.queues * POLLERS * MONTH / A_POLL, Unit.ALARMS: self.alarms}

    def dollars(self, prices: Prices) -> float:
        """Return its price."""
        return sum(amount * prices.of(unit) for unit, amount in self.used.items())


@dataclass(frozen=True)
class FlowCost:
    """What was used by stage. ``runs`` are those of the first flow; all else comes with them."""

    runs: int
    stages: tuple[StageCost, ...]

    def per_million(self, prices: Prices) -> float:
        """Return the price of a million runs."""
        return sum(stage.dollars(prices) for stage in self.stages) / self.runs * 1_000_000 if self.runs else 0.0

    def per_month(self, prices: Prices, rate: float) -> float:
        """Return the price of a month with so many runs a second."""
        return self.per_million(prices) / 1_000_000 * rate * MONTH


def measure(
    flows: Sequence[AnyFlow], records: Sequence[RecordedRecord], *, invocations: Invocations, seed: int = 0
) -> FlowCost:
    """Run the records through the flows in memory, and count what is used.

    Runs are counted of the first flow.
    """
    planned = plan(records)
    clock, logged = VirtualTime(planned[0].at), _Logged()
    with clock, MemoryAWS(clock, seed=seed) as aws:
        world = World(flows, seed=seed, start=planned[0].at, aws=aws, clock=clock, observer=logged)
        with world, intercept(Meter()) as meter:
            for delivery in planned:
                world.put(delivery.recorded.envelope, delivery.recorded.raw, at=delivery.at)
            measured = list(_measured(world, meter, logged, invocations))
    return FlowCost(len(_runs(flows[0], measured)), _by_stage(measured))


class _Logged:
    """Counts the bytes of the events' lines in the log."""

    def __init__(self) -> None:
        self._bytes = 0

    def __call__(self, event: Event) -> None:
        self._bytes += logged_bytes(event)

    def take(self) -> int:
        """Return what was counted since the last time."""
        counted, self._bytes = self._bytes, 0
        return counted


def _measured(world: World, meter: Meter, logged: _Logged, invocations: Invocations) -> Iterator[Measured]:
    for row in world.run():
        used: Counter[Unit] = meter.take()
        used.update({Unit.LOGS: logged.take() / 1e6})
        used.update(invocations.of_delivery(polled=row.queue is not None))
        yield row, used


def _runs(flow: AnyFlow, measured: Sequence[Measured]) -> set[tuple[str | None, str | None]]:
    rows = (row for row, _ in measured if row.flow == flow.name and row.stage is not None)
    return {(row.object_id, row.request_id) for row in rows}


def _by_stage(measured: Sequence[Measured]) -> tuple[StageCost, ...]:
    sums: dict[tuple[str, str], tuple[int, Counter[Unit]]] = {}
    for row, used in measured:
        place = (row.flow or "", row.stage or OTHER)
        deliveries, total = sums.get(place, (0, Counter()))
        total.update(used)
        sums[place] = (deliveries + 1, total)
    return tuple(StageCost(*place, deliveries, used) for place, (deliveries, used) in sums.items())
