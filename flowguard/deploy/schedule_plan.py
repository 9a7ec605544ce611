"""Plan the schedules that begin runs by the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from flowguard.deploy.found import FoundFunction
from flowguard.deploy.needs import ScheduleNeed
from flowguard.deploy.options import DeployOptions, ScheduleOptions
from flowguard.destinations import Queue
from flowguard.every import Every
from flowguard.flow import AnyFlow
from flowguard.project.queues import queue_of

LONGEST_NAME: Final = 64
"""Characters of a schedule's name."""


def schedules_of(
    functions: Iterable[FoundFunction], undelivered: Mapping[AnyFlow, str], options: DeployOptions
) -> tuple[ScheduleNeed, ...]:
    """Return the schedules of each flow whose first stage is served here."""
    return tuple(
        ScheduleNeed(
            name=name,
            owner=flow.name,
            queue=Queue(queue_of(flow, flow.entry())).short_name,
            expression=every.expression,
            timezone=every.timezone,
            input=every.input(flow.name, flow.entry().name),
            undelivered=undelivered[flow],
            enabled=options.schedules.get(name, ScheduleOptions()).enabled,
        )
        for flow, every, name in _named(functions)
    )


def schedule_problems(functions: Iterable[FoundFunction]) -> Iterator[str]:
    """Yield what keeps schedules from being made."""
    names = Counter(name for _, _, name in _named(functions))
    for name, times in names.items():
        if len(name) > LONGEST_NAME:
            yield (
                f"a schedule would be named {name!r} ({len(name)} characters), and EventBridge Scheduler takes "
                f"{LONGEST_NAME}; give it a shorter name: Every(…, name=)"
            )
        elif times > 1:
            yield f"{times} schedules would be named {name!r}; give one of them another name: Every(…, name=)"


def _named(functions: Iterable[FoundFunction]) -> Iterator[tuple[AnyFlow, Every, str]]:
    """Yield the schedules with their names."""
    served = (pair for function in functions for pair in function.stages)
    for flow in dict.fromkeys(flow for flow, stage in served if stage is flow.entry()):
        yield from ((flow, every, f"{flow.name}-{every.name}") for every in flow.every)
