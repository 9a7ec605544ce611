"""How many records a function gets at once, and how long it may run. The one follows from the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final, NamedTuple

from flowguard.deploy.found import FoundFunction
from flowguard.deploy.options import LONGEST_TIMEOUT, FunctionOptions
from flowguard.lanes import LEAST_AT_ONCE, Lane
from flowguard.stage import AnyStage
from flowguard.worker.claim_phase import LEASE_WITHOUT_LAMBDA

MOST_RECORDS: Final = 10
"""The records of a batch without a window, and of any batch of a FIFO queue."""

LONGEST_DERIVED: Final = 300
"""Seconds that a function is given for several records. Its queue hides a record for six times as long."""

_LEFT_FOR_SENDING: Final = 5
_SHORTEST_DERIVED: Final = 30


class BatchPlan(NamedTuple):
    """A function's batch size, and its time-out in seconds."""

    size: int
    timeout: int


def batching_of(function: FoundFunction, options: FunctionOptions) -> BatchPlan:
    """Return what the options say, and for the rest what lets the slowest stage take as long as it may, each time.

    What a stage takes that names no ``timeout=`` is not known. Records that there is no time for come again.
    """
    longest = max((stage.timeout or LEASE_WITHOUT_LAMBDA for _, stage in function.stages), default=LEASE_WITHOUT_LAMBDA)
    least = max(_SHORTEST_DERIVED, _seconds(longest) + _LEFT_FOR_SENDING)
    size = options.batch_size
    if size is None:
        size = 1 if _holds_up(options) else _most_records(function, options.timeout)
    if options.timeout is not None:
        return BatchPlan(size, options.timeout)
    return BatchPlan(size, min(max(least, time_for(size, function) + _LEFT_FOR_SENDING), LONGEST_TIMEOUT))


def _holds_up(options: FunctionOptions) -> bool:
    """Answer whether a record that fails goes back with those behind it, under ``@once`` on a FIFO queue.

    Each time uses up a receive of all of them, so SQS would give those up with it that were never worked on.
    """
    return options.queue is not None and options.queue.endswith(".fifo")


def _most_records(function: FoundFunction, timeout: int | None) -> int:
    """Return how many records the function has time for, 1 at least."""
    most = timeout if timeout is not None else LONGEST_DERIVED - _LEFT_FOR_SENDING
    sizes = range(MOST_RECORDS, 1, -1)
    return next((size for size in sizes if time_for(size, function) <= most), 1)


def time_for(size: int, function: FoundFunction) -> int:
    """Return how many seconds so many records take, if each takes as long as its stage says. 0 where none says it."""
    return max((-(-size // _at_once(stage, function)) * _named(stage) for _, stage in function.stages), default=0)


def batching_problems(function: FoundFunction, options: FunctionOptions) -> Iterator[str]:
    """Yield what makes a batch that there is never time for."""
    slowest = max((stage for _, stage in function.stages), key=_named, default=None)
    if slowest is None:
        return
    batching = batching_of(function, options)
    each, wanted = f"its stage {slowest.name!r} may take {slowest.timeout}", time_for(batching.size, function)
    if options.timeout is not None and options.timeout < _named(slowest):
        yield f"{function.handler} has timeout = {options.timeout}, and {each}; raise the one or lower the other"
    elif _named(slowest) + _LEFT_FOR_SENDING > LONGEST_TIMEOUT and options.timeout is None:
        cause = f"the stage {slowest.name!r} may take {slowest.timeout}"
        yield f"{cause}, and Lambda stops a function after {LONGEST_TIMEOUT} s; lower its timeout="
    elif wanted > batching.timeout:
        most = _most_records(function, options.timeout if options.timeout is not None else LONGEST_TIMEOUT)
        yield (
            f"{function.handler} has batch_size = {batching.size}, and {each}: that is up to {wanted} s, and it is "
            f"stopped after {batching.timeout} s. Records that it has no time for are given up unread in the end; say "
            f"batch_size = {most}, or lower the stage's timeout="
        )


def reserved_problems(function: FoundFunction, options: FunctionOptions, queues: int) -> Iterator[str]:
    """Yield the mappings that bring more at once than their function takes. Throttles use up receives."""
    if options.reserved is None or not queues:
        return
    if options.max_concurrency is None or queues * options.max_concurrency > options.reserved:
        most = "none" if options.max_concurrency is None else options.max_concurrency
        each = f"its {queues} queues have max_concurrency = {most} each"
        alone = f"its queue has max_concurrency = {most}"
        yield (
            f"{function.handler} has reserved = {options.reserved}, and {alone if queues == 1 else each}: "
            f"what Lambda throttles uses up receives; reserve as many as they bring at once"
        )


def share_problems(
    function: FoundFunction, options: FunctionOptions, lanes: Iterable[tuple[Lane, ...]]
) -> Iterator[str]:
    """Yield why the lanes of a function's inboxes have no share of what it does at once."""
    for each in lanes:
        least, most = LEAST_AT_ONCE * len(each), options.max_concurrency
        if most is None or most < least:
            names = " and ".join(lane.inbox.short_name for lane in each)
            yield (
                f"{function.handler} has max_concurrency = {'none' if most is None else most}, which its lanes {names} "
                f"share by their weights, and each gets {LEAST_AT_ONCE} or more: say {least} or more under "
                f"[functions.…] of the options"
            )


def _named(stage: AnyStage) -> int:
    return 0 if stage.timeout is None else _seconds(stage.timeout)


def _at_once(stage: AnyStage, function: FoundFunction) -> int:
    return stage.parallel if function.together else 1


def _seconds(span: timedelta) -> int:
    return -(-span // timedelta(seconds=1))
