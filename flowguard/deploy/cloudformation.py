"""The template of a deployment for CloudFormation, and for its form SAM."""

from __future__ import annotations

import json
from typing import Any, Final

from flowguard.deploy.alarms import NAMESPACE, LoggedMetric, MetricAlarm, alarms_of, metrics_of
from flowguard.deploy.arns import SCHEDULER_ROLE, Arn, queue_arn, statements_of
from flowguard.deploy.logical_ids import LogicalIds
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, Role, TableNeed, TopicNeed
from flowguard.deploy.options import DeployOptions

Json = dict[str, Any]

_VERSION: Final = "2012-10-17"
_KEEP: Final = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
_GROUP: Final = "SchedulerGroup"
_SCHEDULER: Final = "SchedulerRole"


def cloudformation(needed: Deployment, options: DeployOptions) -> str:
    """Return the template for CloudFormation."""
    return _text(_Template(needed, options).whole())


def sam(needed: Deployment, options: DeployOptions) -> str:
    """Return the template for SAM. It takes the functions' code from the directory that it is in."""
    return _text(_SamTemplate(needed, options).whole())


def _text(template: Json) -> str:
    return json.dumps(template, indent=2, ensure_ascii=False) + "\n"


class _Template:
    """Collects the resources."""

    def __init__(self, needed: Deployment, options: DeployOptions) -> None:
        self.needed = needed
        self.options = options
        self.ids = LogicalIds()
        self.resources: dict[str, Json] = {}
        self.outputs: dict[str, Json] = {}

    def whole(self) -> Json:
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
        flows = ", ".join(flow.name for flow in self.needed.flows)
        return {
            "AWSTemplateFormatVersion": "2010-09-09",
            **self.transform(),
            "Description": f"{flows[:900]}: made by flowguard iac",
            "Parameters": {
                **self.code_parameters(),
                "AlarmTopic": {
                    "Type": "String",
                    "Default": "",
                    "Description": "The ARN of the topic that gets the alarms; none if empty.",
                },
            },
            "Conditions": {"HasAlarmTopic": {"Fn::Not": [{"Fn::Equals": [{"Ref": "AlarmTopic"}, ""]}]}},
            "Resources": self.resources,
            **({"Outputs": self.outputs} if self.outputs else {}),
        }

    def transform(self) -> Json:
        return {}

    def code_parameters(self) -> Json:
        return {
            "CodeBucket": {"Type": "String", "Description": "The bucket of the functions' code."},
            "CodeKey": {"Type": "String", "Description": "The key of the functions' code in it."},
        }

    # -- tables, queues, topics

    def _table(self, table: TableNeed) -> None:
        if table.existing:
            return
        self.resources[self.ids.camel("Table", table.name)] = {
            "Type": "AWS::DynamoDB::Table",
            **_KEEP,
            "Properties": {
                "TableName": table.name,
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [
                    {"AttributeName": name, "AttributeType": kind}
                    for name, kind in zip(table.key.names, table.key.types, strict=True)
                ],
                "KeySchema": [
                    {"AttributeName": name, "KeyType": "RANGE" if place else "HASH"}
                    for place, name in enumerate(table.key.names)
                ],
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
                **(
                    {"TimeToLiveSpecification": {"AttributeName": table.ttl, "Enabled": True}}
                    if table.ttl is not None
                    else {}
                ),
            },
        }

    def _queue(self, queue: QueueNeed) -> None:
        if not queue.made:
            return
        redrive: Json = {}
        if queue.give_up_to is not None:
            policy = {
                "deadLetterTargetArn": self.queue_arn(queue.give_up_to),
                "maxReceiveCount": queue.max_receive_count,
            }
            redrive = {"RedrivePolicy": policy}
        self.resources[self.ids.camel("Queue", queue.name)] = {
            "Type": "AWS::SQS::Queue",
            **(_KEEP if queue.role in (Role.DEAD_LETTERS, Role.KILLED) else {}),
            "Properties": {
                "QueueName": queue.name,
                **({"FifoQueue": True} if queue.fifo else {}),
                "VisibilityTimeout": queue.visibility,
                "MessageRetentionPeriod": queue.retention,
                "SqsManagedSseEnabled": True,
                **redrive,
            },
        }

    def _topic(self, topic: TopicNeed) -> None:
        if not topic.existing:
            self.resources[self.ids.camel("Topic", topic.arn)] = {
                "Type": "AWS::SNS::Topic",
                "Properties": {"TopicName": topic.name, **({"FifoTopic": True} if topic.fifo else {})},
            }

    def _fed(self, queue: QueueNeed) -> None:
        """Let topics and rules send to a queue."""
        feeding: list[tuple[str, Any]] = []
        for arn in queue.topics:
            topic = next(one for one in self.needed.topics if one.arn == arn)
            found = arn if topic.existing else {"Ref": self.ids.camel("Topic", arn)}
            feeding.append(("sns.amazonaws.com", found))
            self.resources[self.ids.camel("Subscription", f"{queue.name} {arn}")] = {
                "Type": "AWS::SNS::Subscription",
                "Properties": {"Protocol": "sqs", "TopicArn": found, "Endpoint": self.queue_arn(queue.name)},
            }
        for bus in queue.rules:
            name = self.ids.camel("Rule", f"{queue.name} {bus}")
            self.resources[name] = {
                "Type": "AWS::Events::Rule",
                "Properties": {
                    "EventBusName": bus.name,
                    "EventPattern": {"source": [bus.source], "detail-type": [bus.detail_type]},
                    "Targets": [{"Id": "queue", "Arn": self.queue_arn(queue.name)}],
                },
            }
            feeding.append(("events.amazonaws.com", {"Fn::GetAtt": [name, "Arn"]}))
        if feeding and queue.made:
            self.resources[self.ids.camel("QueuePolicy", queue.name)] = {
                "Type": "AWS::SQS::QueuePolicy",
                "Properties": {
                    "Queues": [{"Ref": self.ids.camel("Queue", queue.name)}],
                    "PolicyDocument": {
                        "Version": _VERSION,
                        "Statement": [
                            {
                                "Effect": "Allow",
                                "Principal": {"Service": service},
                                "Action": "sqs:SendMessage",
                                "Resource": self.queue_arn(queue.name),
                                "Condition": {"ArnEquals": {"aws:SourceArn": source}},
                            }
                            for service, source in feeding
                        ],
                    },
                },
            }

    # -- the scheduler

    def _scheduler(self) -> None:
        if not self.needed.long_delays:
            return
        if self.needed.scheduler_group != "default":
            self.resources[_GROUP] = {
                "Type": "AWS::Scheduler::ScheduleGroup",
                "Properties": {"Name": self.needed.scheduler_group},
            }
        if self.needed.scheduler_role is None:
            targets = [self.queue_arn(queue.name) for queue in self.needed.schedule_targets()]
            allowed = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": targets}
            self.resources[_SCHEDULER] = _role("scheduler.amazonaws.com", [allowed])

    # -- functions

    def _function(self, function: FunctionNeed) -> None:
        role: Any = function.role
        if role is None:
            own = self.ids.camel("Role", function.name)
            self.resources[own] = _role(
                "lambda.amazonaws.com",
                [
                    {"Effect": "Allow", "Action": [*one.actions], "Resource": [self.arn(arn) for arn in one.arns]}
                    for one in statements_of(self.needed, function)
                ],
                function.policies,
            )
            role = {"Fn::GetAtt": [own, "Arn"]}
        logs = self.ids.camel("Logs", function.name)
        self.resources[logs] = {
            "Type": "AWS::Logs::LogGroup",
            "DeletionPolicy": "Delete",
            "UpdateReplacePolicy": "Delete",
            "Properties": {
                "LogGroupName": f"/aws/lambda/{function.name}",
                "RetentionInDays": self.options.log_retention,
            },
        }
        self.function(function, role, logs)

    def function(self, function: FunctionNeed, role: Any, logs: str) -> None:
        """Add a function with its event sources and URL."""
        own = self.ids.camel("Function", function.name)
        self.resources[own] = {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                **self.properties(function, role, logs),
                "Code": {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}},
            },
        }
        for name in function.reads:
            self.resources[self.ids.camel("Source", f"{function.name} {name}")] = {
                "Type": "AWS::Lambda::EventSourceMapping",
                "Properties": {
                    "EventSourceArn": self.queue_arn(name),
                    "FunctionName": {"Ref": own},
                    **self.source(function),
                },
            }
        if function.has_url:
            self._url(function, own)

    def properties(self, function: FunctionNeed, role: Any, logs: str) -> Json:
        environment: Json = dict(function.environment)
        if "FLOWGUARD_SCHEDULER_GROUP" in environment:
            environment["FLOWGUARD_SCHEDULER_ROLE"] = self.arn(self._scheduler_arn())
        return {
            "FunctionName": function.name,
            "Handler": function.found.handler,
            "Runtime": self.options.runtime,
            "Architectures": [self.options.architecture],
            "MemorySize": function.memory,
            "Timeout": function.timeout,
            "Role": role,
            "Environment": {"Variables": dict(sorted(environment.items()))},
            "LoggingConfig": {"LogFormat": "JSON", "LogGroup": {"Ref": logs}},
        }

    @staticmethod
    def source(function: FunctionNeed) -> Json:
        return {
            "BatchSize": function.batch_size,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            **({"MaximumBatchingWindowInSeconds": function.window} if function.window else {}),
            **(
                {"ScalingConfig": {"MaximumConcurrency": function.max_concurrency}}
                if function.max_concurrency is not None
                else {}
            ),
        }

    def _url(self, function: FunctionNeed, own: str) -> None:
        url = self.ids.camel("Url", function.name)
        self.resources[url] = {
            "Type": "AWS::Lambda::Url",
            "Properties": {"AuthType": "NONE", "TargetFunctionArn": {"Ref": own}},
        }
        public = {"FunctionName": {"Ref": own}, "Principal": "*"}
        self.resources[self.ids.camel("UrlPermission", function.name)] = {
            "Type": "AWS::Lambda::Permission",
            "Properties": {**public, "Action": "lambda:InvokeFunctionUrl", "FunctionUrlAuthType": "NONE"},
        }
        self.resources[self.ids.camel("UrlInvokePermission", function.name)] = {
            "Type": "AWS::Lambda::Permission",
            "Properties": {**public, "Action": "lambda:InvokeFunction", "InvokedViaFunctionUrl": True},
        }
        self.outputs[url] = {
            "Description": f"Where answers for {function.name} arrive.",
            "Value": {"Fn::GetAtt": [url, "FunctionUrl"]},
        }

    # -- what is watched

    def _metric(self, metric: LoggedMetric) -> None:
        self.resources[self.ids.camel("Metric", metric.metric)] = {
            "Type": "AWS::Logs::MetricFilter",
            "Properties": {
                "LogGroupName": {"Ref": self.ids.camel("Logs", metric.function)},
                "FilterPattern": f'{{ $.event = "{metric.event}" }}',
                "MetricTransformations": [
                    {"MetricNamespace": NAMESPACE, "MetricName": metric.metric, "MetricValue": "1"}
                ],
            },
        }

    def _alarm(self, alarm: MetricAlarm) -> None:
        dimensions = [] if alarm.dimension is None else [{"Name": alarm.dimension[0], "Value": alarm.dimension[1]}]
        self.resources[self.ids.camel("Alarm", alarm.name)] = {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": alarm.name,
                "AlarmDescription": alarm.about,
                "Namespace": alarm.namespace,
                "MetricName": alarm.metric,
                **({"Dimensions": dimensions} if dimensions else {}),
                "Statistic": alarm.statistic,
                "Period": alarm.period,
                "EvaluationPeriods": alarm.periods,
                "Threshold": alarm.threshold,
                "ComparisonOperator": "GreaterThanThreshold",
                "TreatMissingData": "notBreaching",
                "AlarmActions": {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]},
            },
        }

    # -- references

    def queue_arn(self, name: str) -> Any:
        queue = self.needed.queue(name)
        if queue.made:
            return {"Fn::GetAtt": [self.ids.camel("Queue", name), "Arn"]}
        return self.arn(queue_arn(self.needed, name))

    def arn(self, arn: Arn) -> Any:
        if arn == SCHEDULER_ROLE:
            return {"Fn::GetAtt": [_SCHEDULER, "Arn"]}
        if arn.whole is not None:
            return arn.whole
        filled = arn._replace(resource=arn.resource.replace("${", "${!"))
        return {"Fn::Sub": filled.filled("${AWS::Partition}", "${AWS::Region}", "${AWS::AccountId}")}

    def _scheduler_arn(self) -> Arn:
        given = self.needed.scheduler_role
        return SCHEDULER_ROLE if given is None else Arn(whole=given)


