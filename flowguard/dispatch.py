"""Sends what a batch of records has committed to send. Nothing here changes a run item."""

from __future__ import annotations

from collections.abc import Callable

from flowguard.ending import Ending
from flowguard.outbox import Send
from flowguard.ports import Sender

Told = Callable[[Ending, Send, str | None], None]
"""Is told of each send, and why where it was not taken."""


def dispatch(sender: Sender, endings: list[Ending], told: Told) -> list[Ending]:
    """All side messages, then what carries each run on. A record whose sends were not all taken is not acked.

    ::

        record 1   side ✓  side ✓            then   next ✓    ack
        record 2   side ✓  side ✗ throttled         (held)    stays queued: delivered again, it answers DONE and resends

    The order matters: the claim of the next hop clears the outbox, because its message was the last of it.
    """
    return _send(sender, _send(sender, endings, told, last=False), told, last=True)


def _send(sender: Sender, endings: list[Ending], told: Told, *, last: bool) -> list[Ending]:
    due = [
        (place, send)
        for place, ending in enumerate(endings)
        if ending.ack
        for send in ending.sends
        if send.kind.is_last is last
    ]
    if not due:
        return endings
    refused = sender.send([send for _, send in due])
    answered = list(endings)
    for number, (place, send) in enumerate(due):
        why = refused.get(number)
        told(endings[place], send, why)
        if why is not None:
            answered[place] = endings[place].kept(f"not sent to {send.to}: {why}")
    return answered
