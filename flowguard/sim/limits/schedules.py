"""EventBridge Scheduler: the schedules that it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.texts import byte_size

DEFAULT_GROUP: Final = "default"
LARGEST_INPUT: Final = 262_144
"""Bytes of the target's input."""


def check_schedule(params: Mapping[str, Any]) -> None:
    if byte_size(params["Target"].get("Input", "")) > LARGEST_INPUT:
        raise Fault("ValidationException", f"Target.Input must be at most {LARGEST_INPUT} bytes long.")


def no_group(name: str) -> Fault:
    return Fault("ResourceNotFoundException", f"Schedule group {name} does not exist.", status=404)


def already_there(name: str) -> Fault:
    return Fault("ConflictException", f"Schedule {name} already exists.", status=409)


def group_name(params: Mapping[str, Any]) -> str:
    return str(params.get("GroupName", DEFAULT_GROUP))


def delivered_input(text: str) -> str:
    """Return what is delivered for an input: the scheduler writes what its context attributes stand for."""
    return _CONTEXT.sub(lambda match: f"the {match[1]}", text)


_CONTEXT: Final = re.compile("<aws[.]scheduler[.](schedule-arn|scheduled-time|execution-id|attempt-number)>")
