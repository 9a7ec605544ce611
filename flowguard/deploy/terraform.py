"""The configuration of a deployment for Terraform, in its JSON syntax."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from flowguard.deploy.alarms import DIMENSION, NAMESPACE, LoggedMetric, MetricAlarm
from flowguard.deploy.arns import LAMBDA, POLICY_VERSION, SCHEDULER, Arn, rule_name
from flowguard.deploy.kafka_mapping import kafka_arguments
from flowguard.deploy.needs import (
    Deployment,
    FunctionNeed,
    QueueNeed,
    ScheduleNeed,
    StreamNeed,
    TableNeed,
    TopicNeed,
)
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.template import (
    ABOUT_SCHEDULER,
    LOOPS,
    SYSTEM_LOG_LEVEL,
    VIEW,
    Json,
    Template,
    key_types,
    warm_units,
)
from flowguard.destinations import Bus
from flowguard.project.declared import TableIndex
from flowguard.sim.limits.queues import LARGEST as LARGEST_MESSAGE

_PARTITION: Final = "${data.aws_partition.current.partition}"
_REGION: Final = "${data.aws_region.current.id}"
_ACCOUNT: Final = "${data.aws_caller_identity.current.account_id}"
_PROVIDER: Final = ">= 6.29"
"""The first version that has all arguments written here: ``invoked_via_function_url`` is the newest of them."""

_CODE: Final = {
    "code_bucket": {"type": "string", "description": "The bucket of the functions' code."},
    "code_key": {"type": "string", "description": "The key of the functions' code in it."},
}
_WARM: Final = ("write_units_per_second", "read_units_per_second")
_SCHEDULER: Final = "scheduler"
_ROLE: Final = "(scheduler)"
"""The scheduler's role, by a name that no function has. Its address is ``scheduler`` all the same."""

_STAYS: Final = {"lifecycle": {"prevent_destroy": True}}
_HOLDS: Final = (
    *("aws_sqs_queue", "aws_dynamodb_table", "aws_secretsmanager_secret", "aws_secretsmanager_secret_version"),
    "aws_scheduler_schedule_group",
)
"""The resources that hold messages, items, keys or schedules."""

_SENDS_LATER: Final = ("aws_iam_role", "aws_iam_role_policy")
"""Of these the scheduler's, without which nothing of the group is sent. It is the one that stays."""

_NAMES: Final = {"aws_dynamodb_table": "name", "aws_lambda_function": "function_name", "aws_sqs_queue": "name"}
_LISTED: Final = {
    "queue urls": ("aws_sqs_queue", "url", "The URL of each queue, by its name."),
    "queue arns": ("aws_sqs_queue", "arn", "The ARN of each queue, by its name."),
    "function arns": ("aws_lambda_function", "arn", "The ARN of each function, by its name."),
    "table arns": ("aws_dynamodb_table", "arn", "The ARN of each table, by its name."),
}
"""The outputs of all that is made of a type."""

_USED: Final = {"Queue": "aws_sqs_queue", "Table": "aws_dynamodb_table", "Topic": "aws_sns_topic"}
"""What a function waits for: the types of what it uses."""

_ROLE_OUTPUT: Final = "scheduler role arn"

_REMOVES: Final = ">= 1.7"
"""The first Terraform that has ``removed`` blocks."""

_WRITES_ONCE: Final = ">= 1.11"
"""The first Terraform that has arguments which are in no plan and no state."""


def terraform_json(needed: Deployment, options: DeployOptions) -> str:
    """Return the configuration for Terraform.

    Raises :class:`CannotDeploy` for options that are about exports of CloudFormation.
    """
    exports = [] if options.exports is None else ["exports"]
    if given := [*exports, *sorted({str(each) for each in options.imports.values()})]:
        fix = "give names and ARNs, and take what the module tells from its outputs"
        raise CannotDeploy("the module", (f"{', '.join(given)} is of CloudFormation, not of Terraform; {fix}",))
    return _written(_Terraform(needed, options).whole())


