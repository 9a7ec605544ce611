"""The description of a deployment as JSON, for programs."""

from __future__ import annotations

import json
from typing import Any

from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, ScheduleNeed, StreamNeed


def described(needed: Deployment) -> str:
    """Return the description as one line of JSON."""
    return json.dumps(
        {
            "flows": [flow.name for flow in needed.flows],
            "functions": [_function(function) for function in needed.functions],
            "tables": [
                {"name": table.name, "key": dict(zip(table.key.names, table.key.types, strict=True)), "ttl": table.ttl}
                | {"existing": table.existing}
                for table in needed.tables
            ],
            "queues": [_queue(queue) for queue in needed.queues],
            "topics": [
                {"arn": topic.arn, "existing": topic.existing, "buckets": topic.buckets} for topic in needed.topics
            ],
            "long_delays": needed.long_delays,
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


def _function(function: FunctionNeed) -> dict[str, Any]:
    return {
        "name": function.name,
        "handler": function.definition.handler,
        "kind": function.definition.kind.value,
        "once": function.definition.once.name if function.definition.once is not None else None,
        "serves": [f"{flow.name}/{stage.name}" for flow, stage in function.definition.stages],
        "reads": function.reads,
        "streams": [_stream(stream) for stream in function.streams],
        "timeout": function.timeout,
        "url": function.has_url,
        "links_to": function.links_to,
        "environment": dict(function.environment),
        "permissions": [
            {"on": permission.target, "name": permission.name, "actions": permission.actions}
            for permission in function.permissions
        ],
    }


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
        "buckets": queue.buckets,
        "existing": not queue.made,
    }
