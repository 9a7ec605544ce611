"""Which faults a call can meet, and what the worker sees of each."""

from __future__ import annotations

from typing import Final

from flowguard.local.calls import ApiCall
from flowguard.testing.explore.history import Made
from flowguard.testing.explore.schedule import Kind

LOOKUPS: Final = frozenset({"GetQueueUrl", "GetQueueAttributes", "DescribeTable", "ListTables", "ListQueues"})
"""Made once a container or not at all, and never with an effect: not counted, and nothing goes wrong there."""

_TOKENS: Final = frozenset({"TransactWriteItems"})
"""botocore repeats these with the token of the first, and DynamoDB carries them out once."""


class Killed(KeyboardInterrupt):
    """The worker is gone: like a time-out, nothing that a runtime could catch and go on from."""


def kinds_at(made: Made, *, first: bool) -> list[Kind]:
    """What can go wrong at this call. ``first`` is the first of its worker: dying between two calls is one fault, not
    two, for nothing outside can tell them apart, and it is tried as dying after the earlier call."""
    found = [Kind.DIES_BEFORE] if first else []
    if not made.is_read:
        found.append(Kind.DIES_AFTER)
        if made.operation not in _TOKENS:
            found.append(Kind.LOST)
    return [*found, Kind.ERROR, Kind.THROTTLED, Kind.SEEN_EARLY, Kind.HELD_UP]


def failure(kind: Kind, call: ApiCall) -> Exception:
    """The error that boto3 raises once botocore's own repeats are used up."""
    if kind is Kind.THROTTLED:
        code = "ProvisionedThroughputExceededException" if call.service == "dynamodb" else "ThrottlingException"
        status, text = 400, "the rate of calls is too high"
    else:
        code, status, text = "InternalServerError", 500, "the service failed"
    answer = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = call.client.exceptions.ClientError(answer, call.operation)  # type: ignore[arg-type]
    return error
