"""The size of the variables of functions, of which Lambda takes so much."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from flowguard.deploy.needs import ANSWERS_URL, Deployment, FunctionNeed

LARGEST_ENVIRONMENT: Final = 4_096
"""Bytes of all variables of a function, with their names. They are measured here as JSON, which is never less."""

_URL: Final = len("https://.lambda-url.ap-southeast-1.on.aws/") + 32
_ACCOUNT: Final = len("123456789012")
_LONGEST_ARN: Final = len("arn:aws-us-gov:sqs:ap-southeast-1:123456789012:") + 80
_ROLE: Final = len("arn:aws-us-gov:iam::123456789012:role/") + 64


def variable_problems(needed: Deployment) -> Iterator[str]:
    """Yield what is wrong with functions that have more variables than Lambda takes."""
    for function in needed.functions:
        given = dict(function.environment)
        size = len(
            json.dumps({**given, **_added(needed, function)}, separators=(",", ":"), ensure_ascii=False).encode()
        )
        if size > LARGEST_ENVIRONMENT:
            longest = sorted(given, key=lambda name: len(given[name]))[-1]
            yield (
                f"the variables of {function.name} may have {size:,} bytes of {LARGEST_ENVIRONMENT:,} that Lambda "
                f"takes, {len(given[longest].encode()):,} of them in {longest}; serve its stages by several functions, "
                "or read your own settings from elsewhere"
            )


def _added(needed: Deployment, function: FunctionNeed) -> Mapping[str, str]:
    """Return the variables that the deployment fills in, as long as they may be."""
    names = dict(function.environment)
    lengths = {ANSWERS_URL: _URL} if function.links_to is not None else {}
    if "FLOWGUARD_SCHEDULER_GROUP" in names:
        lengths |= {"FLOWGUARD_SCHEDULER_ROLE": _ROLE if needed.scheduler_role is None else len(needed.scheduler_role)}
        lengths |= {"FLOWGUARD_SCHEDULER_UNDELIVERED": _LONGEST_ARN} if needed.undelivered_schedules else {}
    if "FLOWGUARD_BUCKET" in names:
        lengths |= {"FLOWGUARD_BUCKET_OWNER": _ACCOUNT}
    return {name: "x" * length for name, length in lengths.items()}
