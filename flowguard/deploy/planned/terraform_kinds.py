"""The resources of Terraform's AWS provider, as those of CloudFormation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from flowguard.deploy.planned.managed_policies import of_aws
from flowguard.deploy.planned.resources import KINDS, REDRIVE_IS_GIVEN, Resource, queue_url
from flowguard.deploy.planned.tags import as_list
from flowguard.deploy.planned.values import UNKNOWN

Block = Mapping[str, Any]


class Placed(NamedTuple):
    """A block of a plan with its address and type. ``place`` is its provider, with the region where it names one.

    ``given`` are the arguments that refer to variables, to data or to outputs of modules.
    """

    address: str
    type: str
    block: Block
    place: str = ""
    given: frozenset[str] = frozenset()


TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "aws_cloudwatch_event_bus": ("AWS::Events::EventBus", "name"),
    "aws_cloudwatch_event_rule": ("AWS::Events::Rule", "name"),
    "aws_cloudwatch_event_target": ("", ""),
    "aws_cloudwatch_log_group": ("AWS::Logs::LogGroup", "name"),
    "aws_dynamodb_table": ("AWS::DynamoDB::Table", "name"),
    "aws_iam_policy": ("AWS::IAM::ManagedPolicy", "name"),
    "aws_iam_policy_attachment": ("", ""),
    "aws_iam_role": ("AWS::IAM::Role", "name"),
    "aws_iam_role_policy": ("AWS::IAM::RolePolicy", ""),
    "aws_iam_role_policy_attachment": ("", ""),
    "aws_kms_alias": ("AWS::KMS::Alias", ""),
    "aws_kms_key": ("AWS::KMS::Key", "key_id"),
    "aws_kms_key_policy": ("", ""),
    "aws_kinesis_stream": ("AWS::Kinesis::Stream", "name"),
    "aws_lambda_event_source_mapping": ("AWS::Lambda::EventSourceMapping", ""),
    "aws_lambda_function": ("AWS::Lambda::Function", "function_name"),
    "aws_lambda_function_recursion_config": ("", ""),
    "aws_lambda_function_url": ("AWS::Lambda::Url", ""),
    "aws_pipes_pipe": ("AWS::Pipes::Pipe", "name"),
    "aws_s3_bucket": ("AWS::S3::Bucket", "bucket"),
    "aws_s3_bucket_server_side_encryption_configuration": ("", ""),
    "aws_scheduler_schedule": ("AWS::Scheduler::Schedule", "name"),
    "aws_scheduler_schedule_group": ("AWS::Scheduler::ScheduleGroup", "name"),
    "aws_secretsmanager_secret": ("AWS::SecretsManager::Secret", "name"),
    "aws_sns_topic": ("AWS::SNS::Topic", "name"),
    "aws_sns_topic_policy": ("AWS::SNS::TopicPolicy", ""),
    "aws_sns_topic_subscription": ("AWS::SNS::Subscription", ""),
    "aws_sqs_queue": ("AWS::SQS::Queue", "name"),
    "aws_sqs_queue_policy": ("AWS::SQS::QueuePolicy", ""),
    "aws_sqs_queue_redrive_policy": ("", ""),
}
"""CloudFormation's type of each that is looked at, and the argument with its name. Some are part of another one."""

_JSON: Final = frozenset({"assume_role_policy", "event_pattern", "filter_policy", "policy", "redrive_policy"})
"""The arguments that are JSON in a text."""

_RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "aws_cloudwatch_event_rule": {"event_pattern": "EventPattern", "state": "State"},
    "aws_cloudwatch_log_group": {"retention_in_days": "RetentionInDays", "kms_key_id": "KmsKeyId"},
    "aws_dynamodb_table": {
        "stream_view_type": "StreamSpecification.StreamViewType",
        "ttl.enabled": "TimeToLiveSpecification.Enabled",
        "ttl.attribute_name": "TimeToLiveSpecification.AttributeName",
        "point_in_time_recovery.enabled": "PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled",
        "server_side_encryption.kms_key_arn": "SSESpecification.KMSMasterKeyId",
    },
    "aws_iam_policy": {"policy": "PolicyDocument"},
    "aws_iam_role": {
        "assume_role_policy": "AssumeRolePolicyDocument",
        "path": "Path",
        "permissions_boundary": "PermissionsBoundary",
        "managed_policy_arns": "ManagedPolicyArns",
    },
    "aws_iam_role_policy": {"role": "RoleName", "policy": "PolicyDocument"},
    "aws_kms_alias": {"name": "AliasName", "target_key_id": "TargetKeyId"},
    "aws_kms_key": {"policy": "KeyPolicy"},
    "aws_kinesis_stream": {"retention_period": "RetentionPeriodHours"},
    "aws_scheduler_schedule": {
        "schedule_expression": "ScheduleExpression",
        "schedule_expression_timezone": "ScheduleExpressionTimezone",
        "state": "State",
        "end_date": "EndDate",
        "flexible_time_window.mode": "FlexibleTimeWindow.Mode",
        "target.arn": "Target.Arn",
        "target.input": "Target.Input",
        "target.role_arn": "Target.RoleArn",
    },
    "aws_lambda_event_source_mapping": {
        "event_source_arn": "EventSourceArn",
        "function_name": "FunctionName",
        "batch_size": "BatchSize",
        "enabled": "Enabled",
        "function_response_types": "FunctionResponseTypes",
        "filter_criteria.filter": "FilterCriteria.Filters",
        "maximum_batching_window_in_seconds": "MaximumBatchingWindowInSeconds",
        "provisioned_poller_config.minimum_pollers": "ProvisionedPollerConfig.MinimumPollers",
        "provisioned_poller_config.maximum_pollers": "ProvisionedPollerConfig.MaximumPollers",
        "topics": "Topics",
        "self_managed_event_source.endpoints": "SelfManagedEventSource.Endpoints",
        "amazon_managed_kafka_event_source_config.consumer_group_id": (
            "AmazonManagedKafkaEventSourceConfig.ConsumerGroupId"
        ),
        "self_managed_kafka_event_source_config.consumer_group_id": (
            "SelfManagedKafkaEventSourceConfig.ConsumerGroupId"
        ),
        "starting_position": "StartingPosition",
        "scaling_config.maximum_concurrency": "ScalingConfig.MaximumConcurrency",
        "bisect_batch_on_function_error": "BisectBatchOnFunctionError",
        "maximum_record_age_in_seconds": "MaximumRecordAgeInSeconds",
        "maximum_retry_attempts": "MaximumRetryAttempts",
        "tumbling_window_in_seconds": "TumblingWindowInSeconds",
        "destination_config.on_failure.destination_arn": "DestinationConfig.OnFailure.Destination",
    },
    "aws_lambda_function": {
        "handler": "Handler",
        "runtime": "Runtime",
        "reserved_concurrent_executions": "ReservedConcurrentExecutions",
        "timeout": "Timeout",
        "role": "Role",
        "environment.variables": "Environment.Variables",
        "logging_config.log_format": "LoggingConfig.LogFormat",
        "logging_config.application_log_level": "LoggingConfig.ApplicationLogLevel",
        "kms_key_arn": "KmsKeyArn",
        "code_signing_config_arn": "CodeSigningConfigArn",
        "tracing_config.mode": "TracingConfig.Mode",
        "vpc_config.subnet_ids": "VpcConfig.SubnetIds",
        "vpc_config.security_group_ids": "VpcConfig.SecurityGroupIds",
    },
    "aws_lambda_function_url": {"function_name": "TargetFunctionArn", "authorization_type": "AuthType"},
    "aws_pipes_pipe": {"source": "Source"},
    "aws_secretsmanager_secret": {"kms_key_id": "KmsKeyId"},
    "aws_sns_topic": {"kms_master_key_id": "KmsMasterKeyId"},
    "aws_sns_topic_policy": {"policy": "PolicyDocument"},
    "aws_sns_topic_subscription": {
        "topic_arn": "TopicArn",
        "protocol": "Protocol",
        "endpoint": "Endpoint",
        "redrive_policy": "RedrivePolicy",
        "raw_message_delivery": "RawMessageDelivery",
        "filter_policy": "FilterPolicy",
    },
    "aws_sqs_queue_policy": {"policy": "PolicyDocument"},
    "aws_sqs_queue": {
        "delay_seconds": "DelaySeconds",
        "fifo_queue": "FifoQueue",
        "visibility_timeout_seconds": "VisibilityTimeout",
        "message_retention_seconds": "MessageRetentionPeriod",
        "max_message_size": "MaximumMessageSize",
        "kms_master_key_id": "KmsMasterKeyId",
        "redrive_policy": "RedrivePolicy",
    },
}
"""The property that each argument of a type is. Dots lead into blocks."""


