"""The noted invocations of an undisturbed run. A later schedule repeats their effects instead of running them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flowguard.sim.calls import ApiCall
from flowguard.sim.waiting_records import Delivery
from flowguard.testing.explorer.record.history import DeliveryRecord, History


@dataclass(frozen=True, slots=True)
class Begun:
    """What decides an invocation, after those before it."""

    record: int
    at: int
    receives: int
    envelope: Any
    calls: int

    @classmethod
    def of(cls, delivery: Delivery, history: History, now: int) -> Begun:
        return cls(delivery.number, now, delivery.receives, delivery.envelope, len(history.calls))


@dataclass(frozen=True, slots=True)
class Invoked:
    """What an invocation did."""

    begun: Begun
    entry: DeliveryRecord
    added: dict[str, list[Any]]
    recorded: dict[str, Any]
    expired: int
    of_records: list[ApiCall]
    injected: Any
    state: Any


class KnownPrefix:
    """The known invocations of one beginning, in their order."""

    def __init__(self) -> None:
        self.known: list[Invoked] = []
        self._beginning: object = None

    def begin(self, beginning: object) -> None:
        """Forget all where schedules begin otherwise now."""
        if beginning != self._beginning:
            self.known, self._beginning = [], beginning
