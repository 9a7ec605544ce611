"""An answer of a party outside, as its flow's callback reads it."""

from __future__ import annotations

from datetime import timedelta

from flowguard.flow import AnyFlow
from flowguard.protocol.run import AwaitingRow
from flowguard.protocol.waiting import GivenAnswer
from flowguard.startup.named_tuple import NamedTuple


class ExternalAnswer(NamedTuple):
    """An answer of a party outside, read as its flow's callback says. ``awaited_id`` is what the runs wait for."""

    flow: AnyFlow
    awaited_id: str
    answer: GivenAnswer
    keep_early: timedelta | None = None
    names: tuple[str, ...] = ()
    """The names that it may be the answer to; none stand for all."""

    def is_for(self, row: AwaitingRow) -> bool:
        """Answer whether its sender may answer what the row awaits."""
        return not self.names or row.address.name in self.names
