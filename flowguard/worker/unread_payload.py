"""Whether this release can read what a failed hop was given: what it cannot read is no failure of the business."""

from __future__ import annotations

from contextlib import suppress

from flowguard.errors import Cancelled, RunFailed
from flowguard.payload.encoding import decode
from flowguard.protocol.run import RunItem
from flowguard.worker.resumed_payload import resumed_payload
from flowguard.worker.routing import Arrival


def why_unread(arrival: Arrival, item: RunItem, error: BaseException) -> str | None:
    """Say why this code cannot read the payload, or the answers of a wait. None where it can.

    It is not read once more where a function was killed by it, and not for a cancellation. An answer that has failed
    is read, and so is one that is missing.
    """
    message, stage = arrival.message, arrival.stage
    if item.kills or stage is None or isinstance(error, Cancelled):
        return None
    what = f"the answers for {stage.name}" if message.resumed else f"the payload of {stage.name}"
    try:
        if message.resumed:
            with suppress(RunFailed):  # that an answer has failed, or is missing, is read
                resumed_payload(stage, item.wait)
        else:
            decode(stage.payload, message.body, what=what)
    except Exception as raised:  # PayloadInvalid, or whatever a model's own validator raises
        return f"{what} cannot be read: a validator raises {type(raised).__name__}"
    return None
