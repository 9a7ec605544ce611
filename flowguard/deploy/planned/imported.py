"""What stands in a template for the values that other stacks export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowguard.deploy.imports import Imports
from flowguard.deploy.planned.resources import KINDS

IMPORTED: Final = "import:"
"""What the name of an export has before it among the parameters of a template."""

_TYPES: Final[Mapping[str, str]] = {
    "tables": "AWS::DynamoDB::Table",
    "queues": "AWS::SQS::Queue",
    "topics": "AWS::SNS::Topic",
    "scheduler_group": "AWS::Scheduler::ScheduleGroup",
    **dict.fromkeys(("bucket", "buckets"), "AWS::S3::Bucket"),
}
"""By the options whose import may be an ARN."""


def stand_ins(imports: Imports) -> dict[str, str]:
    """Return parameters by which a template resolves imports as the options do, whatever their values are."""
    return {
        f"{IMPORTED}{each.export}": KINDS[_TYPES[each.option]].arn(stand_in) if each.of_arn else stand_in
        for stand_in, each in imports.items()
    }
