"""The check of those who are answered with the end of another's run (I16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.callers import Caller
from flowguard.protocol.run import ENDED
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.checks.standing import Standing
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.parked import parked


def callers_are_answered(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I16: at the end every caller has been sent an answer under its own request id.

    An answer that was refused for good is parked, unless the dead letters' queue refuses too. A run that has not ended
    is judged elsewhere.
    """
    if Standing.of(history, flows).dead_letters:
        return
    sent = {posted.id for posted in history.posted} | {
        send.id for posted in history.posted if (send := parked(posted)) is not None
    }
    latest = history.latest()
    for _, event in history.events(EventType.ATTACHED, EventType.KEPT):
        message = event.message
        caller = None if message is None else Caller.of(message)
        if message is None or caller is None:
            continue
        key = f"run#{message.flow}#{message.object_id}"
        reply_id = caller.reply_id(message.flow, message.object_id)
        has_ended = key in latest and latest[key].status in ENDED
        if has_ended and reply_id not in sent:
            yield Problem("I16", key, f"the request {message.request_id} was taken, and never answered", reply_id)
