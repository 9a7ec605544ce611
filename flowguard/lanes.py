"""Several queues of one inbox: what is urgent waits for what is urgent alone.

::

    start(lane="urgent") ─▶ orders-urgent ─ 3 of 4 batches at once ─┐
    start(…)             ─▶ orders        ─ 1 of 4 ─────────────────┴▶ the stage's function
                            "lane" is an attribute that all messages of the run carry on
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from flowguard.destinations import Queue, form_problem
from flowguard.errors import shown
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.value import Value
from flowguard.text.option_problems import is_whole

LARGEST_WEIGHT: Final = 1_000
LEAST_AT_ONCE: Final = 2
"""The least ``MaximumConcurrency`` of a mapping."""

_NAME: Final = late_pattern("[A-Za-z0-9_-]{1,64}")


class Lane(Value):
    """One of several queues of an inbox: ``inbox=(Lane("normal", "orders"), Lane("urgent", "orders-urgent"))``.

    A request chooses a lane by its name; requests that choose none take the first. ``queue`` is a standard queue.
    ``weight`` is its part of the function's ``max_concurrency``, a whole number from 1 to 1,000.
    """

    name: str
    queue: Queue | str
    weight: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.queue, str):
            self.__dict__["queue"] = Queue(self.queue)  # it is the same lane, whether a text or a Queue is given

    @property
    def inbox(self) -> Queue:
        """Return its queue."""
        queue: Any = self.queue  # a text has become a Queue
        assert isinstance(queue, Queue)  # noqa: S101 - another one is refused before
        return queue

    def among(self, lanes: tuple[Lane, ...]) -> Iterator[str]:
        """Yield what is wrong with it and the others of its inbox."""
        if problems := [problem for lane in lanes if (problem := lane.problem())]:
            yield from problems
            return
        if len(lanes) == 1:
            yield f"it has one lane; name its queue alone: inbox={self.inbox.name!r}"
        names, queues = [lane.name for lane in lanes], [lane.inbox.short_name for lane in lanes]
        for what, given in (("name", names), ("queue", queues)):
            for each, times in Counter(given).items():
                if times > 1:
                    yield f"two lanes have the {what} {each!r}; give each its own"

    def problem(self) -> str | None:
        """Return what is wrong with it, and how to write it. None where nothing is."""
        name: Any = self.name
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            return f"the name of a lane is {shown(name)}; it must be 1 to 64 of: a-z, A-Z, 0-9, '-', '_'"
        queue: Any = self.queue
        if not isinstance(queue, Queue):
            return f"lane {name!r} has {shown(queue)}, which is no queue; write Lane({name!r}, 'orders-{name}')"
        if problem := form_problem(queue):
            return f"lane {name!r}: {problem}"
        if self.inbox.fifo:
            return (
                f"lane {name!r} has the FIFO queue {self.inbox.name!r}, and between lanes there is no order; give it a "
                f"standard queue"
            )
        if not is_whole(self.weight) or not 1 <= self.weight <= LARGEST_WEIGHT:
            limits = f"it is a whole number from 1 to {LARGEST_WEIGHT:,}"
            return f"lane {name!r} has the weight {shown(self.weight)}; {limits}"
        return None


def shares(lanes: tuple[Lane, ...], at_once: int) -> dict[str, int]:
    """Return how many batches at once each lane has by the name of its queue.

    ``at_once`` is what all of them have. They follow the weights, and each has at least :data:`LEAST_AT_ONCE`: there
    have to be enough for that.
    """
    given = dict.fromkeys(lanes, LEAST_AT_ONCE)
    for _ in range(at_once - LEAST_AT_ONCE * len(lanes)):
        given[min(lanes, key=lambda lane: (given[lane] + 1) / lane.weight)] += 1
    return {lane.inbox.short_name: share for lane, share in given.items()}
