"""Checks of buses, of their rules, and of the schedule group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error, warning
from flowguard.deploy.needs import Deployment, QueueNeed, ScheduleNeed, Target
from flowguard.destinations import Bus


def check_events(needed: Deployment, live: Account, now: int) -> Iterator[LiveFinding]:
    """Yield the findings about buses, rules and schedules. ``now`` is ms."""
    yield from known(*(_bus(needed, bus, live) for bus in _buses(needed)), _schedule_group(needed, live))
    yield from known(*(_schedule(needed, schedule, live, now) for schedule in needed.schedules))


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


def _schedule(needed: Deployment, schedule: ScheduleNeed, live: Account, now: int) -> Iterator[LiveFinding]:
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
    if (end := _end(there)) is not None and end < now / 1000:
        yield error(
            "schedule-over",
            schedule.name,
            f"the schedule ended at {there['EndDate']}",
            f"no run of {schedule.owner} begins by it any more",
            "take its EndDate away, or deploy the template of this code",
        )
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
    if there.get("FlexibleTimeWindow", {}).get("Mode", "OFF") != "OFF":
        yield "time window"


def _end(there: Mapping[str, Any]) -> float | None:
    """Return when a schedule ends, in seconds since 1970. A file has a text. None where it does not end."""
    end = there.get("EndDate")
    if isinstance(end, str):
        with suppress(ValueError):
            end = datetime.fromisoformat(end)
    if not isinstance(end, datetime):
        return None
    return (end if end.tzinfo is not None else end.replace(tzinfo=UTC)).timestamp()


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
        events = [rule for rule in queue.rules if rule.name == bus]
        reader = live.queue(queue.name, queue.arn) if events else None
        if reader is None or (rules := live.rules(reader["QueueArn"], bus)) is None:
            continue
        for event in events if rules else ():
            yield from known(_rule(queue, event, reader["QueueArn"], live))
        if not rules:
            yield error(
                "rule-missing",
                queue.name,
                f"no rule of the bus {bus} sends to it",
                "answers that are sent to the bus do not reach their runs",
                f"make a rule with the target {reader['QueueArn']}",
            )


def _rule(queue: QueueNeed, event: Bus, arn: str, live: Account) -> Iterator[LiveFinding]:
    """Yield that no rule brings an event to a queue, though there are rules that send there."""
    if (rules := live.rule_settings(arn, event.name)) is None:
        return
    fix = f"enable a rule of the bus {event.name} with source {event.source} and detail-type {event.detail_type}"
    why = "answers that are sent to the bus do not reach their runs"
    matching = [rule for rule in rules if _lets_through(rule["EventPattern"], event)]
    if not matching:
        what = f"no pattern of a rule that sends to it has the source {event.source} with {event.detail_type}"
        yield error("rule-other", queue.name, what, why, fix)
    elif all(rule.get("State", "ENABLED") == "DISABLED" for rule in matching):
        yield error("rule-off", queue.name, f"the rule of the bus {event.name} that sends to it is disabled", why, fix)


def _lets_through(pattern: Any, event: Bus) -> bool:
    """Answer whether a pattern may let an event through. Only texts are compared, of its source and its type."""
    if pattern is None:
        return False
    return all(_is_among(value, pattern.get(name)) for name, value in _parts(event))


def _parts(event: Bus) -> tuple[tuple[str, str], ...]:
    return ("source", event.source), ("detail-type", event.detail_type)


def _is_among(value: str, wanted: Any) -> bool:
    """Answer whether one of the values that a pattern wants may be this. One that is no text is a rule of its own."""
    if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
        return True
    return value in wanted