def made_of(blocks: Iterable[Placed]) -> Iterator[Resource]:
    """Return the resources that blocks make. Some blocks only add to another one, such as a queue's redrive policy."""
    resources, parts = [], []
    for address, type_, block, place, given in blocks:
        kind, name = TYPES[type_]
        mark = {REDRIVE_IS_GIVEN: True} if "redrive_policy" in given else {}
        if not kind:
            parts.append((address, type_, {**block, **mark}))
            continue
        properties = {**_properties(type_, block), **mark}
        if name in block:
            properties[KINDS[kind].name] = block[name]
        resources.append(Resource(address, kind, properties, place))
        if type_ == "aws_sqs_queue" and block.get("policy"):
            resources.append(_own_policy(address, block))
        if type_ == "aws_sns_topic" and block.get("policy"):
            arn = Resource(address, kind, properties, place).arn
            topics = arn if arn is UNKNOWN else [arn]
            stated = {"Topics": topics, "PolicyDocument": _parsed(block["policy"])}
            resources.append(Resource(address, "AWS::SNS::TopicPolicy", stated))
    for address, type_, block in parts:
        _PARTS[type_](address, block, resources)
    return iter(resources)


def _own_policy(address: str, block: Block) -> Resource:
    """Return the policy that a queue has as an argument."""
    name = block.get("name", UNKNOWN)
    queues = UNKNOWN if name is UNKNOWN else [queue_url(name)]
    return Resource(address, "AWS::SQS::QueuePolicy", {"Queues": queues, "PolicyDocument": _parsed(block["policy"])})


_TAGGED: Final = ("aws_dynamodb_table", "aws_iam_role", "aws_lambda_function", "aws_sqs_queue")
"""What is looked at for its tags."""


def _properties(type_: str, block: Block) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for argument, name in _RENAMED.get(type_, {}).items():
        value = _at(block, argument)
        if value is not None:
            _put(properties, name, _parsed(value) if argument in _JSON else value)
    if type_ == "aws_dynamodb_table":
        properties |= _keys(block)
        if block.get("stream_enabled") is False:
            properties.pop("StreamSpecification", None)
    if type_ == "aws_sqs_queue_policy":
        url = block.get("queue_url", UNKNOWN)
        properties["Queues"] = url if url is UNKNOWN else [url]
    if type_ == "aws_sns_topic_policy":
        arn = block.get("arn", UNKNOWN)
        properties["Topics"] = arn if arn is UNKNOWN else [arn]
    if type_ in _TAGGED:
        properties |= _tags(block)
    if type_ == "aws_iam_role":
        inline = block.get("inline_policy", [])
        properties["Policies"] = inline if inline is UNKNOWN else [_inline(each) for each in inline]
    return properties


def _tags(block: Block) -> dict[str, Any]:
    """Return the tags of a resource, with those that its provider adds where the plan says these."""
    every = block.get("tags_all")
    tags = every if isinstance(every, dict) else block.get("tags")
    return {} if tags is None else {"Tags": as_list(tags)}


def _at(block: Any, path: str) -> Any:
    """Return an argument. None if it is not said. A block that may be there makes it ``UNKNOWN``."""
    for part in path.split("."):
        if isinstance(block, list):
            block = block[0] if block else None
        if block is None or block is UNKNOWN:
            return block
        block = block.get(part)
    return block


def _put(properties: dict[str, Any], path: str, value: Any) -> None:
    *outer, last = path.split(".")
    for part in outer:
        properties = properties.setdefault(part, {})
    properties[last] = value


def _parsed(text: Any) -> Any:
    """Return the JSON of a text. It is ``UNKNOWN`` if the text is no JSON."""
    try:
        return json.loads(text) if isinstance(text, str) else UNKNOWN
    except ValueError:
        return UNKNOWN


def _keys(block: Block) -> dict[str, Any]:
    names = {"HASH": block.get("hash_key"), "RANGE": block.get("range_key")}
    attributes = block.get("attribute", UNKNOWN)
    return {
        **({"GlobalSecondaryIndexes": _indexes(block)} if block.get("global_secondary_index") else {}),
        "KeySchema": [{"AttributeName": name, "KeyType": kind} for kind, name in names.items() if name is not None],
        "AttributeDefinitions": attributes
        if attributes is UNKNOWN
        else [{"AttributeName": each.get("name"), "AttributeType": each.get("type")} for each in attributes],
    }


def _indexes(block: Block) -> Any:
    indexes = block["global_secondary_index"]
    if indexes is UNKNOWN:
        return UNKNOWN
    return [
        {
            "IndexName": index.get("name"),
            "KeySchema": _index_keys(index),
        }
        for index in indexes
    ]


