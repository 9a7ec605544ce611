"""The pause before a record comes again that stays in its queue for what fails outside its stage.

::

    receive    1        10        20        30         40 and later
    pause      5–10 s   26–52 s   3–5 min   16–33 min  41–82 min     of a queue that keeps messages for four days
    all so far 8 s      3 min     24 min    2.5 h      11 h          100 receives: three days

The pause grows with what has passed. So records that met an outage come back within a fraction of its length after its
end, and not all at once.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Final

from flowguard.retry import LONGEST_SQS_DELAY, LONGEST_VISIBILITY
from flowguard.wire.envelope import Envelope

MANY_RECEIVES: Final = 100
"""Receives that last three quarters of the time for which a queue keeps a record. The rest is for who gets it then."""

_FIRST: Final = 10
_GROWTH: Final = 1.2
_JITTER: Final = 0.5
_KEPT_FOR: Final = 2 / 7
"""The least share of a flow's retention for which its inboxes keep a message (``flowguard/deploy/queue_plan.py``)."""

_LONGEST_SHARE: Final = 1 / 70
"""The longest pause, as a share of that."""


def pause(receives: int, retention: timedelta, draw: random.Random) -> int:
    """Draw the whole seconds before a record comes again that was received so often.

    ``retention`` is that of its flow. The result is at least 1.
    """
    drawn = _grown(receives, retention) * (1 - _JITTER * draw.random())
    return max(1, round(drawn))


def _grown(receives: int, retention: timedelta) -> float:
    longest = min(retention * _KEPT_FOR * _LONGEST_SHARE, LONGEST_VISIBILITY).total_seconds()
    return min(_FIRST * _GROWTH ** min(receives - 1, MANY_RECEIVES), longest)


_SHORTEST_DELAY: Final = timedelta(minutes=1)
_DELAYED_BY: Final = 1 / 8
"""The delay of a record that SQS has given up, as a share of what has passed since it was first sent."""


def delay(waited: timedelta, draw: random.Random) -> int:
    """Draw the whole seconds before a record that SQS has given up is in its own queue again."""
    longest = min(max(waited * _DELAYED_BY, _SHORTEST_DELAY), LONGEST_SQS_DELAY).total_seconds()
    return round(longest * (1 - _JITTER * draw.random()))


_NEARLY_OVER: Final = 12 / 14
_NEARLY_OVER_FIFO: Final = 2 / 7
"""The same of a FIFO queue, where a record's age starts again when it is moved."""


def is_nearly_over(envelope: Envelope, retention: timedelta, now: int) -> bool:
    """Answer whether the queue of the records that SQS gave up will soon delete this one, ``now`` in ms.

    It keeps a record for a fourteenth of the flow's ``retention`` longer, a FIFO queue for half of that: time enough to
    be received once more.
    """
    share = _NEARLY_OVER_FIFO if envelope.is_fifo else _NEARLY_OVER
    sent_at = now if envelope.sent_at is None else envelope.sent_at
    return timedelta(milliseconds=now - sent_at) >= retention * share


SOME_MINUTES: Final = timedelta(seconds=200)
"""The longest pause before a record comes again that met a denial, or what is not there yet; more once those grow."""


def minutes(receives: int, retention: timedelta, draw: random.Random) -> int:
    """Draw the whole seconds of such a pause.

    Where the dead letters are refused as well the record stays, and its pauses grow as those of any other.
    """
    longest = max(SOME_MINUTES.total_seconds(), _grown(receives, retention))
    return round(longest * (1 - _JITTER * draw.random()))
