"""The description of a deployment as JSON, for programs."""

from __future__ import annotations

import json
from typing import Any, Final

from flowguard.deploy.arns import SCHEDULER_ROLE, AllowedActions, Arn, statements_of
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, ScheduleNeed, StreamNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy

PARTITION: Final = "${AWS::Partition}"
REGION: Final = "${AWS::Region}"
ACCOUNT: Final = "${AWS::AccountId}"
ROLE_OF_SCHEDULER: Final = "${SchedulerRole}"
"""Placeholders in statements, as ``Fn::Sub`` of CloudFormation fills them in."""


def described(needed: Deployment, options: DeployOptions) -> str:
    """Return the description as one line of JSON.

    Raises :class:`CannotDeploy` for the policy of a function that is too large for a role, and for options that import:
    CloudFormation alone knows their values.
    """
    if options.imports:
        named = ", ".join(sorted({str(each) for each in options.imports.values()}))
        why = "has its value where CloudFormation deploys it, and nowhere else; give names and ARNs"
        raise CannotDeploy("the JSON", (f"{named} {why}, or have the template written",))
    return json.dumps(
        {
            "flows": [flow.name for flow in needed.flows],
            "functions": [_function(needed, function) for function in needed.functions],
            "tables": [
                {"name": table.name, "key": dict(zip(table.key.names, table.key.types, strict=True)), "ttl": table.ttl}
                | {"existing": table.existing}
                for table in needed.tables
            ],
            "queues": [_queue(queue) for queue in needed.queues],
            "topics": [
                {"arn": topic.arn, "existing": topic.existing, "buckets": topic.buckets} for topic in needed.topics
            ],
            "signing_secret": needed.signing_secret,
            "long_delays": needed.long_delays,
            "scheduler": _scheduler(needed) if needed.has_scheduler else None,
            "schedules": [_schedule(schedule) for schedule in needed.schedules],
            "notes": needed.notes,
        },
        ensure_ascii=False,
    )


def _schedule(schedule: ScheduleNeed) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "expression": schedule.expression,
        "timezone": schedule.timezone,
        "queue": schedule.queue,
        "enabled": schedule.enabled,
        "input": schedule.input,
    }


def _scheduler(needed: Deployment) -> dict[str, Any]:
    targets = [queue.name for queue in needed.schedule_targets()]
    return {
        "group": needed.scheduler_group,
        "role": needed.scheduler_role,
        "sends_to": list(dict.fromkeys([*targets, *needed.undelivered_by_scheduler])),
        "undelivered": needed.undelivered_schedules,
    }


def _function(needed: Deployment, function: FunctionNeed) -> dict[str, Any]:
    return {
        "name": function.name,
        "handler": function.definition.handler,
        "kind": function.definition.kind.value,
        "once": function.definition.once.name if function.definition.once is not None else None,
        "serves": [f"{flow.name}/{stage.name}" for flow, stage in function.definition.stages],
        "reads": function.reads,
        "streams": [_stream(stream) for stream in function.streams],
        "timeout": function.timeout,
        "memory": function.memory,
        "batch_size": function.batch_size,
        "window": function.window,
        "max_concurrency": function.max_concurrency,
        "role": function.role,
        "url": function.has_url,
        "links_to": function.links_to,
        "environment": dict(function.environment),
        "permissions": [
            {"on": permission.target, "name": permission.name, "actions": permission.actions}
            for permission in function.permissions
        ],
        "statements": [_statement(function, statement) for statement in statements_of(needed, function)],
    }


def _statement(function: FunctionNeed, statement: AllowedActions) -> dict[str, Any]:
    """Return a policy statement of a function's role, with placeholders."""
    owner = dict(function.environment).get("FLOWGUARD_BUCKET_OWNER", ACCOUNT)
    resources = [_filled(arn) for arn in statement.arns]
    return {"Effect": "Allow", "Action": statement.actions, "Resource": resources, **statement.condition(owner)}


def _filled(arn: Arn) -> str:
    return ROLE_OF_SCHEDULER if arn == SCHEDULER_ROLE else arn.filled(PARTITION, REGION, ACCOUNT)


def _stream(stream: StreamNeed) -> dict[str, Any]:
    return {
        "name": stream.name,
        "service": stream.kind,
        "arn": stream.arn,
        "undelivered": stream.undelivered,
        "max_age": stream.max_age,
    }


def _queue(queue: QueueNeed) -> dict[str, Any]:
    return {
        "name": queue.name,
        "role": queue.role.value,
        "reader": queue.reader,
        "visibility": queue.visibility,
        "retention": queue.retention,
        "give_up_to": queue.give_up_to,
        "max_receive_count": queue.max_receive_count if queue.give_up_to is not None else None,
        "topics": queue.topics,
        "rules": [{"bus": bus.name, "source": bus.source, "detail_type": bus.detail_type} for bus in queue.rules],
        "undelivered": queue.undelivered,
        "buckets": queue.buckets,
        "existing": not queue.made,
    }
