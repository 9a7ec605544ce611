"""Sends that a destination refused for good as they lie among the dead letters."""

from __future__ import annotations

from flowguard.errors import FlowguardError, OtherRelease
from flowguard.protocol.outbox import Send
from flowguard.sim.posted_messages import Posted, as_posted
from flowguard.wire.message import Place


def parked(letter: Posted) -> Send | None:
    """Return the send that a letter holds. None for every other message."""
    if letter.unsent is None:
        return None
    try:
        return letter.unsent.send(letter.body)
    except (FlowguardError, ValueError):
        return None


def is_of_another_release(place: Place) -> bool:
    """Answer whether a letter's place is that of a first hop which the code does not read."""
    error = place.last_error or place.first_error
    return place.hop == 1 and error is not None and error.type == OtherRelease.__name__


def as_sent(message: Posted) -> Posted:
    """Return a parked message as its receiver would have had it, and any other as it is."""
    send = parked(message)
    return message if send is None else as_posted(send, message.call)
