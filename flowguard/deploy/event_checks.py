"""Checks of buses, of their rules, and of the schedule group."""

from __future__ import annotations

from collections.abc import Iterator

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error
from flowguard.deploy.needs import Deployment, Target


def check_events(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about buses, rules and schedules."""
    yield from known(*(_bus(needed, bus, live) for bus in _buses(needed)), _schedules(needed, live))


def _bus(needed: Deployment, bus: str, live: Account) -> Iterator[LiveFinding]:
    if live.has_bus(bus) is False:
        yield error(
            "bus-missing",
            bus,
            "the bus does not exist",
            "EventBridge accepts what is sent there and drops it, and no answer says so",
            f"create the bus {bus}, or name another: Bus(…)",
        )
    else:
        yield from _rules(needed, bus, live)


def _schedules(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    if needed.long_delays and live.has_schedule_group(needed.scheduler_group) is False:
        yield error(
            "schedule-group-missing",
            needed.scheduler_group,
            "the schedule group does not exist",
            "no long delay or deadline can be scheduled there; those that were are deleted with the group",
            f"create the schedule group {needed.scheduler_group}; send what waits: flowguard waits",
        )


def _buses(needed: Deployment) -> list[str]:
    sent_to = {
        permission.name
        for function in needed.functions
        for permission in function.permissions
        if permission.on is Target.BUS
    }
    return sorted(sent_to | {bus.name for queue in needed.queues for bus in queue.rules})


def _rules(needed: Deployment, bus: str, live: Account) -> Iterator[LiveFinding]:
    for queue in needed.queues:
        reader = live.queue(queue.name, queue.arn) if bus in {rule.name for rule in queue.rules} else None
        if reader is not None and live.rules(reader["QueueArn"], bus) == []:
            yield error(
                "rule-missing",
                queue.name,
                f"no rule of the bus {bus} sends to it",
                "answers that are sent to the bus do not reach their runs",
                f"make a rule with the target {reader['QueueArn']}",
            )