def _index_keys(index: Block) -> Any:
    """Return the keys of an index as DynamoDB has them, of either of the two forms that the provider takes."""
    if (hash_key := index.get("hash_key")) is not None:
        keys = [("HASH", hash_key), ("RANGE", index.get("range_key"))]
    elif (blocks := index.get("key_schema", UNKNOWN)) is UNKNOWN:
        return UNKNOWN
    else:
        keys = [] if blocks is None else [(key.get("key_type"), key.get("attribute_name")) for key in blocks]
    return [{"AttributeName": name, "KeyType": kind} for kind, name in keys]


def _inline(block: Block) -> dict[str, Any]:
    return {"PolicyDocument": _parsed(block.get("policy", UNKNOWN))}


# -- blocks that are part of another resource


def _target(address: str, block: Block, resources: list[Resource]) -> None:
    """Let a rule send to a target."""
    target = {"Arn": block.get("arn", UNKNOWN)}
    named = {"Name": block.get("rule", UNKNOWN), **_given(block, "event_bus_name", "EventBusName")}
    resources.append(Resource(address, "AWS::Events::Rule", {"Targets": [target], **named}))


def _attachment(address: str, block: Block, resources: list[Resource]) -> None:
    """Give a role a policy. Where the role is open, the policy may be that of any."""
    _attach(address, [block.get("role", UNKNOWN)], block, resources)


def _attachments(address: str, block: Block, resources: list[Resource]) -> None:
    """Give several roles a policy."""
    roles = block.get("roles", [])
    _attach(address, [UNKNOWN] if roles is UNKNOWN else roles, block, resources)


def _attach(address: str, roles: list[Any], block: Block, resources: list[Resource]) -> None:
    arn = block.get("policy_arn", UNKNOWN)
    policies = [each for each in resources if each.type == "AWS::IAM::ManagedPolicy" and each.arn == arn]
    document = policies[0].properties.get("PolicyDocument", UNKNOWN) if policies else of_aws(arn)
    for role in roles:
        resources.append(Resource(address, "AWS::IAM::RolePolicy", {"RoleName": role, "PolicyDocument": document}))


def _loops(_: str, block: Block, resources: list[Resource]) -> None:
    """Say whether Lambda stops loops of a function."""
    _extend(
        resources,
        "AWS::Lambda::Function",
        block.get("function_name", UNKNOWN),
        {"RecursiveLoop": block.get("recursive_loop", UNKNOWN)},
    )


def _redrive(_: str, block: Block, resources: list[Resource]) -> None:
    """Give a queue its redrive policy."""
    url = block.get("queue_url", UNKNOWN)
    name = url if url is UNKNOWN else str(url).rpartition("/")[2]
    policy = _parsed(block.get("redrive_policy", UNKNOWN))
    given = {"RedrivePolicy": policy, REDRIVE_IS_GIVEN: block.get(REDRIVE_IS_GIVEN, False)}
    _extend(resources, "AWS::SQS::Queue", name, given)


def _encryption(_: str, block: Block, resources: list[Resource]) -> None:
    """Say the key of a bucket."""
    key = _at(block, "rule.apply_server_side_encryption_by_default.kms_master_key_id")
    rule = {"ServerSideEncryptionByDefault": {} if key is None else {"KMSMasterKeyID": key}}
    given = {"BucketEncryption": {"ServerSideEncryptionConfiguration": [rule]}}
    _extend(resources, "AWS::S3::Bucket", block.get("bucket", UNKNOWN), given)


def _key_policy(_: str, block: Block, resources: list[Resource]) -> None:
    """Give a key its policy."""
    policy = {"KeyPolicy": _parsed(block.get("policy", UNKNOWN))}
    _extend(resources, "AWS::KMS::Key", block.get("key_id", UNKNOWN), policy)


def _extend(resources: list[Resource], type_: str, name: Any, given: dict[str, Any]) -> None:
    """Give a resource further properties. Where it is open which one, they are open for each."""
    for resource in resources:
        if resource.type == type_ and name is UNKNOWN:
            resource.properties.update(dict.fromkeys(given.keys() - resource.properties.keys(), UNKNOWN))
        elif resource.type == type_ and resource.name == name:
            resource.properties.update(given)


def _given(block: Block, argument: str, name: str) -> dict[str, Any]:
    return {name: block[argument]} if argument in block else {}


_PARTS: Final[Mapping[str, Callable[[str, Block, list[Resource]], None]]] = {
    "aws_cloudwatch_event_target": _target,
    "aws_iam_policy_attachment": _attachments,
    "aws_iam_role_policy_attachment": _attachment,
    "aws_kms_key_policy": _key_policy,
    "aws_lambda_function_recursion_config": _loops,
    "aws_s3_bucket_server_side_encryption_configuration": _encryption,
    "aws_sqs_queue_redrive_policy": _redrive,
}
