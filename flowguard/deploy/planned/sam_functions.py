"""The functions of SAM, as what SAM makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowguard.deploy.arns import LAMBDA
from flowguard.deploy.planned.managed_policies import arn_of_aws
from flowguard.deploy.planned.tags import as_list

_STREAMS: Final = ("Kinesis", "DynamoDB", "MSK")
_OUTSIDE: Final = "SelfManagedKafka"
_OF_SAM: Final = ("ConsumerGroupId", "KafkaBootstrapServers", "Queue", "Stream")
"""The properties that a mapping has under other names."""

_CONFIGS: Final = {"MSK": "AmazonManagedKafkaEventSourceConfig", _OUTSIDE: "SelfManagedKafkaEventSourceConfig"}
_FOR_EVENTS: Final = {
    "SQS": "AWSLambdaSQSQueueExecutionRole",
    "Kinesis": "AWSLambdaKinesisExecutionRole",
    "DynamoDB": "AWSLambdaDynamoDBExecutionRole",
    "MSK": "AWSLambdaMSKExecutionRole",
}
"""The policies of AWS that SAM gives the roles that it makes."""

_TRUSTS_LAMBDA: Final = {
    "Statement": [{"Effect": "Allow", "Principal": {"Service": [LAMBDA]}, "Action": ["sts:AssumeRole"]}]
}
"""The trust policy of the roles that SAM makes."""

Section = dict[str, Any]


def without_sam(given: Mapping[str, Any], shared_by_all: Any) -> Section:
    """Return the resources of a template. Functions and simple tables are those that SAM makes of them.

    ``shared_by_all`` is what the template says for all of a kind.
    """
    resources: Section = {}
    shared = _mapping(_mapping(shared_by_all).get("Function"))
    for label, resource in given.items():
        match resource.get("Type"):
            case "AWS::Serverless::Function":
                resources.update(_made(label, resource, _merged(shared, resource["Properties"])))
            case "AWS::Serverless::SimpleTable":
                resources[label] = {**resource, "Type": "AWS::DynamoDB::Table", "Properties": _simple(resource)}
            case _:
                resources[label] = resource
    return resources


def _mapping(value: Any) -> Section:
    return value if isinstance(value, dict) else {}


def _merged(shared: Section, given: Section) -> Section:
    """Return properties over those that all functions share. Lists of both are joined."""
    merged = {**shared, **given}
    for name in shared.keys() & given.keys():
        ours, theirs = shared[name], given[name]
        if isinstance(ours, dict) and isinstance(theirs, dict) and not _is_call(theirs):
            merged[name] = _merged(ours, theirs)
        elif isinstance(ours, list) and isinstance(theirs, list):
            merged[name] = [*ours, *theirs]
    return merged


def _is_call(value: Section) -> bool:
    return len(value) == 1 and any(name == "Ref" or str(name).startswith("Fn::") for name in value)


def _made(label: str, resource: Section, properties: Section) -> Section:
    """Return a function with its role, mappings and URL."""
    condition = {"Condition": resource["Condition"]} if "Condition" in resource else {}

    def made(type_: str, given: Section) -> Section:
        return {"Type": type_, "Properties": given, **condition}

    of_lambda = {name: value for name, value in properties.items() if name not in ("Policies", "Events", "Tracing")}
    if "Tags" in properties:
        of_lambda["Tags"] = _tags(properties)
    if (tracing := properties.get("Tracing")) is not None:
        of_lambda["TracingConfig"] = {"Mode": tracing}
    resources = {label: made("AWS::Lambda::Function", of_lambda)}
    if "Role" not in properties:
        resources[f"{label}Role"] = made("AWS::IAM::Role", _role(properties))
        resources[label]["Properties"]["Role"] = {"Fn::GetAtt": [f"{label}Role", "Arn"]}
    for event, source in _mapping(properties.get("Events")).items():
        if (mapping := _mapping_of(label, _mapping(source))) is not None:
            resources[f"{label}{event}"] = made("AWS::Lambda::EventSourceMapping", mapping)
    if isinstance(url := properties.get("FunctionUrlConfig"), dict):
        target = {"TargetFunctionArn": {"Ref": label}}
        resources[f"{label}Url"] = made("AWS::Lambda::Url", {**url, **target})
    return resources


def _mapping_of(label: str, source: Section) -> Section | None:
    given, type_ = _mapping(source.get("Properties")), str(source.get("Type"))
    named = {name: value for name, value in given.items() if name not in _OF_SAM}
    made = {**named, **_group(given, type_), "FunctionName": {"Ref": label}}
    if type_ == _OUTSIDE:
        servers = {"KafkaBootstrapServers": given.get("KafkaBootstrapServers", [])}
        return {**made, "SelfManagedEventSource": {"Endpoints": servers}}
    if type_ != "SQS" and type_ not in _STREAMS:
        return None
    return {**made, "EventSourceArn": given.get("Queue" if type_ == "SQS" else "Stream")}


def _group(given: Section, type_: str) -> Section:
    """Return the consumer group of an event of Kafka, where a mapping names it."""
    group = given.get("ConsumerGroupId")
    return {} if group is None else {_CONFIGS.get(type_, ""): {"ConsumerGroupId": group}}


def _role(properties: Section) -> Section:
    """Return the role that SAM makes. What SAM's own policy templates allow is open."""
    given = properties.get("Policies", [])
    policies = given if isinstance(given, list) else [given]
    written = [policy for policy in policies if isinstance(policy, dict) and not _is_call(policy)]
    kinds = [_mapping(source).get("Type") for source in _mapping(properties.get("Events")).values()]
    made = ["AWSLambdaBasicExecutionRole", *(name for kind, name in _FOR_EVENTS.items() if kind in kinds)]
    if "VpcConfig" in properties:
        made.append("AWSLambdaVPCAccessExecutionRole")
    if properties.get("Tracing") == "Active":
        made.append("AWSXrayWriteOnlyAccess")
    of_role = {"Path": properties.get("RolePath"), "PermissionsBoundary": properties.get("PermissionsBoundary")}
    return {
        **{name: value for name, value in of_role.items() if value is not None},
        "AssumeRolePolicyDocument": properties.get("AssumeRolePolicyDocument", _TRUSTS_LAMBDA),
        "Tags": _tags(properties),
        "Policies": [
            {"PolicyDocument": policy if "Statement" in policy else {"Fn::Transform": policy}} for policy in written
        ],
        "ManagedPolicyArns": [
            *(_arn(policy) for policy in policies if policy not in written),
            *map(arn_of_aws, made),
        ],
    }


def _tags(properties: Section) -> Any:
    """Return the tags of a function as Lambda has them. SAM has a mapping."""
    tags = properties.get("Tags", {})
    return tags if isinstance(tags, dict) and _is_call(tags) else as_list(tags)


def _arn(policy: Any) -> Any:
    """Return the ARN of a policy. One of AWS may go by its name."""
    return arn_of_aws(policy) if isinstance(policy, str) and not policy.startswith("arn:") else policy


def _simple(resource: Section) -> Section:
    properties = resource["Properties"]
    key = {"Name": "id", "Type": "String", **_mapping(properties.get("PrimaryKey"))}
    kinds = {"String": "S", "Number": "N", "Binary": "B"}
    return {
        **properties,
        "AttributeDefinitions": [{"AttributeName": key["Name"], "AttributeType": kinds.get(key["Type"], key["Type"])}],
        "KeySchema": [{"AttributeName": key["Name"], "KeyType": "HASH"}],
    }
