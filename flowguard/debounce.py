"""Carry out the last of several requests that come in quick succession for one object.

::

    request   1    2  3        ── quiet ──▶ the run of 3
              └ every request takes over from the one before, and puts its own run off
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from flowguard.destinations import Destination, Queue, Topic
from flowguard.errors import shown, span_problem
from flowguard.protocol.conflict import OnConflict
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.stage import AnyStage
from flowguard.startup.value import Value

_SHORTEST: Final = timedelta(seconds=1)
_LONGEST: Final = timedelta(days=1)
_TIMES: Final = 10


class Debounce(Value):
    """How long a flow waits for newer requests of an object before it begins the run of the last one.

    ``quiet``    from one second to 15 minutes: a run begins when no newer request has come for so long
    ``longest``  a run begins in any case when so long has passed since the first request of the burst; ten times
                 ``quiet`` by default
    """

    quiet: timedelta
    longest: timedelta | None = None

    @property
    def most(self) -> timedelta:
        """Return how long the first request of a burst may keep the object waiting."""
        return self.quiet * _TIMES if self.longest is None else self.longest

    def problem(self) -> str | None:
        """Return what is wrong with it, and how to write it. None where nothing is."""
        if problem := span_problem(self.quiet):
            return f"its quiet time {problem}"
        if not _SHORTEST <= self.quiet <= LONGEST_SQS_DELAY:
            return f"its quiet time is {self.quiet}; a queue can put messages off by 1 second to 15 minutes"
        if self.longest is not None and (problem := span_problem(self.longest)):
            return f"longest {problem}"
        if not self.quiet <= self.most <= _LONGEST:
            return f"longest is {self.most}; give it from its quiet time, {self.quiet}, to {_LONGEST}"
        return None


def debounce_of(given: timedelta | Debounce | None) -> Debounce | None:
    """Return what a flow was given, a plain timedelta as the quiet time that it asks for."""
    return Debounce(given) if isinstance(given, timedelta) else given


def debounce_problems(
    given: object, on_conflict: OnConflict, object_id: object, entries: Iterable[AnyStage], inbox: Destination
) -> Iterator[str]:
    """Yield what keeps a flow from putting off the runs that begin at the stages ``entries``."""
    if given is None:
        return
    if not isinstance(given, Debounce):
        yield f"debounce is {shown(given)}; write a timedelta, or Debounce(quiet, longest=…)"
        return
    if problem := given.problem():
        yield f"debounce: {problem}"
    if on_conflict is not OnConflict.SUPERSEDE:
        yield "debounce lets newer requests take over, so its flow's on_conflict is SUPERSEDE; leave one of both out"
    if not isinstance(object_id, str):
        yield "debounce waits for newer requests of an object; with PER_REQUEST each request has one of its own"
    for stage in entries:
        reads = inbox if stage.inbox is None else stage.inbox
        if not isinstance(reads, Queue | Topic) or reads.fifo:
            yield f"debounce puts messages off, which only a standard queue does; {stage.name} reads {reads}"
        if stage.lease is not True:
            yield f"debounce is noted under a lease; leave lease={stage.lease!r} of {stage.name} out"
