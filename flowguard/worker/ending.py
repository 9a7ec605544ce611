"""The ending of one record. It says whether the record is acknowledged, and what has to be sent before that."""

from __future__ import annotations

from typing import NamedTuple

from flowguard.protocol.outbox import Send
from flowguard.protocol.verdicts import AnswerVerdict, ResetVerdict, Verdict
from flowguard.wire.envelope import Envelope
from flowguard.worker.routing import Arrival


class Ending(NamedTuple):
    """The ending of one record. ``result`` is JSON text, of a completed run.

    ``why`` says what is the matter, where the record is not acked or its result is gone.
    """

    envelope: Envelope
    ack: bool
    verdict: Verdict | AnswerVerdict | ResetVerdict | None = None
    arrival: Arrival | None = None
    sends: tuple[Send, ...] = ()
    result: str | None = None
    why: str = ""

    def kept(self, why: str) -> Ending:
        """Return the ending of the same record, now to be delivered again."""
        return self._replace(ack=False, why=why)


def acked(
    arrival: Arrival,
    verdict: Verdict | None,
    sends: tuple[Send, ...] = (),
    result: str | None = None,
    why: str = "",
) -> Ending:
    """Make the ending of a record that is acknowledged once ``sends`` are sent."""
    return Ending(arrival.envelope, ack=True, verdict=verdict, arrival=arrival, sends=sends, result=result, why=why)


def kept(arrival: Arrival, verdict: Verdict, why: str) -> Ending:
    """Make the ending of a record that stays in its queue."""
    return Ending(envelope=arrival.envelope, ack=False, verdict=verdict, arrival=arrival, why=why)
