"""The outputs of a template that other stacks may import."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.problems import CannotDeploy

Json = dict[str, Any]

_EXPORTED: Final[Mapping[str, tuple[str, str, str]]] = {
    "AWS::DynamoDB::Table": ("table", "TableName", "Arn"),
    "AWS::Lambda::Function": ("function", "FunctionName", "Arn"),
    "AWS::SNS::Topic": ("topic", "TopicName", ""),
    "AWS::SQS::Queue": ("queue", "QueueName", "Arn"),
    "AWS::Scheduler::ScheduleGroup": ("group", "Name", "Arn"),
    "AWS::Serverless::Function": ("function", "FunctionName", "Arn"),
}
"""By the type of a resource: its kind in an export's name, the property with its name, the attribute with its ARN.

The ARN of a topic is its ``Ref``."""

_SCHEDULER: Final = "SchedulerRole"
"""The label of the role that other deployments need to share a schedule group. It has no name of its own."""

_OTHER: Final = re.compile("[^A-Za-z0-9:-]")
"""Characters that the name of an export may not have."""


def exported(resources: Mapping[str, Json], prefix: str) -> dict[str, Json]:
    """Make outputs that export the ARNs of tables, queues, topics, functions, schedule groups and the scheduler's role.

    An export is named ``PREFIX:queue:NAME``; ``-`` replaces what is no letter or digit. Raises :class:`CannotDeploy`
    if two exports would have the same name.
    """
    outputs: dict[str, Json] = {}
    names: dict[str, str] = {}
    for label, name, value in _arns(resources):
        export = _OTHER.sub("-", f"{prefix}:{name}")
        if export in names:
            problem = f"{names[export]} and {name} would both be exported as {export}; give one of them another name"
            raise CannotDeploy("exports", (problem,))
        names[export] = name
        outputs[f"Export{label}"] = {"Value": value, "Export": {"Name": export}}
    return outputs


def _arns(resources: Mapping[str, Json]) -> Iterator[tuple[str, str, Json]]:
    """Yield the label of each resource that is exported, what it is called, and its ARN."""
    for label, resource in resources.items():
        if label == _SCHEDULER:
            yield label, "role:scheduler", {"Fn::GetAtt": [label, "Arn"]}
        elif (form := _EXPORTED.get(resource["Type"])) is not None:
            kind, property_, attribute = form
            value = {"Fn::GetAtt": [label, attribute]} if attribute else {"Ref": label}
            yield label, f"{kind}:{resource['Properties'][property_]}", value
