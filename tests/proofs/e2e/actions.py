"""The permissions of a template, as MiniStack names some of them. AWS has one action for a message and for a batch."""

from __future__ import annotations

import json
from typing import Any, Final

BATCHES: Final = {
    "sqs:SendMessage": "sqs:SendMessageBatch",
    "sqs:DeleteMessage": "sqs:DeleteMessageBatch",
    "sqs:ChangeMessageVisibility": "sqs:ChangeMessageVisibilityBatch",
}
"""What MiniStack asks for beside what AWS asks for."""

GROUPS: Final = (":schedule/flowguard/*", ":schedule/default/*")
"""The schedules that a role may make, and where MiniStack takes all of them to be."""


def for_ministack(template: str) -> str:
    """Return the template with what else MiniStack asks a role for, for the same calls on the same resources.

    MiniStack's requests say no ``aws:PrincipalArn``, so a policy that denies all others would deny everybody.
    """
    whole = json.loads(template.replace(*GROUPS))
    for resource in whole["Resources"].values():
        if resource["Type"] == "AWS::SQS::QueuePolicy":
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                _admit_everybody(statement)
        for policy in resource["Properties"].get("Policies", ()):
            for statement in policy["PolicyDocument"]["Statement"]:
                statement["Action"] = _actions(statement["Action"])
    return json.dumps(whole)


def _admit_everybody(statement: dict[str, Any]) -> None:
    if statement["Effect"] == "Deny":
        statement |= {"Effect": "Allow", "Condition": {}}


def _actions(given: Any) -> list[str]:
    actions = [given] if isinstance(given, str) else list(given)
    return [*actions, *(BATCHES[action] for action in actions if action in BATCHES)]
