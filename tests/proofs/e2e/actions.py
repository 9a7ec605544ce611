"""A template for MiniStack: permissions as it names some of them, and functions of which half are on the lean client.

AWS has one action for a message and for a batch.
"""

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

CLIENT: Final = "FLOWGUARD_CLIENT"
LEAN: Final = "lean"
"""MiniStack gives functions an endpoint, at which nobody gets the lean client unasked."""


def for_ministack(template: str) -> str:
    """Return the template with what else MiniStack asks a role for, for the same calls on the same resources.

    MiniStack's requests say no ``aws:PrincipalArn``, so a policy that denies all others would deny everybody. Every
    other function is asked to call by the lean client.
    """
    whole = json.loads(template.replace(*GROUPS))
    for resource in whole["Resources"].values():
        if resource["Type"] == "AWS::SQS::QueuePolicy":
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                _admit_everybody(statement)
        for policy in resource["Properties"].get("Policies", ()):
            for statement in policy["PolicyDocument"]["Statement"]:
                statement["Action"] = _actions(statement["Action"])
    functions = sorted(name for name, one in whole["Resources"].items() if one["Type"] == "AWS::Lambda::Function")
    for name in functions[::2]:
        whole["Resources"][name]["Properties"]["Environment"]["Variables"][CLIENT] = LEAN
    return json.dumps(whole)


def _admit_everybody(statement: dict[str, Any]) -> None:
    if statement["Effect"] == "Deny":
        statement |= {"Effect": "Allow", "Condition": {}}


def _actions(given: Any) -> list[str]:
    actions = [given] if isinstance(given, str) else list(given)
    return [*actions, *(BATCHES[action] for action in actions if action in BATCHES)]
