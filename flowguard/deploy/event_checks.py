"""Checks of buses, of their rules, and of the schedule group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error, warning
from flowguard.deploy.needs import Deployment, ScheduleNeed, Target


def check_events(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about buses, rules and schedules."""
    yield from known(*(_bus(needed, bus, live) for bus in _buses(needed)), _schedule_group(needed, live))
    yield from known(*(_schedule(needed, schedule, live) for schedule in needed.schedules))


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


def _schedule_group(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    if needed.has_scheduler and live.has_schedule_group(needed.scheduler_group) is False:
        yield error(
            "schedule-group-missing",
            needed.scheduler_group,
            "the schedule group does not exist",
            "no long delay or deadline can be scheduled there; those that were are deleted with the group",
            f"create the schedule group {needed.scheduler_group}; send what waits: flowguard waits",
        )


def _schedule(needed: Deployment, schedule: ScheduleNeed, live: Account) -> Iterator[LiveFinding]:
    there = live.schedule(needed.scheduler_group, schedule.name)
    if there is None and live.was_read("scheduler", "get_schedule", schedule.name):
        yield error(
            "schedule-missing",
            schedule.name,
            f"the schedule does not exist in the group {needed.scheduler_group}",
            f"no run of {schedule.owner} begins by it",
            "make it, as the template does: flowguard iac",
        )
    if there is None:
        return
    if there.get("State", "ENABLED") == "DISABLED" and schedule.enabled:
        yield warning(
            "schedule-off",
            schedule.name,
            "the schedule is disabled",
            f"no run of {schedule.owner} begins by it",
            f'enable it, or say [schedules."{schedule.name}"] enabled = false',
        )
    if there.get("State", "ENABLED") != "DISABLED" and not schedule.enabled:
        yield warning(
            "schedule-on",
            schedule.name,
            "the schedule is enabled, and the options leave it off",
            f"runs of {schedule.owner} begin by it",
            f'disable it, or take [schedules."{schedule.name}"] out of the options',
        )
    if differing := [*_differing(schedule, there)]:
        yield error(
            "schedule-other",
            schedule.name,
            f"the schedule has another {' and '.join(differing)} than the code",
            "requests come at other times, elsewhere, or with another payload or id",
            "deploy the template of this code",
        )


def _differing(schedule: ScheduleNeed, there: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a schedule has that the code says otherwise."""
    target = there.get("Target", {})
    if there.get("ScheduleExpression") != schedule.expression:
        yield "expression"
    if there.get("ScheduleExpressionTimezone", "UTC") != schedule.timezone:
        yield "time zone"
    if str(target.get("Arn")).rpartition(":")[2] != schedule.queue:
        yield "queue"
    if target.get("Input") != schedule.input:
        yield "input"


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