def with_removed(before: str, text: str) -> tuple[str, list[str]]:
    """Add a ``removed`` block for each resource with data that the configuration no longer has. Name the new ones.

    ``before`` is the text of the file that is replaced. Terraform forgets what has such a block, and leaves it at AWS.
    Without one Terraform destroys it, messages and items included.
    """
    configuration = json.loads(text)
    made, left = _held_by(before)
    here = {*_addresses(configuration["resource"])}
    dropped = [address for address in made if address not in here]
    if removed := sorted({*dropped, *left} - here):
        configuration["terraform"]["required_version"] = _WRITES_ONCE if "ephemeral" in configuration else _REMOVES
        configuration["removed"] = [{"from": address, "lifecycle": {"destroy": False}} for address in removed]
    return _written(configuration), dropped


def _held_by(text: str) -> tuple[list[str], list[str]]:
    """Return the resources with data of a configuration, and those of its ``removed`` blocks. Empty for other text."""
    try:
        configuration: Any = json.loads(text)
    except (ValueError, RecursionError):
        return [], []
    if not isinstance(configuration, dict):
        return [], []
    removed = configuration.get("removed")
    blocks = removed if isinstance(removed, list) else []
    left = [block["from"] for block in blocks if isinstance(block, dict) and isinstance(block.get("from"), str)]
    return [*_addresses(configuration.get("resource"))], left


def _addresses(resources: object) -> Iterator[str]:
    """Yield the addresses of the resources that hold data."""
    for kind in _HOLDS:
        named = resources.get(kind) if isinstance(resources, dict) else None
        if isinstance(named, dict):
            yield from (f"{kind}.{name}" for name in sorted(named))
    for kind in _SENDS_LATER:
        named = resources.get(kind) if isinstance(resources, dict) else None
        if isinstance(named, dict):
            yield from (f"{kind}.{name}" for name, block in sorted(named.items()) if _stays(block))


def _stays(block: object) -> bool:
    return isinstance(block, dict) and block.get("lifecycle") == _STAYS["lifecycle"]


def _written(configuration: Json) -> str:
    return json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"


def _index(index: TableIndex) -> Json:
    """Return the block of an index. From 6.29 on the provider warns that its ``hash_key`` is deprecated, and takes it.

    ``key_schema`` came with 6.29 (its CHANGELOG), and until 6.32 each plan of an index with a range key wanted to
    change it (https://github.com/hashicorp/terraform-provider-aws/pull/46442). This form works with all versions that
    are asked for.
    """
    hash_key, *range_key = index.names
    return {
        "name": index.name,
        "hash_key": hash_key,
        **({"range_key": range_key[0]} if range_key else {}),
        "projection_type": "KEYS_ONLY" if index.keys_only else "ALL",
    }


