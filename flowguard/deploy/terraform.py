"""The configuration of a deployment for Terraform, in its JSON syntax."""

from __future__ import annotations

import json
from typing import Any, Final

from flowguard.deploy.alarms import NAMESPACE, LoggedMetric, MetricAlarm, alarms_of, metrics_of
from flowguard.deploy.arns import SCHEDULER_ROLE, Arn, queue_arn, statements_of
from flowguard.deploy.logical_ids import LogicalIds
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, Role, TableNeed, TopicNeed
from flowguard.deploy.options import DeployOptions

Block = dict[str, Any]

_VERSION: Final = "2012-10-17"
_PARTITION: Final = "${data.aws_partition.current.partition}"
_REGION: Final = "${data.aws_region.current.id}"
_ACCOUNT: Final = "${data.aws_caller_identity.current.account_id}"
_SCHEDULER: Final = "scheduler"
_STAYS: Final = {"lifecycle": {"prevent_destroy": True}}


def terraform_json(needed: Deployment, options: DeployOptions) -> str:
    """Return the configuration for Terraform."""
    return json.dumps(_Configuration(needed, options).whole(), indent=2, ensure_ascii=False) + "\n"


class _Configuration:
    """Collects the resources."""

    def __init__(self, needed: Deployment, options: DeployOptions) -> None:
        self.needed = needed
        self.options = options
        self.ids = LogicalIds()
        self.resources: dict[str, dict[str, Block]] = {}
        self.outputs: dict[str, Block] = {}

    def whole(self) -> Block:
        for table in self.needed.tables:
            self._table(table)
        for queue in self.needed.queues:
            self._queue(queue)
        for topic in self.needed.topics:
            self._topic(topic)
        for queue in self.needed.queues:
            self._fed(queue)
        self._scheduler()
        for function in self.needed.functions:
            self._function(function)
        for metric in metrics_of(self.needed):
            self._metric(metric)
        for alarm in alarms_of(self.needed, self.options.oldest_message):
            self._alarm(alarm)
        return {
            "terraform": {"required_providers": {"aws": {"source": "hashicorp/aws", "version": ">= 5.32"}}},
            "variable": {
                "code_bucket": {"type": "string", "description": "The bucket of the functions' code."},
                "code_key": {"type": "string", "description": "The key of the functions' code in it."},
                "alarm_topic": {
                    "type": "string",
                    "default": "",
                    "description": "The ARN of the topic that gets the alarms; none if empty.",
                },
            },
            "data": {
                "aws_caller_identity": {"current": {}},
                "aws_partition": {"current": {}},
                "aws_region": {"current": {}},
            },
            "resource": self.resources,
            **({"output": self.outputs} if self.outputs else {}),
        }

    def _add(self, kind: str, name: str, block: Block) -> str:
        """Add a resource and return its address."""
        own = self.ids.snake(kind, name)
        self.resources.setdefault(kind, {})[own] = block
        return f"{kind}.{own}"

    def _address(self, kind: str, name: str) -> str:
        return f"{kind}.{self.ids.snake(kind, name)}"

    # -- tables, queues, topics

    def _table(self, table: TableNeed) -> None:
        if table.existing:
            return
        hash_key, *range_key = table.key.names
        block: Block = {
            "name": table.name,
            "billing_mode": "PAY_PER_REQUEST",
            "hash_key": hash_key,
            **({"range_key": range_key[0]} if range_key else {}),
            "attribute": [
                {"name": name, "type": kind} for name, kind in zip(table.key.names, table.key.types, strict=True)
            ],
            "point_in_time_recovery": {"enabled": True},
            **({"ttl": {"attribute_name": table.ttl, "enabled": True}} if table.ttl is not None else {}),
            **_STAYS,
        }
        self._add("aws_dynamodb_table", table.name, block)

    def _queue(self, queue: QueueNeed) -> None:
        if not queue.made:
            return
        policy: Block = {}
        if queue.give_up_to is not None:
            redrive = {
                "deadLetterTargetArn": self._queue_arn(queue.give_up_to),
                "maxReceiveCount": queue.max_receive_count,
            }
            policy = {"redrive_policy": json.dumps(redrive)}
        block: Block = {
            "name": queue.name,
            **({"fifo_queue": True} if queue.fifo else {}),
            "visibility_timeout_seconds": queue.visibility,
            "message_retention_seconds": queue.retention,
            "sqs_managed_sse_enabled": True,
            **policy,
            **(_STAYS if queue.role in (Role.DEAD_LETTERS, Role.KILLED) else {}),
        }
        self._add("aws_sqs_queue", queue.name, block)

    def _topic(self, topic: TopicNeed) -> None:
        if not topic.existing:
            self._add("aws_sns_topic", topic.arn, {"name": topic.name, **({"fifo_topic": True} if topic.fifo else {})})

    def _fed(self, queue: QueueNeed) -> None:
        """Let topics and rules send to a queue."""
        feeding: list[tuple[str, str]] = []
        for arn in queue.topics:
            topic = next(one for one in self.needed.topics if one.arn == arn)
            found = _text(arn) if topic.existing else f"${{{self._address('aws_sns_topic', arn)}.arn}}"
            feeding.append(("sns.amazonaws.com", found))
            subscription = {"topic_arn": found, "protocol": "sqs", "endpoint": self._queue_arn(queue.name)}
            self._add("aws_sns_topic_subscription", f"{queue.name} {arn}", subscription)
        for bus in queue.rules:
            own = f"{queue.name} {bus}"
            pattern = {"source": [_text(bus.source)], "detail-type": [_text(bus.detail_type)]}
            block = {"event_bus_name": _text(bus.name), "event_pattern": json.dumps(pattern, ensure_ascii=False)}
            rule = self._add("aws_cloudwatch_event_rule", own, block)
            target = {
                "rule": f"${{{rule}.name}}",
                "event_bus_name": _text(bus.name),
                "arn": self._queue_arn(queue.name),
            }
            self._add("aws_cloudwatch_event_target", own, target)
            feeding.append(("events.amazonaws.com", f"${{{rule}.arn}}"))
        if feeding and queue.made:
            statements = [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": service},
                    "Action": "sqs:SendMessage",
                    "Resource": self._queue_arn(queue.name),
                    "Condition": {"ArnEquals": {"aws:SourceArn": source}},
                }
                for service, source in feeding
            ]
            block = {
                "queue_url": f"${{{self._address('aws_sqs_queue', queue.name)}.id}}",
                "policy": json.dumps({"Version": _VERSION, "Statement": statements}),
            }
            self._add("aws_sqs_queue_policy", queue.name, block)

    # -- the scheduler

    def _scheduler(self) -> None:
        if not self.needed.long_delays:
            return
        if self.needed.scheduler_group != "default":
            self._add("aws_scheduler_schedule_group", _SCHEDULER, {"name": self.needed.scheduler_group})
        if self.needed.scheduler_role is None:
            targets = [self._queue_arn(queue.name) for queue in self.needed.schedule_targets()]
            allowed = [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": targets}]
            self._role(_SCHEDULER, "flowguard-scheduler-", "scheduler.amazonaws.com", allowed)

    # -- functions

    def _function(self, function: FunctionNeed) -> None:
        role: str | None = function.role
        if role is None:
            statements = [
                {"Effect": "Allow", "Action": [*one.actions], "Resource": [self._arn(arn) for arn in one.arns]}
                for one in statements_of(self.needed, function)
            ]
            own = self._role(function.name, f"{function.name[:37]}-", "lambda.amazonaws.com", statements)
            role = f"${{{own}.arn}}"
            for policy in function.policies:
                attachment = {"role": f"${{{own}.name}}", "policy_arn": policy}
                self._add("aws_iam_role_policy_attachment", f"{function.name} {policy}", attachment)
        logs = self._add(
            "aws_cloudwatch_log_group",
            function.name,
            {"name": f"/aws/lambda/{function.name}", "retention_in_days": self.options.log_retention},
        )
        environment = dict(function.environment)
        if "FLOWGUARD_SCHEDULER_GROUP" in environment:
            environment["FLOWGUARD_SCHEDULER_ROLE"] = self._arn(self._scheduler_arn())
        given = {name: one if name == "FLOWGUARD_SCHEDULER_ROLE" else _text(one) for name, one in environment.items()}
        own = self._add(
            "aws_lambda_function",
            function.name,
            {
                "function_name": function.name,
                "handler": function.found.handler,
                "runtime": self.options.runtime,
                "architectures": [self.options.architecture],
                "memory_size": function.memory,
                "timeout": function.timeout,
                "role": role,
                "s3_bucket": "${var.code_bucket}",
                "s3_key": "${var.code_key}",
                "environment": {"variables": dict(sorted(given.items()))},
                "logging_config": {"log_format": "JSON", "log_group": f"${{{logs}.name}}"},
            },
        )
        for name in function.reads:
            self._source(function, own, name)
        if function.has_url:
            self._url(function, own)

    def _source(self, function: FunctionNeed, own: str, queue: str) -> None:
        concurrency = function.max_concurrency
        block: Block = {
            "event_source_arn": self._queue_arn(queue),
            "function_name": f"${{{own}.arn}}",
            "batch_size": function.batch_size,
            "function_response_types": ["ReportBatchItemFailures"],
            **({"maximum_batching_window_in_seconds": function.window} if function.window else {}),
            **({"scaling_config": {"maximum_concurrency": concurrency}} if concurrency is not None else {}),
        }
        if function.role is None:  # Lambda checks the role when the mapping is made
            block["depends_on"] = [self._address("aws_iam_role_policy", function.name)]
        self._add("aws_lambda_event_source_mapping", f"{function.name} {queue}", block)

    def _url(self, function: FunctionNeed, own: str) -> None:
        block = {"function_name": f"${{{own}.function_name}}", "authorization_type": "NONE"}
        url = self._add("aws_lambda_function_url", function.name, block)
        self.outputs[self.ids.snake("output", function.name)] = {
            "description": f"Where answers for {function.name} arrive.",
            "value": f"${{{url}.function_url}}",
        }

    def _role(self, name: str, prefix: str, service: str, statements: list[Block]) -> str:
        trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
        role = self._add(
            "aws_iam_role",
            name,
            {"name_prefix": prefix, "assume_role_policy": json.dumps({"Version": _VERSION, "Statement": [trust]})},
        )
        policy = json.dumps({"Version": _VERSION, "Statement": statements}, ensure_ascii=False)
        self._add("aws_iam_role_policy", name, {"role": f"${{{role}.id}}", "name": "flowguard", "policy": policy})
        return role

    # -- what is watched

    def _metric(self, metric: LoggedMetric) -> None:
        block = {
            "name": metric.metric,
            "log_group_name": f"${{{self._address('aws_cloudwatch_log_group', metric.function)}.name}}",
            "pattern": f'{{ $.event = "{metric.event}" }}',
            "metric_transformation": {"namespace": NAMESPACE, "name": metric.metric, "value": "1"},
        }
        self._add("aws_cloudwatch_log_metric_filter", metric.metric, block)

    def _alarm(self, alarm: MetricAlarm) -> None:
        block: Block = {
            "alarm_name": alarm.name,
            "alarm_description": alarm.about,
            "namespace": alarm.namespace,
            "metric_name": alarm.metric,
            **({"dimensions": dict([alarm.dimension])} if alarm.dimension is not None else {}),
            "statistic": alarm.statistic,
            "period": alarm.period,
            "evaluation_periods": alarm.periods,
            "threshold": alarm.threshold,
            "comparison_operator": "GreaterThanThreshold",
            "treat_missing_data": "notBreaching",
            "alarm_actions": '${var.alarm_topic == "" ? [] : [var.alarm_topic]}',
        }
        self._add("aws_cloudwatch_metric_alarm", alarm.name, block)

    # -- references

    def _queue_arn(self, name: str) -> str:
        queue = self.needed.queue(name)
        if queue.made:
            return f"${{{self._address('aws_sqs_queue', name)}.arn}}"
        return self._arn(queue_arn(self.needed, name))

    def _arn(self, arn: Arn) -> str:
        if arn == SCHEDULER_ROLE:
            return f"${{{self._address('aws_iam_role', _SCHEDULER)}.arn}}"
        if arn.whole is not None:
            return _text(arn.whole)
        return arn._replace(resource=_text(arn.resource)).filled(_PARTITION, _REGION, _ACCOUNT)

    def _scheduler_arn(self) -> Arn:
        given = self.needed.scheduler_role
        return SCHEDULER_ROLE if given is None else Arn(whole=given)


def _text(text: str) -> str:
    """Return a text that Terraform takes as it is."""
    return text.replace("${", "$${").replace("%{", "%%{")
