"""Functions that Lambda does not invoke, because no concurrency is left for them."""

from __future__ import annotations

from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.layer import Invoked, Layer


class Throttled(Layer):
    """Functions that are throttled from ``begins`` until ``ends``, ms since 1970.

    Each record is received all the same, which its redrive policy counts, and hidden for its visibility timeout.
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
    """

    def __init__(self, begins: int, ends: int) -> None:
        self.begins = begins
        self.ends = ends

    def invoked(self, delivery: Delivery, function: str, now: int) -> Invoked:
        return Invoked.THROTTLED if self.begins <= now < self.ends else Invoked.YES