class _Terraform(Template):
    def __init__(self, needed: Deployment, options: DeployOptions) -> None:
        super().__init__(needed, options)
        self.resources: dict[str, dict[str, Json]] = {}
        self.outputs: dict[str, Json] = {}
        self.ephemeral: dict[str, Json] = {}
        for part in (*_LISTED, _ROLE_OUTPUT):
            self.ids.snake("output", part)  # no function's URL gets the name
        for kind in _SENDS_LATER:
            self.ids.snake(kind, _ROLE)  # nor a function's role its address

    def whole(self) -> Json:
        """Return the configuration with all resources."""
        self.add_resources()
        self._add_lists()
        return {
            "terraform": {"required_providers": {"aws": {"source": "hashicorp/aws", "version": _PROVIDER}}},
            "variable": {
                **(_CODE if self.needed.functions else {}),
                "alarm_topic": {
                    "type": "string",
                    "default": self.options.alarms_to,
                    "description": "The ARN of the topic that gets the alarms; none if empty.",
                },
            },
            "data": {
                "aws_caller_identity": {"current": {}},
                "aws_partition": {"current": {}},
                "aws_region": {"current": {}},
            },
            **({"ephemeral": self.ephemeral} if self.ephemeral else {}),
            "resource": self.resources,
            **({"output": self.outputs} if self.outputs else {}),
        }

    def _add_lists(self) -> None:
        """Add the outputs that name what is made, for the configuration that uses this one as a module."""
        for output, (kind, attribute, about) in _LISTED.items():
            named = self.resources.get(kind, {})
            listed = {str(block[_NAMES[kind]]): f"${{{kind}.{key}.{attribute}}}" for key, block in named.items()}
            if listed:
                self.outputs[self.ids.snake("output", output)] = {"description": about, "value": listed}

    def _add(self, kind: str, name: str, block: Json) -> str:
        """Add a resource and return its address."""
        key = self.ids.snake(kind, name)
        self.resources.setdefault(kind, {})[key] = block
        return f"{kind}.{key}"

    def _address(self, kind: str, name: str) -> str:
        return f"{kind}.{self.ids.snake(kind, name)}"

    # -- tables, queues, topics

    def add_table(self, table: TableNeed) -> None:
        hash_key, *range_key = table.key.names
        block: Json = {
            "name": table.name,
            "billing_mode": "PAY_PER_REQUEST",
            "hash_key": hash_key,
            **({"range_key": range_key[0]} if range_key else {}),
            "attribute": [{"name": name, "type": kind} for name, kind in key_types(table).items()],
            **({"global_secondary_index": [_index(each) for each in table.indexes]} if table.indexes else {}),
            "point_in_time_recovery": {"enabled": True},
            **({"server_side_encryption": {"enabled": True, "kms_key_arn": key}} if (key := table.kms_key) else {}),
            **({"warm_throughput": warm} if (warm := warm_units(table, *_WARM)) else {}),
            **({"stream_enabled": True, "stream_view_type": VIEW} if table.has_stream else {}),
            **({"ttl": {"attribute_name": table.ttl, "enabled": True}} if table.ttl is not None else {}),
            "tags": self.tagged(self.needed.owners),
            **_STAYS,
        }
        self._add("aws_dynamodb_table", table.name, block)

    def add_queue(self, queue: QueueNeed, redrive_policy: Json | None) -> None:
        block: Json = {
            "name": queue.name,
            **({"fifo_queue": True} if queue.fifo else {}),
            "visibility_timeout_seconds": queue.visibility,
            "message_retention_seconds": queue.retention,
            "max_message_size": LARGEST_MESSAGE,
            **({"sqs_managed_sse_enabled": True} if (key := queue.kms_key) is None else {"kms_master_key_id": key}),
            **({"redrive_policy": json.dumps(redrive_policy)} if redrive_policy is not None else {}),
            "tags": self.tagged(queue.owner),
            **_STAYS,
        }
        self._add("aws_sqs_queue", queue.name, block)

    def add_topic(self, topic: TopicNeed) -> None:
        kind: Json = {"fifo_topic": True} if topic.fifo else {}
        kind |= {"kms_master_key_id": topic.kms_key} if topic.kms_key is not None else {}
        self._add("aws_sns_topic", topic.arn, {"name": topic.name, **kind, "tags": self.tagged(self.needed.owners)})

    def add_topic_policy(self, topic: TopicNeed, policy: Json) -> None:
        self._add("aws_sns_topic_policy", topic.arn, {"arn": self.topic_arn(topic), "policy": json.dumps(policy)})

    # -- the senders of queues

    def add_subscription(self, queue: QueueNeed, topic: TopicNeed, undelivered: QueueNeed) -> None:
        block = {
            "topic_arn": self.topic_arn(topic),
            "protocol": "sqs",
            "endpoint": self.queue_arn(queue.name),
            "redrive_policy": json.dumps({"deadLetterTargetArn": self.queue_arn(undelivered.name)}),
            **self._after_policies(queue, undelivered),
        }
        self._add("aws_sns_topic_subscription", f"{queue.name} {topic.arn}", block)

    def add_rule(self, queue: QueueNeed, bus: Bus, undelivered: QueueNeed) -> None:
        label, bus_name = f"{queue.name} {bus}", self.text(bus.name)
        pattern = {"source": [self.text(bus.source)], "detail-type": [self.text(bus.detail_type)]}
        block = {
            "name": rule_name(queue.name, bus),
            "event_bus_name": bus_name,
            "event_pattern": json.dumps(pattern, ensure_ascii=False),
            "tags": self.tagged(queue.owner),
        }
        rule = self._add("aws_cloudwatch_event_rule", label, block)
        target = {
            "rule": f"${{{rule}.name}}",
            "event_bus_name": bus_name,
            "arn": self.queue_arn(queue.name),
            "dead_letter_config": {"arn": self.queue_arn(undelivered.name)},
            **self._after_policies(queue, undelivered),
        }
        self._add("aws_cloudwatch_event_target", label, target)

    def _after_policies(self, *queues: QueueNeed) -> Json:
        addresses = [self._address("aws_sqs_queue_policy", name) for name in self.policies_of(*queues)]
        return {"depends_on": addresses} if addresses else {}

    def add_queue_policy(self, queue: QueueNeed, policy: Json) -> None:
        url = f"${{{self._address('aws_sqs_queue', queue.name)}.id}}"
        self._add("aws_sqs_queue_policy", queue.name, {"queue_url": url, "policy": json.dumps(policy)})

    def add_secret(self, name: str) -> None:
        """Add a secret. Its text is generated and written once, and kept in no plan and no state.

        What is generated at a later plan is not written, for the version of what was is the same. A Terraform before
        1.11 refuses such arguments. No ``required_version`` says it: checkov cannot read that in JSON.
        """
        about = "The keys of flowguard's signatures: a secret alone, or id:secret,id:secret with the newest first."
        secret = self._add(
            "aws_secretsmanager_secret",
            name,
            {
                "name": name,
                "description": about,
                **self._key("kms_key_id"),
                "tags": self.tagged(self.needed.owners),
                **_STAYS,
            },
        )
        key = self.ids.snake("aws_secretsmanager_random_password", name)
        generated = {key: {"password_length": 64, "exclude_punctuation": True}}
        self.ephemeral["aws_secretsmanager_random_password"] = generated
        text = f"${{ephemeral.aws_secretsmanager_random_password.{key}.random_password}}"
        self._add(
            "aws_secretsmanager_secret_version",
            name,
            {
                "secret_id": f"${{{secret}.id}}",
                "secret_string_wo": text,
                "secret_string_wo_version": 1,
            },
        )

    # -- the scheduler

    def add_schedule_group(self, name: str) -> None:
        self._add(
            "aws_scheduler_schedule_group",
            _SCHEDULER,
            {"name": name, "tags": self.tagged(self.needed.owners), **_STAYS},
        )

    def add_scheduler_role(self, statements: Sequence[Json]) -> None:
        trust = self.trusting(SCHEDULER, self.scheduler_trust())
        named = _role_name(None, "flowguard-scheduler-")
        self._role(_ROLE, named, trust, statements, self.needed.owners, _STAYS)
        told = {"description": ABOUT_SCHEDULER, "value": self.scheduler_role_reference()}
        self.outputs[self.ids.snake("output", _ROLE_OUTPUT)] = told

    def add_schedule(self, schedule: ScheduleNeed) -> None:
        group = f"${{{self._address('aws_scheduler_schedule_group', _SCHEDULER)}.name}}" if self.makes_group else None
        self._add(
            "aws_scheduler_schedule",
            schedule.name,
            {
                "name": schedule.name,
                "group_name": self.needed.scheduler_group if group is None else group,
                "schedule_expression": schedule.expression,
                "schedule_expression_timezone": schedule.timezone,
                "state": "ENABLED" if schedule.enabled else "DISABLED",
                "flexible_time_window": {"mode": "OFF"},
                **self._key("kms_key_arn"),
                "target": {
                    "arn": self.queue_arn(schedule.queue),
                    "role_arn": self.scheduler_role_arn(),
                    "input": self.text(schedule.input),
                    "dead_letter_config": {"arn": self.queue_arn(schedule.undelivered)},
                },
            },
        )

    def _key(self, name: str) -> Json:
        """Return the argument of that name that is the deployment's key."""
        return {name: self.needed.kms_key} if self.needed.kms_key is not None else {}

    # -- functions

    def add_function_role(self, function: FunctionNeed, statements: Sequence[Json]) -> str:
        named = _role_name(self.needed.role_name(function), f"{function.name[:37]}-")
        trust = self.trusting(LAMBDA, {})
        role = self._role(function.name, named, trust, statements, function.owner)
        for policy in function.policies:
            attachment = {"role": f"${{{role}.name}}", "policy_arn": policy}
            self._add("aws_iam_role_policy_attachment", f"{function.name} {policy}", attachment)
        return f"${{{role}.arn}}"

    def add_log_group(self, function: FunctionNeed) -> str:
        logs = self._add(
            "aws_cloudwatch_log_group",
            function.name,
            {
                "name": f"/aws/lambda/{function.name}",
                "retention_in_days": self.options.log_retention,
                **({"skip_destroy": True} if self.options.keeps_logs else {}),
                **self._key("kms_key_id"),
                "tags": self.tagged(function.owner),
            },
        )
        return f"${{{logs}.name}}"

    def add_function(self, function: FunctionNeed, role: str, log_group: str) -> None:
        address = self._add(
            "aws_lambda_function",
            function.name,
            {
                "function_name": function.name,
                "handler": function.definition.handler,
                "runtime": self.options.runtime,
                "architectures": [self.options.architecture],
                "memory_size": function.memory,
                "timeout": function.timeout,
                "role": role,
                "s3_bucket": "${var.code_bucket}",
                "s3_key": "${var.code_key}",
                "environment": {"variables": self.environment(function)},
                "logging_config": {
                    "log_format": "JSON",
                    "log_group": log_group,
                    "application_log_level": self.options.log_level,
                    "system_log_level": SYSTEM_LOG_LEVEL,
                },
                "tags": self.tagged(function.owner),
                **self._key("kms_key_arn"),
                **({"tracing_config": {"mode": "Active"}} if self.options.tracing else {}),
                **({"code_signing_config_arn": signing} if (signing := self.options.code_signing) else {}),
                **({"vpc_config": network} if (network := self._network()) else {}),
                **({"reserved_concurrent_executions": function.reserved} if function.reserved is not None else {}),
                **({"depends_on": after} if (after := self._made_before(function)) else {}),
            },
        )
        loops = {"function_name": f"${{{address}.function_name}}", "recursive_loop": LOOPS}
        self._add("aws_lambda_function_recursion_config", function.name, loops)
        for name in function.reads:
            self._source(function, address, name)
        for stream in function.streams:
            self._stream(function, address, stream)
        if function.has_url:
            self._url(function, address)

    def _network(self) -> Json:
        vpc = self.options.vpc
        return {} if vpc is None else {"subnet_ids": [*vpc.subnets], "security_group_ids": [*vpc.security_groups]}

    def _source(self, function: FunctionNeed, address: str, queue: str) -> None:
        concurrency = function.at_once(queue)
        block: Json = {
            "event_source_arn": self.queue_arn(queue),
            "function_name": f"${{{address}.arn}}",
            "batch_size": function.batch_size,
            "function_response_types": ["ReportBatchItemFailures"],
            **({"maximum_batching_window_in_seconds": function.window} if function.window else {}),
            **({"scaling_config": {"maximum_concurrency": concurrency}} if concurrency is not None else {}),
        }
        self._add_source(function, queue, block)

    def _stream(self, function: FunctionNeed, address: str, stream: StreamNeed) -> None:
        is_outside = stream.kafka is not None and stream.arn is None
        block: Json = {
            **({} if is_outside else {"event_source_arn": self.stream_arn(stream)}),
            "function_name": f"${{{address}.arn}}",
            "batch_size": stream.batch_size,
            "starting_position": stream.start,
            "function_response_types": ["ReportBatchItemFailures"],
            "bisect_batch_on_function_error": True,
            "maximum_record_age_in_seconds": stream.max_age,
            "destination_config": {"on_failure": {"destination_arn": self.queue_arn(stream.undelivered)}},
            **({"maximum_retry_attempts": stream.max_attempts} if stream.max_attempts is not None else {}),
            **({"maximum_batching_window_in_seconds": stream.window} if stream.window else {}),
            **({"parallelization_factor": stream.parallel} if stream.parallel > 1 else {}),
            **(kafka_arguments(topic, function.name) if (topic := stream.kafka) is not None else {}),
        }
        self._add_source(function, f"{stream.kind} {stream.name}", block)

    def _add_source(self, function: FunctionNeed, name: str, block: Json) -> None:
        block["tags"] = self.tagged(function.owner)
        block["depends_on"] = [
            self._address("aws_lambda_function_recursion_config", function.name),
            *self._permissions_of(function),
        ]
        self._add("aws_lambda_event_source_mapping", f"{function.name} {name}", block)

    def _made_before(self, function: FunctionNeed) -> list[str]:
        used = sorted(self._address(_USED[kind], name) for kind, name in self.made_before(function))
        return [*self._permissions_of(function), *used]

    def _permissions_of(self, function: FunctionNeed) -> list[str]:
        """Return what gives a role its permissions. Lambda looks for them when a mapping is made."""
        if function.role is not None:
            return []
        attached = [
            self._address("aws_iam_role_policy_attachment", f"{function.name} {policy}") for policy in function.policies
        ]
        return [self._address("aws_iam_role_policy", function.name), *attached]

    def _url(self, function: FunctionNeed, address: str) -> None:
        block = {"function_name": f"${{{address}.function_name}}", "authorization_type": function.url_auth}
        url = self._add("aws_lambda_function_url", function.name, block)
        self.outputs[self.ids.snake("output", function.name)] = {
            "description": function.url_note,
            "value": f"${{{url}.function_url}}",
        }
        if function.url_auth != "NONE":
            return
        invoked = {
            "function_name": f"${{{address}.function_name}}",
            "principal": "*",
            "action": "lambda:InvokeFunction",
        }
        self._add("aws_lambda_permission", function.name, {**invoked, "invoked_via_function_url": True})

    def url_reference(self, function: str) -> str:
        return f"${{{self._address('aws_lambda_function_url', function)}.function_url}}"

    def _role(
        self, name: str, named: Json, trust: Json, statements: Sequence[Json], owner: str, stays: Json | None = None
    ) -> str:
        role = self._add(
            "aws_iam_role",
            name,
            {
                **named,
                "tags": self.tagged(owner),
                **({"path": self.options.role_path} if self.options.role_path != "/" else {}),
                **({"permissions_boundary": boundary} if (boundary := self.options.permissions_boundary) else {}),
                "assume_role_policy": json.dumps(trust),
                **(stays or {}),
            },
        )
        policy = json.dumps({"Version": POLICY_VERSION, "Statement": [*statements]}, ensure_ascii=False)
        inline = {"role": f"${{{role}.id}}", "name": "flowguard", "policy": policy, **(stays or {})}
        self._add("aws_iam_role_policy", name, inline)
        return role

    # -- what is watched

    def add_metric(self, metric: LoggedMetric) -> None:
        block = {
            "name": metric.function,
            "log_group_name": f"${{{self._address('aws_cloudwatch_log_group', metric.function)}.name}}",
            "pattern": metric.pattern,
            "metric_transformation": {
                "namespace": NAMESPACE,
                "name": metric.metric,
                "value": "1",
                "dimensions": {DIMENSION: f"$.{DIMENSION}"},
            },
        }
        self._add("aws_cloudwatch_log_metric_filter", metric.function, block)

    def add_alarm(self, alarm: MetricAlarm) -> None:
        block: Json = {
            "alarm_name": alarm.name,
            "alarm_description": alarm.about,
            "namespace": alarm.namespace,
            "metric_name": alarm.metric,
            "dimensions": dict([alarm.dimension]),
            "statistic": alarm.statistic,
            "period": alarm.period,
            "evaluation_periods": alarm.periods,
            "threshold": alarm.threshold,
            "comparison_operator": "GreaterThanThreshold",
            "treat_missing_data": "notBreaching",
            "tags": self.tagged(self.needed.owners),
            "alarm_actions": '${var.alarm_topic == "" ? [] : [var.alarm_topic]}',
        }
        self._add("aws_cloudwatch_metric_alarm", alarm.name, block)

    # -- references

    def queue_reference(self, queue: QueueNeed) -> str:
        return f"${{{self._address('aws_sqs_queue', queue.name)}.arn}}"

    def table_stream_reference(self, table: str) -> str:
        return f"${{{self._address('aws_dynamodb_table', table)}.stream_arn}}"

    def account_reference(self) -> str:
        return _ACCOUNT

    def topic_reference(self, topic: TopicNeed) -> str:
        return f"${{{self._address('aws_sns_topic', topic.arn)}.arn}}"

    def function_role_reference(self, function: FunctionNeed) -> str:
        return f"${{{self._address('aws_iam_role', function.name)}.arn}}"

    def scheduler_role_reference(self) -> str:
        return f"${{{self._address('aws_iam_role', _ROLE)}.arn}}"

    def open_arn(self, arn: Arn) -> str:
        return arn._replace(resource=self.text(arn.resource)).filled(_PARTITION, _REGION, _ACCOUNT)

    def text(self, text: str) -> str:
        return text.replace("${", "$${").replace("%{", "%%{")


def _role_name(name: str | None, prefix: str) -> Json:
    """Return the name of a role, or what begins the one that Terraform gives it."""
    return {"name_prefix": prefix} if name is None else {"name": name}
