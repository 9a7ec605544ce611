"""An answer of a party outside, as its flow's callback reads it."""

from __future__ import annotations

from datetime import timedelta

from flowguard.errors import RunFailed
from flowguard.flow import AnyFlow
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.waiting import GivenAnswer
from flowguard.startup.named_tuple import NamedTuple
from flowguard.worker.resumed_payload import admits_failed, check_answer


class ExternalAnswer(NamedTuple):
    """An answer of a party outside, read as its flow's callback says. ``awaited_id`` is what the runs wait for."""

    flow: AnyFlow
    awaited_id: str
    answer: GivenAnswer
    keep_early: timedelta | None = None
    names: tuple[str, ...] = ()
    """The names that it may be the answer to; none stand for all."""
    only: tuple[str, str, int] | None = None
    """Object, request id and time (ms) of the one run that gets the answer. If None, every waiting run gets it."""

    def is_for(self, row: AwaitingRow) -> bool:
        """Answer whether its sender may answer what the row awaits. It may mean another run."""
        return (not self.names or row.address.name in self.names) and self.only in (None, row.address.run)

    def problem_for(self, row: AwaitingRow) -> RunFailed | None:
        """Return why the stage that waits cannot read it; None where it can.

        A row outlives its run, and the stage may have changed since, or be gone.
        """
        try:
            check_answer(self.flow.stage(row.stage), row.address.name, self.answer)
        except RunFailed as problem:
            return problem
        return None

    def admitting(self, row: AwaitingRow) -> AwaitingRow:
        """Return the row with an address that says whether its stage takes a failure."""
        admits = admits_failed(self.flow.stage(row.stage), row.address.name)
        return row._replace(address=row.address._replace(admits=admits))
