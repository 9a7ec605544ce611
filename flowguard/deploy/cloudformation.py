"""The template of a deployment for CloudFormation, and for its form SAM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from flowguard.deploy.alarms import DIMENSION, NAMESPACE, LoggedMetric, MetricAlarm
from flowguard.deploy.arns import LAMBDA, POLICY_VERSION, SCHEDULER, Arn, rule_name
from flowguard.deploy.exports import exported
from flowguard.deploy.imports import importing
from flowguard.deploy.kafka_mapping import kafka_event, kafka_properties
from flowguard.deploy.needs import (
    Deployment,
    FunctionNeed,
    QueueNeed,
    ScheduleNeed,
    StreamNeed,
    TableNeed,
    TopicNeed,
)
from flowguard.deploy.nested_stacks import BY_ITSELF, MOST_PARAMETERS, places_of, split
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

MOST_RESOURCES: Final = 500
"""Of a template. The page "CloudFormation quotas" of AWS's user guide has it."""

LARGEST_TEMPLATE: Final = 1_000_000
"""Bytes of a template that CloudFormation takes from a bucket."""

_SPLIT_IT: Final = (
    "write a nested stack for each flow, with --split DIR, or deploy flows (MODULE:FLOW) by several templates"
)


def _schema(names: Sequence[str]) -> list[Json]:
    """Return the parts of a key, its partition key first."""
    return [{"AttributeName": name, "KeyType": "RANGE" if place else "HASH"} for place, name in enumerate(names)]


def _index(index: TableIndex) -> Json:
    return {
        "IndexName": index.name,
        "KeySchema": _schema(index.names),
        "Projection": {"ProjectionType": "KEYS_ONLY" if index.keys_only else "ALL"},
    }


_WARM: Final = ("WriteUnitsPerSecond", "ReadUnitsPerSecond")
_KEEP: Final = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
_GROUP: Final = "SchedulerGroup"
_SCHEDULER: Final = "SchedulerRole"


def cloudformation(needed: Deployment, options: DeployOptions) -> str:
    """Return the template for CloudFormation."""
    return _written(whole(needed, options), options)


def whole(needed: Deployment, options: DeployOptions) -> Json:
    """Return the template for CloudFormation as a value, however large it is."""
    return _CloudFormation(needed, options).whole()


def nested(needed: Deployment, options: DeployOptions) -> dict[str, str]:
    """Return the templates of a deployment with a nested stack for each flow, by the names of their files."""
    templates = split(whole(needed, options), needed.tags, places_of(needed))
    return {
        f"{name}.json": _written(template, options, f"{name}.json", BY_ITSELF) for name, template in templates.items()
    }


def sam(needed: Deployment, options: DeployOptions) -> str:
    """Return the template for SAM. The functions' code is in the directory of the template."""
    return _written(_Sam(needed, options).whole(), options)


def _written(template: Json, options: DeployOptions, what: str = "the template", fix: str = _SPLIT_IT) -> str:
    text = json.dumps(importing(template, options.imports), indent=2, ensure_ascii=False) + "\n"
    if (count := len(template.get("Outputs", {}))) > MOST_PARAMETERS:
        raise CannotDeploy(what, (f"it has {count} outputs, and CloudFormation takes {MOST_PARAMETERS}; {fix}",))
    if (count := len(template["Resources"])) > MOST_RESOURCES:
        problem = f"it has {count} resources, and CloudFormation takes {MOST_RESOURCES}; {fix}"
        raise CannotDeploy(what, (problem,))
    if (size := len(text.encode())) > LARGEST_TEMPLATE:
        raise CannotDeploy(what, (f"it has {size:,} bytes, and CloudFormation takes {LARGEST_TEMPLATE:,}; {fix}",))
    return text


