"""The faults that a call can meet and what the worker sees of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowguard.sim.calls import ApiCall
from flowguard.sim.unanswered_calls import unanswered
from flowguard.testing.explorer.record.history import CallRecord
from flowguard.testing.explorer.record.outside_call import HTTP, OUTSIDE, SQL, OutsideCall
from flowguard.testing.explorer.record.schedule import FaultKind
from flowguard.testing.explorer.run.partial import parts

LOOKUPS: Final = frozenset({"GetQueueUrl", "GetQueueAttributes", "DescribeTable", "ListTables", "ListQueues"})
"""Made once a container or not at all, and never with an effect: not counted, and nothing goes wrong there."""

LAST_RECEIVE: Final = 1
"""Of a death: SQS gives the record up."""

FORGOTTEN: Final = 1
"""Of a lost answer to a transaction: it is made again under another token, as flowguard does where a repeat meets the
first one still in progress. User code does not, and DynamoDB knows the token of botocore's own repeats."""


class Killed(KeyboardInterrupt):
    """The end of a worker by a kill. Like a time-out, it is nothing that a runtime could catch and go on from."""


def kinds_at(made: CallRecord, *, first: bool, queued: bool = True) -> list[FaultKind]:
    """Return what can go wrong at this call. ``first`` is the first call of its worker.

    A record that no queue delivered (not ``queued``) has no visibility that could end too early.

    Dying between two calls is one fault and not two, for nothing outside can tell them apart. It is tried as dying
    after the earlier call.
    """
    kinds = [FaultKind.DIES_BEFORE] if first else []
    seen = [FaultKind.SEEN_EARLY] if queued else []
    if made.service in OUTSIDE:
        return [*kinds, *_outside(made), FaultKind.ERROR, *seen, FaultKind.HELD_UP]
    if not made.is_read:
        repeats = [FaultKind.LOST] if made.is_repeated else []
        kinds += [FaultKind.DIES_AFTER, *repeats, FaultKind.UNANSWERED]
    if made.entries:
        kinds.append(FaultKind.PARTIAL)
    if made.eventual:
        kinds.append(FaultKind.STALE)
    return [*kinds, FaultKind.ERROR, FaultKind.THROTTLED, *seen, FaultKind.HELD_UP]


def _outside(made: CallRecord) -> list[FaultKind]:
    """Return what can go wrong after a call of a party outside. A database in the process always answers."""
    if made.is_read:
        return [FaultKind.UNANSWERED] if made.service == HTTP else []
    return [FaultKind.DIES_AFTER] if made.service == SQL else [FaultKind.DIES_AFTER, FaultKind.UNANSWERED]


def variants(kind: FaultKind, made: CallRecord, *, from_dlq: bool, interleaved: Sequence[int]) -> Sequence[int]:
    """Return what a choice of this kind may say behind the hyphen.

    ``from_dlq`` is the call of a worker whose record came from SQS's dead-letter queue. That queue moves nothing on.
    """
    match kind:
        case FaultKind.HELD_UP:
            return interleaved
        case FaultKind.DIES_BEFORE | FaultKind.DIES_AFTER:
            return (0,) if from_dlq else (0, LAST_RECEIVE)
        case FaultKind.LOST:
            return (0, FORGOTTEN) if made.operation == "TransactWriteItems" and not made.site.is_users else (0,)
        case FaultKind.PARTIAL:
            return parts(made.entries)
        case _:
            return (0,)


def failure(kind: FaultKind, call: ApiCall) -> Exception:
    """Build the error that boto3 raises once botocore's own repeats are used up, or a client of another party."""
    if isinstance(call, OutsideCall):
        return call.failure(kind)
    if kind is FaultKind.UNANSWERED:
        return unanswered(call.service)
    if kind is FaultKind.THROTTLED:
        code = "ProvisionedThroughputExceededException" if call.service == "dynamodb" else "ThrottlingException"
        status, text = 400, "the rate of calls is too high"
    else:
        code, status, text = "InternalServerError", 500, "the service failed"
    answer = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = call.client.exceptions.ClientError(answer, call.operation)  # type: ignore[arg-type]
    return error
