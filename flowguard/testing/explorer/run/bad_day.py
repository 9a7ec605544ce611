"""The weather of a schedule: what AWS does from one of its calls on. It is that of ``flowguard replay --weather``."""

from __future__ import annotations

from collections.abc import Callable

from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.forecast import forecast
from flowguard.sim.weather.layer import Invoked
from flowguard.sim.weather.weather import CLEAR, Weather
from flowguard.testing.explorer.record.schedule import OF_WEATHER, Schedule
from flowguard.testing.explorer.run.sandbox import Sandbox


class BadDay:
    """A day that is clear until the schedule's weather begins, if it has any. ``tell`` is called when it does."""

    def __init__(self, sandbox: Sandbox, schedule: Schedule, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._sandbox = sandbox
        self._begins = {choice.at for choice in schedule.choices if choice.kind in OF_WEATHER}
        self._weather: Weather = CLEAR

    @property
    def is_bad(self) -> bool:
        """Answer whether the weather has begun."""
        return self._weather is not CLEAR

    @property
    def refused(self) -> int:
        """Return how many calls were refused so far."""
        return self._weather.refused

    def call(self, number: int, delivery: Delivery, call: ApiCall, proceed: Proceed) -> Response:
        """Make the call that is to have this number. What the weather refuses has none."""
        if number in self._begins and not self.is_bad:
            self._weather = forecast(self._sandbox.weather, self._sandbox, seed=self._sandbox.seed)
            self._tell(f"the weather begins: {self._sandbox.weather}")
        if not self.is_bad:
            return proceed()
        with self._weather.over(delivery):
            return self._weather(call, proceed)

    def invoked(self, delivery: Delivery, function: str) -> Invoked:
        """Return whether the function gets the record. The time goes on until its queue is polled."""
        if not self.is_bad:
            return Invoked.YES
        self._sandbox.time.move_to(self._weather.polled_from(self._sandbox.now()))
        return self._weather.invoked(delivery, function, self._sandbox.now())

    def copies(self, delivery: Delivery) -> list[int]:
        """Return when a record that was deleted comes once more, ms since 1970."""
        return list(self._weather.copies(delivery, self._sandbox.now())) if self.is_bad else []
