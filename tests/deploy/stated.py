"""What a template says of a deployment, in one form for CloudFormation, SAM and Terraform.

A statement is found by the kind and the name of what it is about. References are written as ``<kind name>``, and the
placeholders of an account as ``{account}``. An argument that has no place here fails: nothing is left out by mistake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Facts = dict[tuple[str, str], dict[str, Any]]


def stated(template: Mapping[str, Any]) -> Facts:
    """Everything that a template says."""
    return _terraform(template["resource"]) if "resource" in template else _cloudformation(template["Resources"])


# -- CloudFormation and SAM

_KINDS: Final = {
    "AWS::DynamoDB::Table": ("table", "TableName"),
    "AWS::SQS::Queue": ("queue", "QueueName"),
    "AWS::SNS::Topic": ("topic", "TopicName"),
    "AWS::Lambda::Function": ("function", "FunctionName"),
    "AWS::Serverless::Function": ("function", "FunctionName"),
    "AWS::Logs::LogGroup": ("logs", "LogGroupName"),
    "AWS::SecretsManager::Secret": ("secret", "Name"),
    "AWS::Scheduler::ScheduleGroup": ("group", "Name"),
    "AWS::Events::Rule": ("rule", "Name"),
    "AWS::CloudWatch::Alarm": ("alarm", "AlarmName"),
}
_PLACES: Final = {
    "${AWS::Partition}": "{partition}",
    "${AWS::Region}": "{region}",
    "${AWS::AccountId}": "{account}",
    "${!": "${",
}
ALONE: Final = ("permission", "order")
"""Kinds that a format has for itself: SAM and Terraform add permissions, and Terraform says more of the order."""


def _named_by(resource: Mapping[str, Any], resources: Mapping[str, Any]) -> Iterator[str]:
    """What a function waits for without a word, since its properties name it. Those of SAM's events are mappings'."""
    if resource["Type"] in ("AWS::Lambda::Function", "AWS::Serverless::Function"):
        text = json.dumps({name: value for name, value in resource["Properties"].items() if name != "Events"})
        used = ("AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::SNS::Topic")
        yield from (key for key, each in resources.items() if each["Type"] in used and f'"{key}"' in text)


def _cloudformation(resources: Mapping[str, Any]) -> Facts:
    names = {key: _name_of(one, key, resources) for key, one in resources.items()}
    facts: Facts = {}
    for key, resource in resources.items():
        own = _resolved(resource["Properties"], names)
        after = sorted(names[one] for one in (*resource.get("DependsOn", ()), *_named_by(resource, resources)))
        kept = (resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy"))
        facts |= _of_cloudformation(resource["Type"], names[key], own, after)
        if resource["Type"] == "AWS::Logs::LogGroup":
            assert None not in kept, key
        if kept not in ((None, None), ("Delete", "Delete")):
            assert kept == ("RetainExceptOnCreate", "Retain"), key
            facts[_key(names[key])]["stays"] = True
    return facts


def _name_of(resource: Mapping[str, Any], key: str, resources: Mapping[str, Any]) -> str:
    """The name by which others refer to it."""
    kind, name = _KINDS.get(resource["Type"], (key, ""))
    if name:
        return f"<{kind} {resource['Properties'][name]}>"
    if resource["Type"] == "AWS::SQS::QueuePolicy":
        [queue] = resource["Properties"]["Queues"]
        return f"<policy {resources[queue['Ref']]['Properties']['QueueName']}>"
    if resource["Type"] == "AWS::IAM::Role":
        owners = (one["Properties"] for one in resources.values() if one["Type"].endswith("::Function"))
        return next((f"<role {one['FunctionName']}>" for one in owners if one["Role"] == _arn(key)), "<role scheduler>")
    return f"<{key} it>"


def _arn(key: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [key, "Arn"]}


def _resolved(value: Any, names: Mapping[str, str]) -> Any:  # noqa: PLR0911 - a case for each form of a reference
    match value:
        case {"Fn::GetAtt": [str(key), "FunctionUrl"]}:
            return f"<url {names.get(key, key)}>" if "function" in names.get(key, "") else "<url>"
        case {"Fn::GetAtt": [str(key), _]}:
            return names.get(key, f"<{key}>")
        case {"Ref": "AWS::AccountId"}:
            return "{account}"
        case {"Ref": str(key)}:
            return names.get(key, f"<{key}>")
        case {"Fn::Sub": str(text)}:
            for place, plain in _PLACES.items():
                text = text.replace(place, plain)
            return text
        case {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]}:
            return "the alarm topic"
        case dict():
            return {name: _resolved(one, names) for name, one in value.items()}
        case list():
            return [_resolved(one, names) for one in value]
        case _:
            return value


def _of_cloudformation(  # noqa: C901, PLR0911, PLR0912 - a case for each type of resource
    kind: str, name: str, own: dict[str, Any], after: list[str]
) -> Facts:
    if kind in _KINDS and kind not in ("AWS::Events::Rule", "AWS::Serverless::Function", "AWS::Lambda::Function"):
        return {_key(name): _plain_tags(own)}
    match kind:
        case "AWS::Lambda::Function":
            assert own.pop("Code") == {"S3Bucket": "<CodeBucket>", "S3Key": "<CodeKey>"}
            return {_key(name): _plain_tags(own), ("order", name): {"after": after}}
        case "AWS::Serverless::Function":
            return {**_of_sam(name, own), ("order", name): {"after": after}}
        case "AWS::Events::Rule":
            [target] = own.pop("Targets")
            assert target.pop("Id") == "queue"
            return {_key(name): {**_plain_tags(own), **target, "after": after}}
        case "AWS::SNS::Subscription":
            return {("subscription", f"{own['Endpoint']} {own['TopicArn']}"): {**own, "after": after}}
        case "AWS::SNS::TopicPolicy":
            [topic] = own["Topics"]
            return {("topic policy", topic): own["PolicyDocument"]}
        case "AWS::SQS::QueuePolicy":
            [queue] = own["Queues"]
            return {("policy", queue): own["PolicyDocument"]}
        case "AWS::IAM::Role":
            [policy] = own.pop("Policies")
            assert policy["PolicyName"] == "flowguard"
            own["Policy"] = policy["PolicyDocument"]
            return {_key(name): _plain_tags(own)}
        case "AWS::Lambda::EventSourceMapping":
            return {("source", f"{own['FunctionName']} {_brought(own)}"): _plain_tags(own)}
        case "AWS::Lambda::Url":
            return {("url", own["TargetFunctionArn"]): {"AuthType": own["AuthType"]}}
        case "AWS::Lambda::Permission":
            assert own["Principal"] == "*"
            return {("permission", f"{own['FunctionName']} {own['Action']}"): own}
        case "AWS::Scheduler::Schedule":
            return {("schedule", own["Name"]): own}
        case "AWS::Logs::MetricFilter":
            [metric] = own["MetricTransformations"]
            metric["Dimensions"] = {one["Key"]: one["Value"] for one in metric["Dimensions"]}
            return {("metric", own["LogGroupName"]): {"FilterPattern": own["FilterPattern"], **metric}}
        case _:
            raise AssertionError(f"{kind} has no place here")


_SERVICES: Final = {"SQS": "", "Kinesis": ":kinesis:", "DynamoDB": "table", "MSK": ":kafka:"}
_GROUPS: Final = {"MSK": "AmazonManagedKafkaEventSourceConfig", "SelfManagedKafka": "SelfManagedKafkaEventSourceConfig"}


def _brought(source: Mapping[str, Any]) -> str:
    """What a mapping brings."""
    outside = source.get("SelfManagedEventSource", {}).get("Endpoints", {}).get("KafkaBootstrapServers", [])
    return " ".join([source.get("EventSourceArn", ",".join(outside)), *source.get("Topics", [])])


def _of_sam(name: str, own: dict[str, Any]) -> Facts:
    assert own.pop("CodeUri") == "."
    facts: Facts = {}
    for event in own.pop("Events", {}).values():
        source = {**event["Properties"], "FunctionName": name}
        if (group := source.pop("ConsumerGroupId", None)) is not None:
            source[_GROUPS[event["Type"]]] = {"ConsumerGroupId": group}
        if event["Type"] == "SelfManagedKafka":
            source["SelfManagedEventSource"] = {
                "Endpoints": {"KafkaBootstrapServers": source.pop("KafkaBootstrapServers")}
            }
        else:
            source["EventSourceArn"] = source.pop("Queue" if event["Type"] == "SQS" else "Stream")
            assert _SERVICES[event["Type"]] in source["EventSourceArn"], event
        facts["source", f"{name} {_brought(source)}"] = source
    if (url := own.pop("FunctionUrlConfig", None)) is not None:
        facts["url", name] = url
    own["Tags"] = [{"Key": key, "Value": value} for key, value in own["Tags"].items()]
    if "Tracing" in own:
        own["TracingConfig"] = {"Mode": own.pop("Tracing")}
    return {**facts, _key(name): _plain_tags(own)}


def _key(name: str) -> tuple[str, str]:
    kind, _, rest = name[1:-1].partition(" ")
    return kind, rest


def _plain_tags(own: dict[str, Any]) -> dict[str, Any]:
    """The statements with lists of names and values as mappings."""
    own["Tags"] = {one["Key"]: one["Value"] for one in own["Tags"]}
    if "AttributeDefinitions" in own:
        types = {one["AttributeName"]: one["AttributeType"] for one in own.pop("AttributeDefinitions")}
        kinds = [one["KeyType"] for one in own["KeySchema"]]
        assert kinds == ["HASH", "RANGE"][: len(kinds)]
        own["Keys"] = [(one["AttributeName"], types[one["AttributeName"]]) for one in own.pop("KeySchema")]
        indexes = own.pop("GlobalSecondaryIndexes", [])
        assert all([key["KeyType"] for key in one["KeySchema"]] == ["HASH", "RANGE"] for one in indexes)
        own["Indexes"] = [
            (one["IndexName"], [key["AttributeName"] for key in one["KeySchema"]], one["Projection"]["ProjectionType"])
            for one in indexes
        ]
        assert types.keys() == {key for key, _ in own["Keys"]} | {key for _, keys, _ in own["Indexes"] for key in keys}
    if "Dimensions" in own:
        own["Dimensions"] = {one["Name"]: one["Value"] for one in own["Dimensions"]}
    if "GenerateSecretString" in own:
        assert own["GenerateSecretString"].pop("ExcludeCharacters") == ":,", "punctuation: Terraform leaves out all"
    return own


# -- Terraform

_ADDRESS: Final = re.compile(r"\$\{(aws_\w+)\.(\w+)\.(\w+)\}")
_DATA: Final = {
    "${data.aws_partition.current.partition}": "{partition}",
    "${data.aws_region.current.id}": "{region}",
    "${data.aws_caller_identity.current.account_id}": "{account}",
    '${var.alarm_topic == "" ? [] : [var.alarm_topic]}': "the alarm topic",
    "$${": "${",
    "%%{": "%{",
}
_TEXTS: Final = ("redrive_policy", "policy", "event_pattern", "assume_role_policy")
"""Arguments whose values are JSON in a text."""

_NAMED: Final = {
    "aws_dynamodb_table": ("table", "name"),
    "aws_sqs_queue": ("queue", "name"),
    "aws_sns_topic": ("topic", "name"),
    "aws_lambda_function": ("function", "function_name"),
    "aws_cloudwatch_log_group": ("logs", "name"),
    "aws_secretsmanager_secret": ("secret", "name"),
    "aws_scheduler_schedule_group": ("group", "name"),
    "aws_cloudwatch_event_rule": ("rule", "name"),
    "aws_cloudwatch_metric_alarm": ("alarm", "alarm_name"),
}
_ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "table": {"name": "TableName", "billing_mode": "BillingMode", "warm_throughput": "WarmThroughput"},
    "queue": {
        "name": "QueueName",
        "fifo_queue": "FifoQueue",
        "visibility_timeout_seconds": "VisibilityTimeout",
        "message_retention_seconds": "MessageRetentionPeriod",
        "max_message_size": "MaximumMessageSize",
        "sqs_managed_sse_enabled": "SqsManagedSseEnabled",
        "kms_master_key_id": "KmsMasterKeyId",
        "redrive_policy": "RedrivePolicy",
    },
    "topic": {"name": "TopicName", "fifo_topic": "FifoTopic", "kms_master_key_id": "KmsMasterKeyId"},
    "subscription": {
        "protocol": "Protocol",
        "topic_arn": "TopicArn",
        "endpoint": "Endpoint",
        "redrive_policy": "RedrivePolicy",
        "depends_on": "after",
    },
    "rule": {"name": "Name", "event_bus_name": "EventBusName", "event_pattern": "EventPattern"},
    "target": {"arn": "Arn", "dead_letter_config": "DeadLetterConfig", "depends_on": "after"},
    "secret": {"name": "Name", "description": "Description", "kms_key_id": "KmsKeyId"},
    "group": {"name": "Name"},
    "schedule": {
        "name": "Name",
        "group_name": "GroupName",
        "schedule_expression": "ScheduleExpression",
        "schedule_expression_timezone": "ScheduleExpressionTimezone",
        "state": "State",
        "kms_key_arn": "KmsKeyArn",
    },
    "role": {
        "assume_role_policy": "AssumeRolePolicyDocument",
        "path": "Path",
        "permissions_boundary": "PermissionsBoundary",
    },
    "logs": {"name": "LogGroupName", "retention_in_days": "RetentionInDays", "kms_key_id": "KmsKeyId"},
    "function": {
        "function_name": "FunctionName",
        "handler": "Handler",
        "runtime": "Runtime",
        "architectures": "Architectures",
        "memory_size": "MemorySize",
        "timeout": "Timeout",
        "role": "Role",
        "reserved_concurrent_executions": "ReservedConcurrentExecutions",
        "kms_key_arn": "KmsKeyArn",
        "code_signing_config_arn": "CodeSigningConfigArn",
    },
    "source": {
        "event_source_arn": "EventSourceArn",
        "function_name": "FunctionName",
        "batch_size": "BatchSize",
        "function_response_types": "FunctionResponseTypes",
        "maximum_batching_window_in_seconds": "MaximumBatchingWindowInSeconds",
        "starting_position": "StartingPosition",
        "bisect_batch_on_function_error": "BisectBatchOnFunctionError",
        "maximum_record_age_in_seconds": "MaximumRecordAgeInSeconds",
        "maximum_retry_attempts": "MaximumRetryAttempts",
        "parallelization_factor": "ParallelizationFactor",
        "topics": "Topics",
    },
    "alarm": {
        "alarm_name": "AlarmName",
        "alarm_description": "AlarmDescription",
        "namespace": "Namespace",
        "metric_name": "MetricName",
        "dimensions": "Dimensions",
        "statistic": "Statistic",
        "period": "Period",
        "evaluation_periods": "EvaluationPeriods",
        "threshold": "Threshold",
        "comparison_operator": "ComparisonOperator",
        "treat_missing_data": "TreatMissingData",
        "alarm_actions": "AlarmActions",
    },
}
"""The names of Terraform's arguments and of CloudFormation's properties, where the values are the same."""


def _terraform(resource: Mapping[str, Any]) -> Facts:
    blocks = {f"{kind}.{own}": block for kind, named in resource.items() for own, block in named.items()}
    roles = {block["role"]: block["function_name"] for block in resource.get("aws_lambda_function", {}).values()}
    names: dict[str, str] = {}
    for address, block in blocks.items():
        kind, argument = _NAMED.get(address.partition(".")[0], (address, ""))
        if address.startswith("aws_iam_role."):
            names[address] = f"<role {roles.get(f'${{{address}.arn}}', 'scheduler')}>"
        elif address.startswith("aws_sqs_queue_policy."):
            [queue] = _ADDRESS.findall(block["queue_url"])
            names[address] = f"<policy {resource[queue[0]][queue[1]]['name']}>"
        elif argument:
            names[address] = f"<{kind} {block[argument]}>"
    facts: Facts = {}
    for late in (False, True):  # what adds to others comes after them
        for address, block in blocks.items():
            kind = address.partition(".")[0]
            if (kind in _ADDS) is late:
                _add_terraform(facts, kind, names.get(address, ""), _read(block, names, blocks))
    return facts


_ADDS: Final = (
    *("aws_cloudwatch_event_target", "aws_iam_role_policy", "aws_iam_role_policy_attachment"),
    *("aws_lambda_function_recursion_config", "aws_secretsmanager_secret_version"),
)


def _read(value: Any, names: Mapping[str, str], blocks: Mapping[str, Any], argument: str = "") -> Any:
    match value:
        case str() if argument in _TEXTS:
            return _read(json.loads(value), names, blocks)
        case str():
            for place, plain in _DATA.items():
                value = value.replace(place, plain)
            return _ADDRESS.sub(lambda found: _reference(found, names), value)
        case dict():
            return {name: _read(one, names, blocks, name) for name, one in value.items()}
        case list() if argument == "depends_on":
            return [_read(f"${{{one}.it}}", names, blocks) for one in value]
        case list():
            return [_read(one, names, blocks) for one in value]
        case _:
            return value


def _reference(found: re.Match[str], names: Mapping[str, str]) -> str:
    address = f"{found[1]}.{found[2]}"
    return "<url>" if found[1] == "aws_lambda_function_url" else names.get(address, f"<{address} it>")


def _add_terraform(  # noqa: C901, PLR0912, PLR0915 - a case for each type of resource
    facts: Facts, kind: str, name: str, own: dict[str, Any]
) -> None:
    """Add what one block says. What is left of it in the end has no place here."""
    stays = {"prevent_destroy": True} if own.pop("skip_destroy", False) else own.pop("lifecycle", None)
    match kind:
        case "aws_dynamodb_table":
            types = {one["name"]: one["type"] for one in own.pop("attribute")}
            keys = [own.pop("hash_key"), *([own.pop("range_key")] if "range_key" in own else [])]
            made = _renamed("table", own)
            made["Keys"] = [(key, types[key]) for key in keys]
            made["Indexes"] = [
                (one["name"], [one["hash_key"], one["range_key"]], one["projection_type"])
                for one in own.pop("global_secondary_index", [])
            ]
            made["PointInTimeRecoverySpecification"] = {
                "PointInTimeRecoveryEnabled": own.pop("point_in_time_recovery")["enabled"]
            }
            if own.pop("stream_enabled", False):
                made["StreamSpecification"] = {"StreamViewType": own.pop("stream_view_type")}
            if (ttl := own.pop("ttl", None)) is not None:
                made["TimeToLiveSpecification"] = {"AttributeName": ttl["attribute_name"], "Enabled": ttl["enabled"]}
            if (key := own.pop("server_side_encryption", None)) is not None:
                made["SSESpecification"] = {"SSEEnabled": key.pop("enabled"), "SSEType": "KMS"}
                made["SSESpecification"]["KMSMasterKeyId"] = key.pop("kms_key_arn")
                assert not key
            if (warm := made.get("WarmThroughput")) is not None:
                made["WarmThroughput"] = {
                    "WriteUnitsPerSecond": warm["write_units_per_second"],
                    "ReadUnitsPerSecond": warm["read_units_per_second"],
                }
            assert types.keys() == {*keys, *(key for _, indexed, _ in made["Indexes"] for key in indexed)}
        case "aws_sns_topic_subscription":
            made, name = _renamed("subscription", own), f"<subscription {own['endpoint']} {own['topic_arn']}>"
            made["after"] = sorted(made.get("after", []))
        case "aws_cloudwatch_event_target":
            rule = facts[_key(own.pop("rule"))]
            assert own.pop("event_bus_name") == rule["EventBusName"]
            dead = own.pop("dead_letter_config")
            rule |= {"Arn": own.pop("arn"), "DeadLetterConfig": {"Arn": dead["arn"]}}
            rule["after"] = sorted(own.pop("depends_on", []))
            made = {}
        case "aws_sns_topic_policy":
            facts["topic policy", own.pop("arn")] = own.pop("policy")
            made = {}
        case "aws_sqs_queue_policy":
            made, name = own.pop("policy"), f"<policy {own.pop('queue_url')}>"
        case "aws_secretsmanager_secret_version":
            secret, text = facts[_key(own.pop("secret_id"))], own.pop("secret_string_wo")
            assert text.startswith("${ephemeral.aws_secretsmanager_random_password.")
            assert own.pop("secret_string_wo_version") == 1
            secret["GenerateSecretString"] = {"PasswordLength": 64, "ExcludePunctuation": True}
            made = {}
        case "aws_iam_role":
            made = _renamed("role", own)
            if (named := own.pop("name", None)) is not None:
                made["RoleName"] = named
            else:
                assert own.pop("name_prefix")
        case "aws_iam_role_policy":
            assert own.pop("name") == "flowguard"
            role = facts[_key(own.pop("role"))]
            role["Policy"] = own.pop("policy")
            assert stays == ({"prevent_destroy": True} if "stays" in role else None), "a role is kept with its policy"
            return
        case "aws_iam_role_policy_attachment":
            facts[_key(own.pop("role"))].setdefault("ManagedPolicyArns", []).append(own.pop("policy_arn"))
            made = {}
        case "aws_lambda_function":
            facts["order", name] = {"after": own.pop("depends_on", [])}
            made = _of_function(own)
        case "aws_lambda_function_recursion_config":
            facts[_key(own.pop("function_name"))]["RecursiveLoop"] = own.pop("recursive_loop")
            made = {}
        case "aws_lambda_event_source_mapping":
            made = _renamed("source", own) | _of_kafka(own)
            name = f"<source {own['function_name']} {_brought(made)}>"
            facts["order", name] = {"after": own.pop("depends_on", [])}
            if (scaling := own.pop("scaling_config", None)) is not None:
                made["ScalingConfig"] = {"MaximumConcurrency": scaling["maximum_concurrency"]}
            if (undelivered := own.pop("destination_config", None)) is not None:
                assert undelivered.keys() == {"on_failure"}
                made["DestinationConfig"] = {"OnFailure": {"Destination": undelivered["on_failure"]["destination_arn"]}}
        case "aws_scheduler_schedule":
            name, target = f"<schedule {own['name']}>", own.pop("target")
            assert own.pop("flexible_time_window") == {"mode": "OFF"}
            made = {**_renamed("schedule", own), "FlexibleTimeWindow": {"Mode": "OFF"}}
            dead = target.pop("dead_letter_config")
            made["Target"] = {"Arn": target.pop("arn"), "RoleArn": target.pop("role_arn"), "Input": target.pop("input")}
            made["Target"]["DeadLetterConfig"] = {"Arn": dead["arn"]}
            assert not target
        case "aws_lambda_function_url":
            made, name = {"AuthType": own.pop("authorization_type")}, f"<url {own.pop('function_name')}>"
        case "aws_lambda_permission":
            name = f"<permission {own.pop('function_name')} {own['action']}>"
            made = {"Principal": own.pop("principal"), "Action": own.pop("action")}
            made["InvokedViaFunctionUrl"] = own.pop("invoked_via_function_url")
        case "aws_cloudwatch_log_metric_filter":
            name = f"<metric {own.pop('log_group_name')}>"
            metric = own.pop("metric_transformation")
            made = {
                "FilterPattern": own.pop("pattern"),
                "MetricNamespace": metric["namespace"],
                "MetricName": metric["name"],
                "MetricValue": metric["value"],
                "Dimensions": metric["dimensions"],
            }
            own.pop("name")
        case _:
            made = _renamed(_NAMED[kind][0], own)
    if "tags" in own:
        made["Tags"] = own.pop("tags")
    if stays is not None:
        assert stays == {"prevent_destroy": True}
        made["stays"] = True
    assert not {key for key in own if key not in _ARGUMENTS.get(name[1:].partition(" ")[0], {})}, f"{kind}: {own}"
    if made:
        facts[_key(name)] = made


def _of_kafka(own: dict[str, Any]) -> dict[str, Any]:
    """What a mapping says of a topic of Kafka."""
    made: dict[str, Any] = {}
    if (pollers := own.pop("provisioned_poller_config", None)) is not None:
        words = {"minimum_pollers": "MinimumPollers", "maximum_pollers": "MaximumPollers"}
        made["ProvisionedPollerConfig"] = {words[word]: count for word, count in pollers.items()}
    if (access := own.pop("source_access_configuration", None)) is not None:
        made["SourceAccessConfigurations"] = [{"Type": each["type"], "URI": each["uri"]} for each in access]
    if (outside := own.pop("self_managed_event_source", None)) is not None:
        servers = outside["endpoints"]["KAFKA_BOOTSTRAP_SERVERS"].split(",")
        made["SelfManagedEventSource"] = {"Endpoints": {"KafkaBootstrapServers": servers}}
    for whose, config in (("amazon_managed", _GROUPS["MSK"]), ("self_managed", _GROUPS["SelfManagedKafka"])):
        if (group := own.pop(f"{whose}_kafka_event_source_config", None)) is not None:
            made[config] = {"ConsumerGroupId": group["consumer_group_id"]}
    return made


def _renamed(kind: str, own: dict[str, Any]) -> dict[str, Any]:
    return {new: own[old] for old, new in _ARGUMENTS[kind].items() if old in own}


def _of_function(own: dict[str, Any]) -> dict[str, Any]:
    assert (own.pop("s3_bucket"), own.pop("s3_key")) == ("${var.code_bucket}", "${var.code_key}")
    made = _renamed("function", own)
    made["Environment"] = {"Variables": own.pop("environment")["variables"]}
    if (tracing := own.pop("tracing_config", None)) is not None:
        made["TracingConfig"] = {"Mode": tracing.pop("mode")}
        assert not tracing
    if (network := own.pop("vpc_config", None)) is not None:
        made["VpcConfig"] = {
            "SubnetIds": network.pop("subnet_ids"),
            "SecurityGroupIds": network.pop("security_group_ids"),
        }
        assert not network
    logging = own.pop("logging_config")
    made["LoggingConfig"] = {
        "LogFormat": logging.pop("log_format"),
        "LogGroup": logging.pop("log_group"),
        "ApplicationLogLevel": logging.pop("application_log_level"),
        "SystemLogLevel": logging.pop("system_log_level"),
    }
    assert not logging
    return made
