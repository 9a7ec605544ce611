"""The message to claim once more where a claim was refused: at a later attempt, or as the text that came first."""

from __future__ import annotations

from flowguard.protocol.claims import goes_on_as, other_text
from flowguard.protocol.run import Claim, Refused
from flowguard.wire.sealed_message import says_the_same
from flowguard.worker.routing import Arrival


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
