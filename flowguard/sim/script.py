"""Scripted failures. Workers die, or something else happens while one is held up."""

from __future__ import annotations

from collections.abc import Callable

from flowguard.sim.crash import Crashes
from flowguard.sim.points import Point
from flowguard.sim.waiting_records import Delivery
from flowguard.wire.message import Message


class Script:
    """A listener for ``World(passed=…)``. ``crashes`` may be replaced between two runs."""

    def __init__(self) -> None:
        self.crashes = Crashes()
        self._held_up: tuple[Point, str, Callable[[], None]] | None = None

    def __call__(self, point: Point, delivery: Delivery, message: Message | None, /) -> None:
        self.crashes.strike(point, delivery.message_id)
        if self._held_up is None or message is None or self._held_up[:2] != (point, message.stage):
            return
        meanwhile, self._held_up = self._held_up[2], None
        meanwhile()

    def meanwhile(self, point: Point, stage: str, happens: Callable[[], None]) -> None:
        """Call ``happens`` once when the next worker of the stage reaches that point of the claim or commit."""
        self._held_up = (point, stage, happens)
