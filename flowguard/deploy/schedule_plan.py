"""Plan the schedules that begin runs by the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from flowguard.deploy.found import FoundFunction
from flowguard.deploy.needs import Deployment, ScheduleNeed
from flowguard.deploy.options import DeployOptions, ScheduleOptions
from flowguard.destinations import Queue
from flowguard.errors import shown
from flowguard.every import Every
from flowguard.flow import AnyFlow

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
            queue=_queue_of(flow, every),
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


def unscheduled_notes(needed: Deployment, options: DeployOptions) -> Iterator[str]:
    """Yield a note for each option of what is scheduled, where nothing is. It may be for another deployment."""
    if needed.has_scheduler:
        return
    group = options.settings.scheduler_group
    given = {
        "scheduler_role of [settings]": options.settings.scheduler_role is not None,
        f"[schedule_groups.{shown(group)[1:-1]}]": group in options.schedule_groups,
    }
    for option, is_given in given.items():
        if is_given:
            yield f"the options say {option}, and nothing here is scheduled; it has no effect"


def _queue_of(flow: AnyFlow, every: Every) -> str:
    """Return the name of the queue to which a schedule sends. Where there are lanes it is that of its own."""
    _, inbox = flow.entrance(every.in_lane())
    assert isinstance(inbox, Queue)  # noqa: S101 - the flow refuses a schedule for another inbox
    return inbox.short_name


def _named(functions: Iterable[FoundFunction]) -> Iterator[tuple[AnyFlow, Every, str]]:
    """Yield the schedules with their names."""
    served = (pair for function in functions for pair in function.stages)
    for flow in dict.fromkeys(flow for flow, stage in served if stage is flow.entry()):
        yield from ((flow, every, f"{flow.name}-{every.name}") for every in flow.every)
