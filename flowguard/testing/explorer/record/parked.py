"""Sends that a destination refused for good as they lie among the dead letters."""

from __future__ import annotations

from flowguard.errors import FlowguardError
from flowguard.protocol.outbox import Send
from flowguard.sim.posted import Posted, as_posted


def parked(letter: Posted) -> Send | None:
    """Return the send that a letter holds. None for every other message."""
    if letter.unsent is None:
        return None
    try:
        return letter.unsent.send(letter.body)
    except (FlowguardError, ValueError):
        return None


def as_sent(message: Posted) -> Posted:
    """Return a parked message as its receiver would have had it, and any other as it is."""
    found = parked(message)
    return message if found is None else as_posted(found, message.call)
