"""The description of a deployment as JSON, for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from flowguard.deploy.arns import SCHEDULER_ROLE, AllowedActions, Arn, queue_arn, role_arn, statements_of
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, ScheduleNeed, StreamNeed, TableNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.scheduler_permissions import scheduler_statements
from flowguard.deploy.template import SYSTEM_LOG_LEVEL, VIEW

PARTITION: Final = "${AWS::Partition}"
REGION: Final = "${AWS::Region}"
ACCOUNT: Final = "${AWS::AccountId}"
ROLE_OF_SCHEDULER: Final = "${SchedulerRole}"
"""Placeholders in the printed statements and environment variables. CloudFormation's ``Fn::Sub`` replaces them."""


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
            "of_functions": _of_functions(options),
            "of_roles": {"path": options.role_path, "boundary": options.permissions_boundary},
            "kms_key": needed.kms_key,
            "tags": options.tags,
            "tables": [_table(table) for table in needed.tables],
            "queues": [_queue(queue) for queue in needed.queues],
            "topics": [
                {"arn": topic.arn, "existing": topic.existing, "buckets": topic.buckets, "kms_key": topic.kms_key}
                for topic in needed.topics
            ],
            "signing_secret": needed.signing_secret,
            "long_delays": needed.long_delays,
            "scheduler": _scheduler(needed) if needed.has_scheduler else None,
            "schedules": [_schedule(schedule) for schedule in needed.schedules],
            "notes": needed.notes,
        },
        ensure_ascii=False,
    )


def _of_functions(options: DeployOptions) -> dict[str, Any]:
    """Return what all functions have in common."""
    return {
        "runtime": options.runtime,
        "architecture": options.architecture,
        "log_level": options.log_level,
        "system_log_level": SYSTEM_LOG_LEVEL,
        "log_retention": options.log_retention,
        "code_signing": options.code_signing,
        "tracing": options.tracing,
        "vpc": None if options.vpc is None else options.vpc.model_dump(),
    }


def _table(table: TableNeed) -> dict[str, Any]:
    return {
        "name": table.name,
        "key": dict(zip(table.key.names, table.key.types, strict=True)),
        "ttl": table.ttl,
        "existing": table.existing,
        "stream": VIEW if table.has_stream else None,
        "warm_writes": table.warm_writes,
        "warm_reads": table.warm_reads,
        "run_index": table.run_index,
        "kms_key": table.kms_key,
    }


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
        "existing": needed.existing_group,
        "role": needed.scheduler_role,
        "sends_to": list(dict.fromkeys([*targets, *needed.undelivered_by_scheduler])),
        "undelivered": needed.undelivered_schedules,
        "statements": [*scheduler_statements(needed, _Open(needed))],
    }


class _Open:
    """References with placeholders for what the deployment fills in."""

    def __init__(self, needed: Deployment) -> None:
        self._needed = needed

    def queue_arn(self, name: str) -> str:
        return _filled(queue_arn(self._needed, name))

    def arn(self, arn: Arn) -> str:
        return _filled(arn)


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
        "reserved": function.reserved,
        "role": function.role,
        "policies": function.policies,
        "url": function.has_url,
        "url_auth": function.url_auth if function.has_url else None,
        "links_to": function.links_to,
        "environment": _environment(needed, function),
        "permissions": [
            {"on": permission.target, "name": permission.name, "actions": permission.actions}
            for permission in function.permissions
        ],
        "statements": [_statement(function, statement) for statement in statements_of(needed, function)],
    }


def _environment(needed: Deployment, function: FunctionNeed) -> dict[str, str]:
    """Return the variables of a function, with placeholders. What looks like one in a text is marked as none.

    The URL of the function that it ``links_to`` is not among them: AWS gives it.
    """
    variables = {name: value.replace("${", "${!") for name, value in function.environment}
    if "FLOWGUARD_SCHEDULER_GROUP" in variables:
        given = needed.scheduler_role
        variables["FLOWGUARD_SCHEDULER_ROLE"] = _filled(SCHEDULER_ROLE if given is None else role_arn(given))
        if needed.undelivered_schedules is not None:
            variables["FLOWGUARD_SCHEDULER_UNDELIVERED"] = _filled(queue_arn(needed, needed.undelivered_schedules))
    if "FLOWGUARD_BUCKET" in variables:
        variables.setdefault("FLOWGUARD_BUCKET_OWNER", ACCOUNT)
    return dict(sorted(variables.items()))


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
        "start": stream.start,
        "batch_size": stream.batch_size,
        "window": stream.window,
        "parallel": stream.parallel,
        "max_age": stream.max_age,
        "max_attempts": stream.max_attempts,
        "kms_key": stream.kms_key,
        "kafka": None if stream.kafka is None else asdict(stream.kafka),
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
        "arn": queue.arn,
        "kms_key": queue.kms_key,
    }
