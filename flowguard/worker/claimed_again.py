"""The message to claim once more where a claim was refused: at a later attempt, or as the text that came first."""

from __future__ import annotations

from flowguard.protocol.claims import goes_on_as, other_text
from flowguard.protocol.run import Claim, Refused
from flowguard.verdicts import Verdict
from flowguard.wire.sealed_message import says_the_same
from flowguard.worker.routing import Arrival

COUNTED_IN_MS = 1_000
"""SQS hides a record for whole seconds, and clocks differ a little: one that is so early is in time."""


def goes_on(arrival: Arrival, claim: Claim | Refused) -> Arrival | None:
    """Return the arrival to claim once more in place of one that was refused.

    A request that its sender has sealed anew is another text and may say the same: then it claims as the text that came
    first. Raises as :func:`flowguard.payload.codec.opened` where nobody can say whether it does.
    """
    if not isinstance(claim, Refused):
        return None
    message = arrival.message
    kept = other_text(claim.item, message, arrival.first_text) if arrival.first_text else None
    if kept is not None and says_the_same(arrival.flow.codec, message, kept):
        return arrival._replace(first_text=kept)
    onward = goes_on_as(claim.item, message, is_in_place=arrival.envelope.retried_in_place)
    return None if onward is None else arrival._replace(message=onward)


def resting(arrival: Arrival, claim: Claim | Refused, now: int) -> Refused | None:
    """Return the refusal of a record of a FIFO queue that comes before the delay of its next attempt is over.

    SQS may have refused to hide it for so long. The hop is busy until then, as its item says. A note of later than
    ``now`` (ms) is of a worker whose clock is fast, and keeps nobody waiting. Nor does any a run that is cancelled.
    """
    item = claim.item
    assert item is not None  # noqa: S101 - its attempt is what the arrival goes on as
    if not arrival.envelope.is_fifo or arrival.message.cancelled is not None:
        return None
    if (rest := item.back_off) is None or now < rest.error.at or rest.until - now < COUNTED_IN_MS:
        return None
    return Refused(Verdict.BUSY, item._replace(lease_until=rest.until))
