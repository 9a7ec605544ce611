"""The decision whether a message whose stage raised is tried again. It is pure, one table.

=====================================================  ==============================================
the error                                              then
=====================================================  ==============================================
``Reject`` and what derives from it                    never again
attempts used up, by the policy for that error         never again
asked for longer ago than ``give_up_after`` allows,
by the time of the next attempt                        never again
a delay longer than its queue can make (15 minutes,
12 hours for FIFO), and no ``long_delays``             never again, and the error says what to change
``Retry(after=…)``                                     again, after that long
any other                                              again, after the policy's delay: its ``max_delay`` where a
                                                       backoff of one's own raises, or names no delay
=====================================================  ==============================================
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from flowguard.errors import Reject, Retry
from flowguard.retry import LONGEST_SQS_DELAY, RetryPolicy
from flowguard.startup.named_tuple import NamedTuple


class Again(NamedTuple):
    """The same message is sent once more, ``delay`` whole seconds later. ``why`` is what is wrong with the backoff."""

    delay: int
    why: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """Return what its event says of it."""
        return {"delay": self.delay, "why": self.why} if self.why else {"delay": self.delay}


class Never(NamedTuple):
    """The run ends FAILED. ``why`` is added to the error where the error alone does not say it."""

    why: str = ""


class Attempt(NamedTuple):
    """What the decision depends on, beside the error.

    ``age`` is how long ago the run was asked for, ``longest_delay`` what the message's queue can make.
    """

    retry: int
    age: timedelta
    longest_delay: timedelta


def after_failure(error: BaseException, policy: RetryPolicy, attempt: Attempt, draw: random.Random) -> Again | Never:
    """Decide by the table above."""
    if isinstance(error, Reject):
        return Never()
    chosen = policy.policy_for(error)
    if attempt.retry + 1 >= chosen.attempts:
        return Never(f"attempt {attempt.retry + 1} of {chosen.attempts}")
    if isinstance(error, Retry) and error.after is not None:
        delay, why = int(error.after.total_seconds()), ""
    else:
        delay, why = chosen.judged_delay(attempt.retry + 1, draw)
    if delay > (longest := attempt.longest_delay.total_seconds()):
        fix = "say long_delays=True" if attempt.longest_delay == LONGEST_SQS_DELAY else "ask for less"
        return Never(f"it asks for a retry after {delay} s, and its queue delays by at most {longest:.0f}; {fix}")
    if chosen.give_up_after is not None and attempt.age + timedelta(seconds=delay) > chosen.give_up_after:
        return Never(f"the next attempt would come later than {chosen.give_up_after} after the request")
    return Again(delay, why)


def kinds_of(error: BaseException) -> tuple[type[BaseException], ...]:
    """Return the class of an error, and the classes of those in it, as of an ``asyncio.TaskGroup``."""
    inside = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return (type(error), *(kind for each in inside for kind in kinds_of(each)))


def only_error(error: BaseException) -> BaseException:
    """Return the one error of a group, as of an ``asyncio.TaskGroup`` in which one task has failed. Else the error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
