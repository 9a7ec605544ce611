"""All layers of a day together, and the one interceptor through which they refuse calls.

The calls of a function are those that the thread makes which has the record in its hands.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from flowguard.clock import Clock, SystemClock
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.away import Away
from flowguard.sim.weather.layer import Invoked, Layer
from flowguard.sim.weather.pollers import Pollers
from flowguard.wire.envelope import BadRecord, normalize


class Weather:
    """The layers of a day. It is an interceptor: calls of functions go through it, and those of the simulator pass."""

    def __init__(self, layers: Sequence[Layer], clock: Clock) -> None:
        self.layers = tuple(layers)
        self._clock = clock
        self._local = threading.local()
        self._numbers = itertools.count(1)
        self.refused = 0
        """How many calls were refused so far."""

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if not (hands := self._hands):
            return proceed()
        for layer in self.layers:
            if (fault := layer.refusal(call, self._clock.now())) is not None:
                self.refused += 1
                raise fault.as_raised_by(call.client, call.operation)
        answer = proceed()
        for layer in self.layers:
            layer.called(call, answer, hands[-1])
        return answer

    @contextmanager
    def over(self, delivery: Delivery) -> Iterator[None]:
        """Let the calls of this block be those of a function that has the record."""
        self._hands.append(delivery)
        try:
            yield
        finally:
            self._hands.pop()

    @property
    def _hands(self) -> list[Delivery]:
        if not hasattr(self._local, "hands"):
            self._local.hands = []
        hands: list[Delivery] = self._local.hands
        return hands

    @contextmanager
    def received(self, record: Any, function: str, queue: str) -> Iterator[Invoked]:
        """Say whether the function is invoked with a record that a mapping has received. The block invokes it."""
        [envelope], now = normalize({"Records": [record]}), self._clock.now()
        if isinstance(envelope, BadRecord):  # the function says what is wrong with it
            yield Invoked.YES
            return
        delivery = Delivery(next(self._numbers), envelope, record, queue, now)
        how = self.invoked(delivery, function, now)
        with self.over(delivery):
            yield how

    def is_ever_away(self, service: str) -> bool:
        """Answer whether the day has an outage of this service."""
        return any(isinstance(layer, Away) and layer.service == service for layer in self.layers)

    def is_unpolled(self) -> bool:
        """Answer whether queues are not polled now."""
        now = self._clock.now()
        return self.polled_from(now) > now

    def polled_from(self, now: int) -> int:
        """Return from when on queues are polled, ms since 1970."""
        return max((layer.polled_from(now) for layer in self.layers), default=now)

    def invoked(self, delivery: Delivery, function: str, now: int) -> Invoked:
        """Return whether the function is invoked. Each layer takes note of the invocation until one is against it."""
        for layer in self.layers:
            if (how := layer.invoked(delivery, function, now)) is not Invoked.YES:
                self._back_off(now)
                return how
        return Invoked.YES

    def now(self) -> int:
        """Return the time of its clock, ms since 1970."""
        return self._clock.now()

    def copies_of(self, record: Any, queue: str) -> Sequence[int]:
        """Return when a record that a mapping has deleted is delivered once more, ms since 1970."""
        [envelope], now = normalize({"Records": [record]}), self._clock.now()
        if isinstance(envelope, BadRecord):
            return ()
        return self.copies(Delivery(next(self._numbers), envelope, record, queue, now), now)

    def copies(self, delivery: Delivery, now: int) -> Sequence[int]:
        """Return when a record that was deleted is delivered once more, ms since 1970."""
        return [moment for layer in self.layers for moment in layer.copied_at(delivery, now)]

    def _back_off(self, now: int) -> None:
        for layer in self.layers:
            if isinstance(layer, Pollers):
                layer.backs_off(now)


CLEAR: Final = Weather((), SystemClock())
"""A day on which nothing happens."""