class _CloudFormation(Template):
    def __init__(self, needed: Deployment, options: DeployOptions) -> None:
        super().__init__(needed, options)
        self.resources: dict[str, Json] = {}
        self.outputs: dict[str, Json] = {}
        for label in (_SCHEDULER, _GROUP):
            self.ids.camel(label, "")  # no function's role, and no table, gets the label

    def whole(self) -> Json:
        """Return the template with all resources."""
        self.add_resources()
        if self.options.exports is not None:
            self.outputs |= exported(self.resources, self.options.exports)
        return {
            "AWSTemplateFormatVersion": "2010-09-09",
            **self.transform(),
            "Description": f"{', '.join(self.needed.names)[:900]}: made by flowguard iac",
            "Parameters": {
                **(self.code_parameters() if self.needed.functions else {}),
                "AlarmTopic": {
                    "Type": "String",
                    "Default": self.options.alarms_to,
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
                    {"AttributeName": name, "AttributeType": kind} for name, kind in key_types(table).items()
                ],
                "KeySchema": _schema(table.key.names),
                **({"GlobalSecondaryIndexes": [_index(each) for each in table.indexes]} if table.indexes else {}),
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
                "Tags": self._tags(self.needed.owners),
                **(
                    {"SSESpecification": {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": table.kms_key}}
                    if table.kms_key is not None
                    else {}
                ),
                **({"StreamSpecification": {"StreamViewType": VIEW}} if table.has_stream else {}),
                **({"WarmThroughput": warm} if (warm := warm_units(table, *_WARM)) else {}),
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
            **_KEEP,
            "Properties": {
                "QueueName": queue.name,
                **({"FifoQueue": True} if queue.fifo else {}),
                "VisibilityTimeout": queue.visibility,
                "MessageRetentionPeriod": queue.retention,
                "MaximumMessageSize": LARGEST_MESSAGE,
                **({"SqsManagedSseEnabled": True} if queue.kms_key is None else {"KmsMasterKeyId": queue.kms_key}),
                "Tags": self._tags(queue.owner),
                **({"RedrivePolicy": redrive_policy} if redrive_policy is not None else {}),
            },
        }

    def add_topic(self, topic: TopicNeed) -> None:
        self.resources[self.ids.camel("Topic", topic.arn)] = {
            "Type": "AWS::SNS::Topic",
            "Properties": {
                "TopicName": topic.name,
                **({"FifoTopic": True} if topic.fifo else {}),
                **({"KmsMasterKeyId": topic.kms_key} if topic.kms_key is not None else {}),
                "Tags": self._tags(self.needed.owners),
            },
        }

    def add_topic_policy(self, topic: TopicNeed, policy: Json) -> None:
        self.resources[self.ids.camel("TopicPolicy", topic.arn)] = {
            "Type": "AWS::SNS::TopicPolicy",
            "Properties": {"Topics": [self.topic_arn(topic)], "PolicyDocument": policy},
        }

    # -- the senders of queues

    def add_subscription(self, queue: QueueNeed, topic: TopicNeed, undelivered: QueueNeed) -> None:
        self.resources[self.ids.camel("Subscription", f"{queue.name} {topic.arn}")] = {
            "Type": "AWS::SNS::Subscription",
            **self._after_policies(queue, undelivered),
            "Properties": {
                "Protocol": "sqs",
                "TopicArn": self.topic_arn(topic),
                "Endpoint": self.queue_arn(queue.name),
                "RedrivePolicy": {"deadLetterTargetArn": self.queue_arn(undelivered.name)},
            },
        }

    def add_rule(self, queue: QueueNeed, bus: Bus, undelivered: QueueNeed) -> None:
        self.resources[self.ids.camel("Rule", f"{queue.name} {bus}")] = {
            "Type": "AWS::Events::Rule",
            **self._after_policies(queue, undelivered),
            "Properties": {
                "Name": rule_name(queue.name, bus),
                "EventBusName": bus.name,
                "EventPattern": {"source": [bus.source], "detail-type": [bus.detail_type]},
                "Tags": self._tags(queue.owner),
                "Targets": [
                    {
                        "Id": "queue",
                        "Arn": self.queue_arn(queue.name),
                        "DeadLetterConfig": {"Arn": self.queue_arn(undelivered.name)},
                    }
                ],
            },
        }

    def _after_policies(self, *queues: QueueNeed) -> Json:
        names = [self.ids.camel("QueuePolicy", name) for name in self.policies_of(*queues)]
        return {"DependsOn": names} if names else {}

    def add_queue_policy(self, queue: QueueNeed, policy: Json) -> None:
        self.resources[self.ids.camel("QueuePolicy", queue.name)] = {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {"Queues": [{"Ref": self.ids.camel("Queue", queue.name)}], "PolicyDocument": policy},
        }

    def add_secret(self, name: str) -> None:
        generated = {"PasswordLength": 64, "ExcludePunctuation": True, "ExcludeCharacters": ":,"}
        about = "The keys of flowguard's signatures: a secret alone, or id:secret,id:secret with the newest first."
        self.resources[self.ids.camel("Secret", name)] = {
            "Type": "AWS::SecretsManager::Secret",
            **_KEEP,
            "Properties": {
                "Name": name,
                "Description": about,
                "GenerateSecretString": generated,
                **self._key("KmsKeyId"),
                "Tags": self._tags(self.needed.owners),
            },
        }

    # -- the scheduler

    def add_schedule_group(self, name: str) -> None:
        properties = {"Name": name, "Tags": self._tags(self.needed.owners)}
        self.resources[_GROUP] = {"Type": "AWS::Scheduler::ScheduleGroup", **_KEEP, "Properties": properties}

    def add_scheduler_role(self, statements: Sequence[Json]) -> None:
        trust = self.trusting(SCHEDULER, self.scheduler_trust())
        self.resources[_SCHEDULER] = {**self._role(trust, statements, self.needed.owners, None), **_KEEP}
        self.outputs[f"{_SCHEDULER}Arn"] = {"Description": ABOUT_SCHEDULER, "Value": self.scheduler_role_reference()}

    def add_schedule(self, schedule: ScheduleNeed) -> None:
        self.resources[self.ids.camel("Schedule", schedule.name)] = {
            "Type": "AWS::Scheduler::Schedule",
            "Properties": {
                "Name": schedule.name,
                "GroupName": {"Ref": _GROUP} if self.makes_group else self.needed.scheduler_group,
                "ScheduleExpression": schedule.expression,
                "ScheduleExpressionTimezone": schedule.timezone,
                "State": "ENABLED" if schedule.enabled else "DISABLED",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                **self._key("KmsKeyArn"),
                "Target": {
                    "Arn": self.queue_arn(schedule.queue),
                    "RoleArn": self.scheduler_role_arn(),
                    "Input": schedule.input,
                    "DeadLetterConfig": {"Arn": self.queue_arn(schedule.undelivered)},
                },
            },
        }

    def _key(self, name: str) -> Json:
        """Return the property of that name that is the deployment's key."""
        return {name: self.needed.kms_key} if self.needed.kms_key is not None else {}

    def _tags(self, owner: str) -> list[Json]:
        return [{"Key": key, "Value": value} for key, value in self.tagged(owner).items()]

    def _role(
        self, trust: Json, statements: Sequence[Json], owner: str, name: str | None, policies: tuple[str, ...] = ()
    ) -> Json:
        boundary = self.options.permissions_boundary
        policy = {"Version": POLICY_VERSION, "Statement": [*statements]}
        return {
            "Type": "AWS::IAM::Role",
            "Properties": {
                **({"RoleName": name} if name is not None else {}),
                "AssumeRolePolicyDocument": trust,
                **({"Path": self.options.role_path} if self.options.role_path != "/" else {}),
                **({"PermissionsBoundary": boundary} if boundary is not None else {}),
                **({"ManagedPolicyArns": [*policies]} if policies else {}),
                "Tags": self._tags(owner),
                "Policies": [{"PolicyName": "flowguard", "PolicyDocument": policy}],
            },
        }

    # -- functions

    def add_function_role(self, function: FunctionNeed, statements: Sequence[Json]) -> Json:
        logical_id = self.ids.camel("Role", function.name)
        trust = self.trusting(LAMBDA, {})
        self.resources[logical_id] = self._role(
            trust, statements, function.owner, self.needed.role_name(function), function.policies
        )
        return {"Fn::GetAtt": [logical_id, "Arn"]}

    def add_log_group(self, function: FunctionNeed) -> Json:
        logs = self.ids.camel("Logs", function.name)
        self.resources[logs] = {
            "Type": "AWS::Logs::LogGroup",
            **(_KEEP if self.options.keeps_logs else {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"}),
            "Properties": {
                "LogGroupName": f"/aws/lambda/{function.name}",
                "RetentionInDays": self.options.log_retention,
                **self._key("KmsKeyId"),
                "Tags": self._tags(function.owner),
            },
        }
        return {"Ref": logs}

    def add_function(self, function: FunctionNeed, role: Any, log_group: Any) -> None:
        logical_id = self.ids.camel("Function", function.name)
        properties = self.properties(function, role, log_group)
        self.resources[logical_id] = {
            "Type": "AWS::Lambda::Function",
            **self._after_what_it_uses(function, properties),
            "Properties": {
                **properties,
                **({"TracingConfig": {"Mode": "Active"}} if self.options.tracing else {}),
                "Code": {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}},
            },
        }
        for name in function.reads:
            self.resources[self.ids.camel("Source", f"{function.name} {name}")] = {
                "Type": "AWS::Lambda::EventSourceMapping",
                "Properties": {
                    "EventSourceArn": self.queue_arn(name),
                    "FunctionName": {"Ref": logical_id},
                    **self.source(function, name),
                    "Tags": self._tags(function.owner),
                },
            }
        for stream in function.streams:
            self.resources[self._stream_id(function, stream)] = {
                "Type": "AWS::Lambda::EventSourceMapping",
                "Properties": {
                    **self._from("EventSourceArn", stream),
                    "FunctionName": {"Ref": logical_id},
                    **self.stream_source(stream),
                    **(kafka_properties(topic, function.name) if (topic := stream.kafka) is not None else {}),
                    "Tags": self._tags(function.owner),
                },
            }
        if function.has_url:
            self._url(function, logical_id)

    def _after_what_it_uses(self, function: FunctionNeed, properties: Json) -> Json:
        """Let a function wait for what it uses, but for what its properties name: it waits for that in any case."""
        named = json.dumps(properties)
        made = sorted(self.ids.camel(kind, name) for kind, name in self.made_before(function))
        labels = [label for label in made if f'"{label}"' not in named]
        return {"DependsOn": labels} if labels else {}

    def properties(self, function: FunctionNeed, role: Any, log_group: Any) -> Json:
        return {
            "FunctionName": function.name,
            "Handler": function.definition.handler,
            "Runtime": self.options.runtime,
            "Architectures": [self.options.architecture],
            "MemorySize": function.memory,
            "Timeout": function.timeout,
            "Role": role,
            "Environment": {"Variables": self.environment(function)},
            "LoggingConfig": {
                "LogFormat": "JSON",
                "LogGroup": log_group,
                "ApplicationLogLevel": self.options.log_level,
                "SystemLogLevel": SYSTEM_LOG_LEVEL,
            },
            "RecursiveLoop": LOOPS,
            **({"ReservedConcurrentExecutions": function.reserved} if function.reserved is not None else {}),
            **self._key("KmsKeyArn"),
            **({"CodeSigningConfigArn": signing} if (signing := self.options.code_signing) is not None else {}),
            **({"VpcConfig": network} if (network := self._network()) else {}),
            "Tags": self.tags(function),
        }

    def _network(self) -> Json:
        vpc = self.options.vpc
        return {} if vpc is None else {"SubnetIds": [*vpc.subnets], "SecurityGroupIds": [*vpc.security_groups]}

    def tags(self, function: FunctionNeed) -> Any:
        return self._tags(function.owner)

    @staticmethod
    def source(function: FunctionNeed, queue: str) -> Json:
        return {
            "BatchSize": function.batch_size,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            **({"MaximumBatchingWindowInSeconds": function.window} if function.window else {}),
            **(
                {"ScalingConfig": {"MaximumConcurrency": most}} if (most := function.at_once(queue)) is not None else {}
            ),
        }

    def _stream_id(self, function: FunctionNeed, stream: StreamNeed) -> str:
        return self.ids.camel("Source", f"{function.name} {stream.kind} {stream.name}")

    def _from(self, name: str, stream: StreamNeed) -> Json:
        """Return the property of that name that is a stream's ARN. A cluster of Kafka outside AWS has none."""
        return {} if stream.kafka is not None and stream.arn is None else {name: self.stream_arn(stream)}

    def stream_source(self, stream: StreamNeed) -> Json:
        return {
            "BatchSize": stream.batch_size,
            "StartingPosition": stream.start,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "BisectBatchOnFunctionError": True,
            "MaximumRecordAgeInSeconds": stream.max_age,
            "DestinationConfig": {"OnFailure": {"Destination": self.queue_arn(stream.undelivered)}},
            **({"MaximumRetryAttempts": stream.max_attempts} if stream.max_attempts is not None else {}),
            **({"MaximumBatchingWindowInSeconds": stream.window} if stream.window else {}),
            **({"ParallelizationFactor": stream.parallel} if stream.parallel > 1 else {}),
        }

    def _url(self, function: FunctionNeed, logical_id: str) -> None:
        url = self.ids.camel("Url", function.name)
        self.resources[url] = {
            "Type": "AWS::Lambda::Url",
            "Properties": {"AuthType": function.url_auth, "TargetFunctionArn": {"Ref": logical_id}},
        }
        self.outputs[url] = {"Description": function.url_note, "Value": self.url_reference(function.name)}
        if function.url_auth != "NONE":
            return
        public = {"FunctionName": {"Ref": logical_id}, "Principal": "*"}
        self.resources[self.ids.camel("UrlPermission", function.name)] = {
            "Type": "AWS::Lambda::Permission",
            "Properties": {**public, "Action": "lambda:InvokeFunctionUrl", "FunctionUrlAuthType": "NONE"},
        }
        self.resources[self.ids.camel("UrlInvokePermission", function.name)] = {
            "Type": "AWS::Lambda::Permission",
            "Properties": {**public, "Action": "lambda:InvokeFunction", "InvokedViaFunctionUrl": True},
        }

    def url_reference(self, function: str) -> Any:
        return {"Fn::GetAtt": [self.ids.camel("Url", function), "FunctionUrl"]}

    # -- what is watched

    def add_metric(self, metric: LoggedMetric) -> None:
        self.resources[self.ids.camel("Metric", metric.function)] = {
            "Type": "AWS::Logs::MetricFilter",
            "Properties": {
                "LogGroupName": {"Ref": self.ids.camel("Logs", metric.function)},
                "FilterPattern": metric.pattern,
                "MetricTransformations": [
                    {
                        "MetricNamespace": NAMESPACE,
                        "MetricName": metric.metric,
                        "MetricValue": "1",
                        "Dimensions": [{"Key": DIMENSION, "Value": f"$.{DIMENSION}"}],
                    }
                ],
            },
        }

    def add_alarm(self, alarm: MetricAlarm) -> None:
        name, value = alarm.dimension
        self.resources[self.ids.camel("Alarm", alarm.name)] = {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": alarm.name,
                "AlarmDescription": alarm.about,
                "Namespace": alarm.namespace,
                "MetricName": alarm.metric,
                "Dimensions": [{"Name": name, "Value": value}],
                "Statistic": alarm.statistic,
                "Period": alarm.period,
                "EvaluationPeriods": alarm.periods,
                "Threshold": alarm.threshold,
                "ComparisonOperator": "GreaterThanThreshold",
                "TreatMissingData": "notBreaching",
                "Tags": self._tags(self.needed.owners),
                "AlarmActions": {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]},
            },
        }

    # -- references

    def queue_reference(self, queue: QueueNeed) -> Json:
        return {"Fn::GetAtt": [self.ids.camel("Queue", queue.name), "Arn"]}

    def table_stream_reference(self, table: str) -> Json:
        return {"Fn::GetAtt": [self.ids.camel("Table", table), "StreamArn"]}

    def account_reference(self) -> Json:
        return {"Ref": "AWS::AccountId"}

    def topic_reference(self, topic: TopicNeed) -> Json:
        return {"Ref": self.ids.camel("Topic", topic.arn)}

    def function_role_reference(self, function: FunctionNeed) -> Json:
        return {"Fn::GetAtt": [self.ids.camel("Role", function.name), "Arn"]}

    def scheduler_role_reference(self) -> Json:
        return {"Fn::GetAtt": [_SCHEDULER, "Arn"]}

    def open_arn(self, arn: Arn) -> Json:
        filled = arn._replace(resource=arn.resource.replace("${", "${!"))
        return {"Fn::Sub": filled.filled("${AWS::Partition}", "${AWS::Region}", "${AWS::AccountId}")}

    def text(self, text: str) -> str:
        return text


def _event_of(stream: StreamNeed) -> str:
    """Return what SAM calls the event of a stream."""
    if stream.kafka is None:
        return stream.kind
    return "MSK" if stream.kafka.cluster is not None else "SelfManagedKafka"


_FOR_LINTERS: Final = {"cfn-lint": {"config": {"ignore_checks": ["W3005"]}}}
"""Functions wait for queues that their events name: SAM makes mappings of events, so the function itself names none."""


class _Sam(_CloudFormation):
    """The template with functions of SAM, which builds and packs their code."""

    def transform(self) -> Json:
        return {"Transform": "AWS::Serverless-2016-10-31", "Metadata": _FOR_LINTERS}

    def code_parameters(self) -> Json:
        return {}

    def tags(self, function: FunctionNeed) -> Any:
        return self.tagged(function.owner)

    def add_function(self, function: FunctionNeed, role: Any, log_group: Any) -> None:
        logical_id = self.ids.camel("Function", function.name)
        events = {
            self.ids.camel("Source", f"{function.name} {name}"): {
                "Type": "SQS",
                "Properties": {"Queue": self.queue_arn(name), **self.source(function, name)},
            }
            for name in function.reads
        }
        for stream in function.streams:
            events[self._stream_id(function, stream)] = {
                "Type": _event_of(stream),
                "Properties": {
                    **self._from("Stream", stream),
                    **self.stream_source(stream),
                    **(kafka_event(topic, function.name) if (topic := stream.kafka) is not None else {}),
                },
            }
        properties = self.properties(function, role, log_group)
        self.resources[logical_id] = {
            "Type": "AWS::Serverless::Function",
            **self._after_what_it_uses(function, properties),
            "Properties": {
                **properties,
                "CodeUri": ".",
                **({"Tracing": "Active"} if self.options.tracing else {}),
                **({"Events": events} if events else {}),
                **({"FunctionUrlConfig": {"AuthType": function.url_auth}} if function.has_url else {}),
            },
        }
        if function.has_url:
            self.outputs[self.ids.camel("Url", function.name)] = {
                "Description": function.url_note,
                "Value": self.url_reference(function.name),
            }

    def url_reference(self, function: str) -> Any:
        return {"Fn::GetAtt": [f"{self.ids.camel('Function', function)}Url", "FunctionUrl"]}
