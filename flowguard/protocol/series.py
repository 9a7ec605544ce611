"""The time of a request that is newer by its place in a series, and not by its time.

A stream tells the order of its records by their sequence numbers. Their times are whole seconds, or approximate. So two
changes of one item may have one time, and a later record an earlier one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard.names.series_ids import comes_after, has_place
from flowguard.protocol.run import Claim, Refused, RunItem
from flowguard.verdicts import Verdict
from flowguard.wire.message import Message

LARGEST_DISORDER: Final = timedelta(minutes=1)
"""By how much the times of a series may contradict its places. Beyond that the times count: between the shards of a
table's stream nothing but their usual order says that places grow."""

_MOST_MS: Final = LARGEST_DISORDER // timedelta(milliseconds=1)


def later_in_series(message: Message, claim: Claim | Refused) -> Message | None:
    """Return a refused request with the later time at which it asks again. None where its verdict stands.

    It is right behind that of the request that has the object, so times in the item never go back. A copy of a request
    that was given a later time so gets that one: nobody else would carry it out if its worker died.
    """
    item = claim.item
    if not isinstance(claim, Refused) or item is None:
        return None
    ahead = item.requested_at - message.requested_at
    if claim.verdict is Verdict.STALE and 0 <= ahead < _MOST_MS and comes_after(message.request_id, item.request_id):
        return message._replace(requested_at=item.requested_at + 1)
    redriven = claim.verdict is Verdict.DONE and message.redrive > item.redrive  # what has failed is open to its letter
    if (claim.verdict is Verdict.DUPLICATE or redriven) and _is_copy(message, item):
        return message._replace(requested_at=item.requested_at)
    return None


def _is_copy(message: Message, item: RunItem) -> bool:
    """Answer whether the item is at the hop of the very request, under a later time."""
    is_same = message.request_id == item.request_id and message.hop == item.hop
    return is_same and message.requested_at < item.requested_at and has_place(message.request_id)
