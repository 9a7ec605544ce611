"""How long each thing in the run table lives: until nothing can look for it any more.

======================  ===============================================================================
what                    must be found by
======================  ===============================================================================
a run item              a copy of a copy of its last message, and a retry that is delayed
… that is claimed       the same; after a wait also what may still answer that, until its deadline
… that waits            the same, from its deadline on
… of a run that ended   newer requests too, for as long as its result is good, and it is remembered
a row that is awaited   its answer, and copies of that, after its deadline; so the requests of a group
a caller's row          the end of the run, whatever that still waits for
a row of the history    ``flowguard show``, for as long as the item that the same commit has written
a row of an order       copies of that, and what is sent again, by each worker's own clock
an early answer         the wait that it is for, which its sender's flow gives so long to begin
======================  ===============================================================================

Nothing else says when something expires. No write shortens the life of a run item: who attaches asks for that in the
condition of the write, and a commit takes the life that its claim has found where that is longer. It leaves room for
those who attach between the two (docs/decisions/0098). All times are in ms.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache

from flowguard.flow import FOR_EVER, AnyFlow
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import LONGEST_LEASE, Status
from flowguard.wire.message import Message
from flowguard.wire.resumed_body import ResumedBody
from flowguard.worker.routing import CLOCKS_DIFFER_BY, CLOCKS_DIFFER_BY_MS, Arrival

LONGEST_WAIT = timedelta(days=365)
"""How long one stage can wait."""

_MILLISECOND = timedelta(milliseconds=1)

LONGEST_HANDLING = timedelta(minutes=15)
"""How long after its plan a commit is made at most: Lambda stops a function then."""


_LONGEST_WAIT_MS = LONGEST_WAIT // _MILLISECOND
_LONGEST_LEASE_MS = LONGEST_LEASE // _MILLISECOND


class Lifetimes:
    """Computes until when what a flow writes is needed. :func:`lifetimes_of` makes it once for each flow."""

    def __init__(self, flow: AnyFlow) -> None:
        self.flow = flow
        self.retention = flow.retention // _MILLISECOND
        """How long a message can live in a queue and its dead-letter queue together."""
        self.copies = 2 * self.retention + _longest_delay(flow)
        """How long after a write copies of what it sends can still be read (docs/decisions/0003).

        A copy may be sent ``retention`` after the first one, and read ``retention`` after that. A retry that Scheduler
        delays is in no queue until then.
        """
        self._kept = max(self.copies, 0 if flow.remember is None else flow.remember // _MILLISECOND)

    def of_run(self, moment: int) -> int:
        """Return until when the item is needed of a run that is claimed or goes on at this moment."""
        return min(moment + self._kept, FOR_EVER)

    def of_claim(self, moment: int, message: Message) -> int:
        """Return until when the item is needed of a run whose hop is claimed at this moment.

        Of one that resumes, the wait's deadline and copies of what answers it still come: its message says until when.
        """
        if not message.resumed:
            return self.of_run(moment)
        until = min(ResumedBody.read(message.body).until, moment + _LONGEST_WAIT_MS)
        return max(self.of_run(moment), self.of_wait(until))

    def of_wait(self, deadline: int) -> int:
        """Return until when the item is needed of a run that waits until this deadline."""
        return self.of_run(deadline)

    def of_end(self, moment: int, status: Status) -> int:
        """Return until when the item of a run is needed that has ended at this moment."""
        good_until = self.flow.good_until(moment) if status is Status.COMPLETED else None
        return max(self.of_run(moment), good_until or 0)

    def of_awaited(self, deadline: int) -> int:
        """Return until when the rows are needed by which answers find a run that waits until this deadline."""
        return deadline + self.copies

    def of_caller(self, moment: int) -> int:
        """Return until when the row of a caller is needed that attaches at this moment.

        It is removed when it is answered. Before that each hop of its run may wait as long as any can.
        """
        return moment + self.flow.max_hops * (_LONGEST_WAIT_MS + self.copies)

    def of_early(self, now: int, keep_early: timedelta) -> int:
        """Return until when an answer is needed that came at ``now``, before its wait."""
        return now + keep_early // _MILLISECOND

    def of_used(self, now: int) -> int:
        """Return until when an early answer is needed that is used: a copy of its message would be a new one after."""
        return now + self.copies

    def of_order(self, moment: int) -> int:
        """Return until when an order to reset may come again that was made or came at this moment."""
        return moment + self.copies

    def of_order_row(self, moment: int) -> int:
        """Return until when the row is needed that remembers such an order: a slow clock believes it for longer."""
        return self.of_order(moment) + CLOCKS_DIFFER_BY_MS

    def not_before(self, lives_until: int, needed: int, moment: int) -> int:
        """Return until when an item lives after a commit that needs it so long, of one that ``lives_until`` then.

        It does not live shorter than before, as far as any wait can reach: the rows of one look for it until then. What
        was there for ever, as a result that is good until its reset, is not when there is another end.
        """
        if lives_until > needed:
            needed = max(needed, min(lives_until, self.of_wait(moment + _LONGEST_WAIT_MS)))
        return max(needed, self._of_callers_since(moment)) if self.flow.on_conflict is OnConflict.ATTACH else needed

    def _of_callers_since(self, moment: int) -> int:
        """Return until when callers may have asked the item to live that attach after a commit was planned."""
        return self.of_run(moment + LONGEST_HANDLING // _MILLISECOND + CLOCKS_DIFFER_BY_MS)


def _longest_delay(flow: AnyFlow) -> int:
    if not flow.long_delays:
        return 0  # SQS counts its own delays into the retention
    return max(stage.retry.longest_delay for stage in flow.stages) // _MILLISECOND


lifetimes_of: Callable[[AnyFlow], Lifetimes] = lru_cache(maxsize=256)(Lifetimes)  # type: ignore[assignment]  # mypy takes classes for unhashable
"""Return the lifetimes of a flow, which are made once."""


def longest_lease(arrival: Arrival) -> int:
    """Return the longest time that a worker can hold a hop, ms: Lambda's limit, or the stage's timeout if longer."""
    timeout = arrival.stage.timeout if arrival.stage is not None else None
    if timeout is None:
        return _LONGEST_LEASE_MS
    return max(LONGEST_LEASE, timeout + CLOCKS_DIFFER_BY) // _MILLISECOND
