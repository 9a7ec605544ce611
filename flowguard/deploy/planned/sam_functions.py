"""The functions of SAM, as what SAM makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_STREAMS: Final = ("Kinesis", "DynamoDB")
_LOGS: Final = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents")
_POLLS: Final = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
"""What AWS's own policies allow that SAM gives the roles that it makes."""

Section = dict[str, Any]


def without_sam(template: Mapping[str, Any]) -> Section:
    """Return the resources of a template. Functions and simple tables are those that SAM makes of them."""
    resources: Section = {}
    shared = _mapping(_mapping(template.get("Globals")).get("Function"))
    for label, resource in template["Resources"].items():
        match resource.get("Type"):
            case "AWS::Serverless::Function":
                resources.update(_made(label, resource, _merged(shared, resource.get("Properties", {}))))
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

    of_lambda = {name: value for name, value in properties.items() if name not in ("Policies", "Events")}
    resources = {label: made("AWS::Lambda::Function", of_lambda)}
    if "Role" not in properties:
        resources[f"{label}Role"] = made("AWS::IAM::Role", {"Policies": [*_policies(properties)]})
        resources[label]["Properties"]["Role"] = {"Fn::GetAtt": [f"{label}Role", "Arn"]}
    for event, source in _mapping(properties.get("Events")).items():
        if (mapping := _mapping_of(label, _mapping(source))) is not None:
            resources[f"{label}{event}"] = made("AWS::Lambda::EventSourceMapping", mapping)
    if isinstance(url := properties.get("FunctionUrlConfig"), dict):
        target = {"TargetFunctionArn": {"Ref": label}}
        resources[f"{label}Url"] = made("AWS::Lambda::Url", {**url, **target})
    return resources


def _mapping_of(label: str, source: Section) -> Section | None:
    given, type_ = _mapping(source.get("Properties")), source.get("Type")
    if type_ != "SQS" and type_ not in _STREAMS:
        return None
    arn = given.get("Queue" if type_ == "SQS" else "Stream")
    return {**given, "EventSourceArn": arn, "FunctionName": {"Ref": label}}


def _policies(properties: Section) -> Iterator[Section]:
    """Yield the policies of a role that SAM makes. What those say that it has by name is open."""
    given = properties.get("Policies", [])
    for policy in given if isinstance(given, list) else [given]:
        is_written = isinstance(policy, dict) and "Statement" in policy
        yield {"PolicyDocument": policy if is_written else {"Fn::Transform": policy}}
    kinds = {_mapping(source).get("Type") for source in _mapping(properties.get("Events")).values()}
    actions = [*_LOGS, *(_POLLS if "SQS" in kinds else ())]
    yield {"PolicyDocument": {"Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}}
    if kinds & {*_STREAMS}:
        yield {"PolicyDocument": {"Fn::Transform": "the policy for streams"}}


def _simple(resource: Section) -> Section:
    properties = _mapping(resource.get("Properties"))
    key = {"Name": "id", "Type": "String", **_mapping(properties.get("PrimaryKey"))}
    kinds = {"String": "S", "Number": "N", "Binary": "B"}
    return {
        **properties,
        "AttributeDefinitions": [{"AttributeName": key["Name"], "AttributeType": kinds.get(key["Type"], key["Type"])}],
        "KeySchema": [{"AttributeName": key["Name"], "KeyType": "HASH"}],
    }
