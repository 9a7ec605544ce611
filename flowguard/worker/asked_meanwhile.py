"""Requests of second askers, while the run of the first goes on and lists no callers. They come again until its end.

::

    ask of run 1 ── claimed ── hop 1 ── hop 2 ──────────── COMPLETED ── answer to run 1
    ask of run 2 ────── at work ── later ── at work ── later ── DONE ── answer to run 2
"""

from __future__ import annotations

from datetime import timedelta

from flowguard.destinations import Queue
from flowguard.errors import TooLarge
from flowguard.protocol.outbox import Send
from flowguard.worker.given_up import home_of
from flowguard.worker.patience import delay
from flowguard.worker.plan import returned
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival

_MILLISECOND = timedelta(milliseconds=1)


def look_again(services: Services, arrival: Arrival) -> Send | None:
    """Return the send that puts the request back into its queue, to look again later whether the run has ended.

    The delay grows with the time it has waited, up to 15 minutes. Returns None if the inbox cannot delay messages, the
    message would be too large, or the request has waited for the flow's retention.
    """
    home, envelope, now = home_of(arrival), arrival.envelope, services.clock.now()
    since = arrival.message.since or (now if envelope.sent_at is None else envelope.sent_at)
    waited = (now - since) * _MILLISECOND
    if not isinstance(home, Queue) or home.fifo or waited >= arrival.flow.retention:
        return None
    message = arrival.message._replace(since=since)
    try:
        return returned(message, envelope, home, delay(waited, services.draw), services.signer)
    except TooLarge:  # what is added for its way back does not fit beside it
        return None
