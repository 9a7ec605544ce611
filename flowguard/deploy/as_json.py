"""The description of a deployment as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from flowguard.deploy.alarms import DIMENSION, NAMESPACE, LoggedMetric, MetricAlarm, alarms_of, metrics_of
from flowguard.deploy.arns import (
    SCHEDULER_ROLE,
    AllowedActions,
    Arn,
    queue_arn,
    role_arn,
    rule_name,
    statements_of,
    stream_arn,
)
from flowguard.deploy.kafka_mapping import kafka_properties
from flowguard.deploy.logical_ids import LogicalIds
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, ScheduleNeed, StreamNeed, TableNeed, TopicNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.resource_policies import ResourcePolicies, check_sizes
from flowguard.deploy.scheduler_permissions import scheduler_statements
from flowguard.deploy.template import SYSTEM_LOG_LEVEL, VIEW

PARTITION: Final = "${AWS::Partition}"
REGION: Final = "${AWS::Region}"
ACCOUNT: Final = "${AWS::AccountId}"
ROLE_OF_SCHEDULER: Final = "${SchedulerRole}"
"""Placeholders in the printed statements and environment variables. CloudFormation's ``Fn::Sub`` replaces them."""


def described(needed: Deployment, options: DeployOptions) -> str:
    """Return the description as one line of JSON.

    Raises :class:`CannotDeploy` for policies that are too large, and for options that import: CloudFormation alone
    knows their values.
    """
    if options.imports:
        named = ", ".join(sorted({str(each) for each in options.imports.values()}))
        why = "has its value where CloudFormation deploys it, and nowhere else; give names and ARNs"
        raise CannotDeploy("the JSON", (f"{named} {why}, or have the template written",))
    check_sizes(needed, options)
    roles = _own_roles(needed)
    policies = ResourcePolicies(needed, options, _Open(needed, roles))
    of_queues = {queue.name: policy["Statement"] for queue, policy in policies.of_queues()}
    return json.dumps(
        {
            "flows": [flow.name for flow in needed.flows],
            "functions": [
                {
                    **_function(needed, function),
                    "role_as": roles.get(function.name),
                    "role_name": needed.role_name(function),
                }
                for function in needed.functions
            ],
            "of_functions": _of_functions(options),
            "of_roles": {"path": options.role_path, "boundary": options.permissions_boundary},
            "kms_key": needed.kms_key,
            "tags": options.tags,
            "owners": needed.owners,
            "tables": [_table(table) for table in needed.tables],
            "queues": [
                {**_queue(needed, queue), "statements": of_queues.get(queue.name, [])} for queue in needed.queues
            ],
            "topics": [_topic(topic, policies) for topic in needed.topics],
            "signing_secret": needed.signing_secret,
            "long_delays": needed.long_delays,
            "scheduler": _scheduler(needed) if needed.has_scheduler else None,
            "schedules": [_schedule(schedule) for schedule in needed.schedules],
            "metrics": [_metric(metric) for metric in metrics_of(needed)],
            "alarms": [_alarm(alarm) for alarm in alarms_of(needed, options.oldest_message)],
            "alarms_to": options.alarms_to or None,
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
        "keeps_logs": options.keeps_logs,
        "code_signing": options.code_signing,
        "tracing": options.tracing,
        "vpc": None if options.vpc is None else options.vpc.model_dump(),
    }


def _own_roles(needed: Deployment) -> dict[str, str]:
    """Return the words that stand for the roles of functions in policies of queues, by the functions' names."""
    ids = LogicalIds()
    return {each.name: ids.camel("Role", each.name) for each in needed.functions if each.role is None}


def _table(table: TableNeed) -> dict[str, Any]:
    return {
        "name": table.name,
        "key": dict(zip(table.key.names, table.key.types, strict=True)),
        "ttl": table.ttl,
        "existing": table.existing,
        "stream": VIEW if table.has_stream else None,
        "warm_writes": table.warm_writes,
        "warm_reads": table.warm_reads,
        "indexes": [
            {
                "name": index.name,
                "key": dict(zip(index.names, index.types, strict=True)),
                "projection": "KEYS_ONLY" if index.keys_only else "ALL",
            }
            for index in table.indexes
        ],
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
        "undelivered": schedule.undelivered,
    }


def _scheduler(needed: Deployment) -> dict[str, Any]:
    targets = [queue.name for queue in needed.schedule_targets()]
    return {
        "group": needed.scheduler_group,
        "existing": needed.existing_group,
        "role": needed.scheduler_role,
        "role_arn": _filled(_scheduler_role(needed)),
        "sends_to": list(dict.fromkeys([*targets, *needed.undelivered_by_scheduler])),
        "undelivered": needed.undelivered_schedules,
        "statements": [*scheduler_statements(needed, _Open(needed, {}))],
    }


def _scheduler_role(needed: Deployment) -> Arn:
    given = needed.scheduler_role
    return SCHEDULER_ROLE if given is None else role_arn(given)


class _Open:
    """References with placeholders for what the deployment fills in. ``roles`` are those of functions."""

    def __init__(self, needed: Deployment, roles: Mapping[str, str]) -> None:
        self._needed = needed
        self._roles = roles

    def queue_arn(self, name: str) -> str:
        return _filled(queue_arn(self._needed, name))

    def topic_arn(self, topic: TopicNeed) -> str:
        return topic.arn

    def arn(self, arn: Arn) -> str:
        return _filled(arn)

    def text(self, text: str) -> str:
        return text

    def account_reference(self) -> str:
        return ACCOUNT

    def function_role_reference(self, function: FunctionNeed) -> str:
        return f"${{{self._roles[function.name]}}}"

    def scheduler_role_arn(self) -> str:
        return _filled(_scheduler_role(self._needed))


def _function(needed: Deployment, function: FunctionNeed) -> dict[str, Any]:
    return {
        "name": function.name,
        "handler": function.definition.handler,
        "kind": function.definition.kind.value,
        "once": function.definition.once.name if function.definition.once is not None else None,
        "serves": [f"{flow.name}/{stage.name}" for flow, stage in function.definition.stages],
        "reads": function.reads,
        "streams": [_stream(function, stream) for stream in function.streams],
        "owner": function.owner,
        "timeout": function.timeout,
        "memory": function.memory,
        "batch_size": function.batch_size,
        "window": function.window,
        "max_concurrency": function.max_concurrency,
        **({"shares": dict(function.shares)} if function.shares else {}),
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
        variables["FLOWGUARD_SCHEDULER_ROLE"] = _filled(_scheduler_role(needed))
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


def _stream(function: FunctionNeed, stream: StreamNeed) -> dict[str, Any]:
    return {
        "name": stream.name,
        "service": stream.kind,
        "arn": stream.arn,
        "source": _source(stream),
        "undelivered": stream.undelivered,
        "start": stream.start,
        "batch_size": stream.batch_size,
        "window": stream.window,
        "parallel": stream.parallel,
        "max_age": stream.max_age,
        "max_attempts": stream.max_attempts,
        "kms_key": stream.kms_key,
        "kafka": None
        if stream.kafka is None
        else {**asdict(stream.kafka), "mapping": kafka_properties(stream.kafka, function.name)},
    }


def _source(stream: StreamNeed) -> str | None:
    """Return the ARN of a stream. AWS gives that of a table's which is made; a cluster of Kafka outside has none."""
    is_known = stream.arn is not None or stream.kind == "Kinesis"
    return _filled(stream_arn(stream.arn or stream.place)) if is_known else None


def _topic(topic: TopicNeed, policies: ResourcePolicies) -> dict[str, Any]:
    return {
        "arn": topic.arn,
        "name": topic.name,
        "existing": topic.existing,
        "buckets": topic.buckets,
        "kms_key": topic.kms_key,
        "statements": policies.of_topic(topic)["Statement"] if topic.buckets and not topic.existing else [],
    }


def _metric(metric: LoggedMetric) -> dict[str, Any]:
    return {
        "function": metric.function,
        "namespace": NAMESPACE,
        "metric": metric.metric,
        "pattern": metric.pattern,
        "dimensions": {DIMENSION: f"$.{DIMENSION}"},
    }


def _alarm(alarm: MetricAlarm) -> dict[str, Any]:
    name, value = alarm.dimension
    told = {field: told for field, told in asdict(alarm).items() if field != "dimension"}
    return {**told, "dimensions": {name: value}}


def _queue(needed: Deployment, queue: QueueNeed) -> dict[str, Any]:
    return {
        "name": queue.name,
        "role": queue.role.value,
        "owner": queue.owner,
        "reader": queue.reader,
        "visibility": queue.visibility,
        "retention": queue.retention,
        "give_up_to": queue.give_up_to,
        "max_receive_count": queue.max_receive_count if queue.give_up_to is not None else None,
        "topics": [
            {"arn": arn, "undelivered": needed.undelivered(queue, fifo=needed.topic(arn).fifo).name}
            for arn in queue.topics
        ],
        "rules": [
            {
                "name": rule_name(queue.name, bus),
                "bus": bus.name,
                "source": bus.source,
                "detail_type": bus.detail_type,
                "undelivered": needed.undelivered(queue, fifo=False).name,
            }
            for bus in queue.rules
        ],
        "undelivered": queue.undelivered,
        "buckets": queue.buckets,
        "existing": not queue.made,
        "arn": queue.arn,
        "kms_key": queue.kms_key,
    }
