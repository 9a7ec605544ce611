"""The form of a layer, and the clear sky that each begins with."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from flowguard.sim.calls import ApiCall, Response
from flowguard.sim.limits.fault import Fault
from flowguard.sim.waiting_records import Delivery


class Invoked(Enum):
    """What becomes of a record that was received for a function."""

    YES = "the function is invoked"
    THROTTLED = "it is not invoked, and the record was received all the same"
    STOPPED = "it is not invoked in this chain any more, and the record was received all the same"


class Layer:
    """One thing that AWS does on a bad day. What a layer does not say is as on any other day. Times are ms since 1970.

    Only the calls of functions are asked about: what the simulator does itself is never refused.
    """

    def refusal(self, call: ApiCall, now: int) -> Fault | None:
        """Return the error that the service answers with. None where it does its work."""
        return None

    def polled_from(self, now: int) -> int:
        """Return from when on queues are polled."""
        return now

    def invoked(self, delivery: Delivery, function: str, now: int) -> Invoked:
        """Return whether the function is invoked with a record that was received for it."""
        return Invoked.YES

    def called(self, call: ApiCall, answer: Response, by: Delivery | None) -> None:
        """Take note of a call that was answered, made with a record in hand."""

    def copied_at(self, delivery: Delivery, now: int) -> Collection[int]:
        """Return when a record that was deleted is delivered once more."""
        return ()
