"""The template of a deployment for CloudFormation, and for its form SAM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from flowguard.deploy.alarms import NAMESPACE, LoggedMetric, MetricAlarm
from flowguard.deploy.arns import Arn
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed, Role, TableNeed, TopicNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.template import POLICY_VERSION, Json, Template
from flowguard.destinations import Bus

_KEEP: Final = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
_GROUP: Final = "SchedulerGroup"
_SCHEDULER: Final = "SchedulerRole"


def cloudformation(needed: Deployment, options: DeployOptions) -> str:
    """Return the template for CloudFormation."""
    return _written(_CloudFormation(needed, options).whole())


def sam(needed: Deployment, options: DeployOptions) -> str:
    """Return the template for SAM. The functions' code is in the directory of the template."""
    return _written(_Sam(needed, options).whole())


def _written(template: Json) -> str:
    return json.dumps(template, indent=2, ensure_ascii=False) + "\n"


class _CloudFormation(Template):
    def __init__(self, needed: Deployment, options: DeployOptions) -> None:
        super().__init__(needed, options)
        self.resources: dict[str, Json] = {}
        self.outputs: dict[str, Json] = {}

    def whole(self) -> Json:
        """Return the template with all resources."""
        self.add_resources()
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

    def add_table(self, table: TableNeed) -> None:
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

    def add_queue(self, queue: QueueNeed, redrive_policy: Json | None) -> None:
        self.resources[self.ids.camel("Queue", queue.name)] = {
            "Type": "AWS::SQS::Queue",
            **(_KEEP if queue.role in (Role.DEAD_LETTERS, Role.KILLED) else {}),
            "Properties": {
                "QueueName": queue.name,
                **({"FifoQueue": True} if queue.fifo else {}),
                "VisibilityTimeout": queue.visibility,
                "MessageRetentionPeriod": queue.retention,
                "SqsManagedSseEnabled": True,
                **({"RedrivePolicy": redrive_policy} if redrive_policy is not None else {}),
            },
        }

    def add_topic(self, topic: TopicNeed) -> None:
        self.resources[self.ids.camel("Topic", topic.arn)] = {
            "Type": "AWS::SNS::Topic",
            "Properties": {"TopicName": topic.name, **({"FifoTopic": True} if topic.fifo else {})},
        }

    # -- the senders of queues

    def add_subscription(self, queue: QueueNeed, topic: TopicNeed, topic_arn: Any) -> None:
        self.resources[self.ids.camel("Subscription", f"{queue.name} {topic.arn}")] = {
            "Type": "AWS::SNS::Subscription",
            "Properties": {"Protocol": "sqs", "TopicArn": topic_arn, "Endpoint": self.queue_arn(queue.name)},
        }

    def add_rule(self, queue: QueueNeed, bus: Bus) -> Json:
        name = self.ids.camel("Rule", f"{queue.name} {bus}")
        self.resources[name] = {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventBusName": bus.name,
                "EventPattern": {"source": [bus.source], "detail-type": [bus.detail_type]},
                "Targets": [{"Id": "queue", "Arn": self.queue_arn(queue.name)}],
            },
        }
        return {"Fn::GetAtt": [name, "Arn"]}

    def add_queue_policy(self, queue: QueueNeed, policy: Json) -> None:
        self.resources[self.ids.camel("QueuePolicy", queue.name)] = {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {"Queues": [{"Ref": self.ids.camel("Queue", queue.name)}], "PolicyDocument": policy},
        }

    # -- the scheduler

    def add_schedule_group(self, name: str) -> None:
        self.resources[_GROUP] = {"Type": "AWS::Scheduler::ScheduleGroup", "Properties": {"Name": name}}

    def add_scheduler_role(self, statements: Sequence[Json]) -> None:
        self.resources[_SCHEDULER] = _role("scheduler.amazonaws.com", statements)

    # -- functions

    def add_function_role(self, function: FunctionNeed, statements: Sequence[Json]) -> Json:
        own = self.ids.camel("Role", function.name)
        self.resources[own] = _role("lambda.amazonaws.com", statements, function.policies)
        return {"Fn::GetAtt": [own, "Arn"]}

    def add_log_group(self, function: FunctionNeed) -> Json:
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
        return {"Ref": logs}

    def add_function(self, function: FunctionNeed, role: Any, log_group: Any) -> None:
        own = self.ids.camel("Function", function.name)
        self.resources[own] = {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                **self.properties(function, role, log_group),
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

    def properties(self, function: FunctionNeed, role: Any, log_group: Any) -> Json:
        return {
            "FunctionName": function.name,
            "Handler": function.found.handler,
            "Runtime": self.options.runtime,
            "Architectures": [self.options.architecture],
            "MemorySize": function.memory,
            "Timeout": function.timeout,
            "Role": role,
            "Environment": {"Variables": self.environment(function)},
            "LoggingConfig": {"LogFormat": "JSON", "LogGroup": log_group},
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

    def add_metric(self, metric: LoggedMetric) -> None:
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

    def add_alarm(self, alarm: MetricAlarm) -> None:
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

    def queue_reference(self, queue: QueueNeed) -> Json:
        return {"Fn::GetAtt": [self.ids.camel("Queue", queue.name), "Arn"]}

    def topic_reference(self, topic: TopicNeed) -> Json:
        return {"Ref": self.ids.camel("Topic", topic.arn)}

    def scheduler_role_reference(self) -> Json:
        return {"Fn::GetAtt": [_SCHEDULER, "Arn"]}

    def open_arn(self, arn: Arn) -> Json:
        filled = arn._replace(resource=arn.resource.replace("${", "${!"))
        return {"Fn::Sub": filled.filled("${AWS::Partition}", "${AWS::Region}", "${AWS::AccountId}")}

    def text(self, text: str) -> str:
        return text


class _Sam(_CloudFormation):
    """The template with functions of SAM, which builds and packs their code."""

    def transform(self) -> Json:
        return {"Transform": "AWS::Serverless-2016-10-31"}

    def code_parameters(self) -> Json:
        return {}

    def add_function(self, function: FunctionNeed, role: Any, log_group: Any) -> None:
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
                **self.properties(function, role, log_group),
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


def _role(service: str, statements: Sequence[Json], policies: tuple[str, ...] = ()) -> Json:
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {
                "Version": POLICY_VERSION,
                "Statement": [
                    {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"},
                ],
            },
            **({"ManagedPolicyArns": [*policies]} if policies else {}),
            "Policies": [
                {"PolicyName": "flowguard", "PolicyDocument": {"Version": POLICY_VERSION, "Statement": [*statements]}}
            ],
        },
    }
