"""Permissions that are there, and that not every part of AWS knows of yet."""

from __future__ import annotations

from typing import Final

from flowguard.sim.calls import ApiCall
from flowguard.sim.limits.fault import Fault
from flowguard.sim.weather.layer import Layer

_CODES: Final = {
    "dynamodb": "AccessDeniedException",
    "s3": "AccessDenied",
    "sns": "AuthorizationError",
    "sqs": "AccessDenied",
    "ssm": "AccessDeniedException",
}


class NewPermissions(Layer):
    """Roles whose permissions work from ``until`` on, ms since 1970: IAM is eventually consistent.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_general.html#troubleshoot_general_eventual-consistency
    """

    def __init__(self, until: int) -> None:
        self.until = until

    def refusal(self, call: ApiCall, now: int) -> Fault | None:
        if now >= self.until or call.service not in _CODES:
            return None
        why = f"no identity-based policy allows the {call.service}:{call.operation} action"
        return Fault(_CODES[call.service], f"User is not authorized: {why}", status=403)