class _SamTemplate(_Template):
    """The same with SAM's functions, which SAM builds and packs itself."""

    def transform(self) -> Json:
        return {"Transform": "AWS::Serverless-2016-10-31"}

    def code_parameters(self) -> Json:
        return {}

    def function(self, function: FunctionNeed, role: Any, logs: str) -> None:
        own = self.ids.camel("Function", function.name)
        events = {
            self.ids.camel("Source", f"{function.name} {name}"): {
                "Type": "SQS",
                "Properties": {"Queue": self.queue_arn(name), **self.source(function)},
            }
            for name in function.reads
        }
        self.resources[own] = {
            "Type": "AWS::Serverless::Function",
            "Properties": {
                **self.properties(function, role, logs),
                "CodeUri": ".",
                **({"Events": events} if events else {}),
                **({"FunctionUrlConfig": {"AuthType": "NONE"}} if function.has_url else {}),
            },
        }
        if function.has_url:
            self.outputs[self.ids.camel("Url", function.name)] = {
                "Description": f"Where answers for {function.name} arrive.",
                "Value": {"Fn::GetAtt": [f"{own}Url", "FunctionUrl"]},
            }


def _role(service: str, statements: list[Json], policies: tuple[str, ...] = ()) -> Json:
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {
                "Version": _VERSION,
                "Statement": [
                    {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"},
                ],
            },
            **({"ManagedPolicyArns": [*policies]} if policies else {}),
            "Policies": [{"PolicyName": "flowguard", "PolicyDocument": {"Version": _VERSION, "Statement": statements}}],
        },
    }
