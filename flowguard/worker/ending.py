"""The ending of one record. It says whether the record is acknowledged, and what has to be sent before that."""

from __future__ import annotations

from flowguard.names.ids import Owner
from flowguard.protocol.outbox import Send
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import AnswerVerdict, ResetVerdict, Verdict
from flowguard.wire.envelope import Envelope
from flowguard.worker.routing import Arrival


class Ending(NamedTuple):
    """The ending of one record. ``result`` is JSON text, of a completed run.

    ``why`` says what is the matter, where the record is not acked, its run has failed, or its result is gone.
    ``again_in`` is after how many seconds a record that stays is to be seen again. None leaves that to its queue, or
    to what was asked for before.
    ``backs_off`` draws those seconds by its receives: what it needs outside its stage has failed.
    """

    envelope: Envelope
    ack: bool
    verdict: Verdict | AnswerVerdict | ResetVerdict | None = None
    arrival: Arrival | None = None
    sends: tuple[Send, ...] = ()
    result: str | None = None
    why: str = ""
    again_in: int | None = None
    backs_off: bool = False
    for_minutes: bool = False
    """The pause is of minutes: something is denied or not there, which a deployment may bring."""
    owner: Owner | None = None
    """The claim whose commit has ``sends``."""

    def kept(self, why: str, *, for_minutes: bool = False) -> Ending:
        """Return the ending of the same record, now to be delivered again after a pause."""
        return self._replace(ack=False, why=why, backs_off=True, for_minutes=for_minutes)


def acked(
    arrival: Arrival,
    verdict: Verdict | None,
    sends: tuple[Send, ...] = (),
    result: str | None = None,
    why: str = "",
    *,
    owner: Owner | None = None,
) -> Ending:
    """Make the ending of a record that is acknowledged once ``sends`` are sent. ``owner`` has committed them."""
    return Ending(
        arrival.envelope,
        ack=True,
        verdict=verdict,
        arrival=arrival,
        sends=sends,
        result=result,
        why=why,
        owner=owner,
    )


def kept(arrival: Arrival, verdict: Verdict, why: str, *, backs_off: bool = False) -> Ending:
    """Make the ending of a record that stays in its queue."""
    return Ending(arrival.envelope, ack=False, verdict=verdict, arrival=arrival, why=why, backs_off=backs_off)
