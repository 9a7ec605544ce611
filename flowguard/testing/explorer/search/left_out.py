"""First messages that say nothing of what is explored. They are left out of a search, and named in its report."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flowguard.testing.explorer.checks.undisturbed import not_run
from flowguard.testing.explorer.checks.unplayed import leading_to_drivers
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import ALL_OLD, Schedule
from flowguard.testing.explorer.report.findings import NotRun
from flowguard.testing.explorer.search.runs import Runs


class LeftOut:
    """Finds them by the undisturbed run. ``not_run`` are those for which nothing ran, and why."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.not_run: tuple[NotRun, ...] = ()

    def first_run(self) -> History:
        """Run the others one by one, with nothing wrong."""
        return self._without_drivers(self._without_what_is_not_run())

    def _without_what_is_not_run(self) -> History:
        """Run the messages one by one, and without those for which nothing ran.

        What is refused or parked as it came says nothing of a stage, whatever goes wrong about it. What one of two
        versions of the code takes is not left out.
        """
        first = self._runs.run_one_by_one(Schedule())
        if not self._runs.has_all or self._runs.left_out or not (why := not_run(first)):
            return first
        if self._runs.sandbox.old is not None:
            of_old = not_run(self._runs.run_one_by_one(Schedule((ALL_OLD,))))
            why = {name: text for name, text in why.items() if name in of_old}
        self.not_run = self.named(why)
        self._runs.leave_out(self._numbers(why))
        return self._runs.run_one_by_one(Schedule())

    def _without_drivers(self, first: History) -> History:
        """Run the messages without those that lead to a driver which is not played, if there are others."""
        if not self._runs.has_all or not first.drivers:
            return first
        led = set(self._numbers(leading_to_drivers(first)))
        if not led or led >= set(self._runs.numbers):
            return first
        self._runs.leave_out(led)
        return self._runs.run_one_by_one(Schedule())

    def _numbers(self, names: Collection[str]) -> list[int]:
        """Return the numbers of the first messages with these ids."""
        return [
            number for number, coming in enumerate(self._runs.all, 1) if coming.recorded.envelope.message_id in names
        ]

    def named(self, why: Mapping[str, str]) -> tuple[NotRun, ...]:
        """Return the first messages with these ids, and what is said of each."""
        messages = [self._runs.all[number - 1] for number in self._numbers(why)]
        return tuple(NotRun(coming.given, why[coming.recorded.envelope.message_id]) for coming in messages)
