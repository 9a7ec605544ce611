"""The description of a deployment as JSON, for programs."""

from __future__ import annotations

import json
from typing import Any

from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed


def described(needed: Deployment) -> str:
    """Return the description as one line of JSON."""
    return json.dumps(
        {
            "flows": [flow.name for flow in needed.flows],
            "functions": [_function(one) for one in needed.functions],
            "tables": [
                {"name": one.name, "key": dict(zip(one.key.names, one.key.types, strict=True)), "ttl": one.ttl}
                | {"existing": one.existing}
                for one in needed.tables
            ],
            "queues": [_queue(one) for one in needed.queues],
            "topics": [{"arn": one.arn, "existing": one.existing} for one in needed.topics],
            "long_delays": needed.long_delays,
            "notes": needed.notes,
        },
        ensure_ascii=False,
    )


def _function(one: FunctionNeed) -> dict[str, Any]:
    return {
        "name": one.name,
        "handler": one.found.handler,
        "kind": one.found.kind.value,
        "once": one.found.once.name if one.found.once is not None else None,
        "serves": [f"{flow.name}/{stage.name}" for flow, stage in one.found.stages],
        "reads": one.reads,
        "timeout": one.timeout,
        "url": one.has_url,
        "links_to": one.links_to,
        "environment": dict(one.environment),
        "permissions": [
            {"on": permission.target, "name": permission.name, "actions": permission.actions}
            for permission in one.permissions
        ],
    }


def _queue(one: QueueNeed) -> dict[str, Any]:
    return {
        "name": one.name,
        "role": one.role.value,
        "reader": one.reader,
        "visibility": one.visibility,
        "retention": one.retention,
        "give_up_to": one.give_up_to,
        "max_receive_count": one.max_receive_count if one.give_up_to is not None else None,
        "topics": one.topics,
        "existing": not one.made,
    }
