"""Refusals that never end. From one call on a destination or a table or a stored object is out of reach for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall
from flowguard.sim.limits.queues import queue_name
from flowguard.sim.provision import tables_of
from flowguard.sim.sends import sending
from flowguard.testing.explorer.record.schedule import DENIED


@dataclass(frozen=True, slots=True)
class Answer:
    """An error that AWS answers. ``shape`` is the second name that SQS has for some."""

    code: str
    status: int
    text: str
    shape: str | None = None


@dataclass(frozen=True, slots=True)
class LastingRefusal:
    """A refusal that never ends. ``service`` gives ``answer`` where ``name`` is needed.

    ``name`` is that of a queue, topic, bus, function or table, or an object key. ``of_user`` says that it began at a
    call of user code: then that name is a bucket's for S3.
    """

    service: str
    name: str
    answer: Answer
    of_user: bool = False

    def concerns(self, call: ApiCall) -> bool:
        """Answer whether the call needs what is refused."""
        if call.service != self.service:
            return False
        if self.service == "dynamodb":
            return self.name in _tables(call.params)
        if self.service == "s3" and self.of_user:
            return call.params.get("Bucket") == self.name
        if self.service == "s3":
            return call.operation in _READS_OF_OBJECTS and call.params.get("Key") == self.name
        if (sends := sending(call.service, call.operation)) is not None:
            return self.name in sends.receivers(call.params)
        return call.operation == "GetQueueUrl" and self.answer is _GONE["sqs"] and queue_name(call.params) == self.name

    def error(self, call: ApiCall) -> Exception:
        """Return the answer as boto3 raises it."""
        answer = self.answer
        error = {"Code": answer.code, "Message": answer.text.format(operation=call.operation, name=self.name)}
        if answer.shape is not None:
            error["QueryErrorCode"] = answer.shape
        response = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": answer.status}}
        kind: Any = call.client.exceptions.from_code(answer.shape or answer.code)
        raised: Exception = kind(response, call.operation)
        return raised

    def __str__(self) -> str:
        return f"{self.name} of {self.service}" if self.service != "scheduler" else "EventBridge Scheduler"


def refusal_at(call: ApiCall, more: int) -> LastingRefusal | None:
    """Return what a choice at this call takes away. None where the call has no such part.

    ``more`` is 0 for a destination that is gone and ``DENIED`` for one that denies access; of DynamoDB it is the place
    of the table in the call, from 0.
    """
    match call.service:
        case "dynamodb":
            tables = _tables(call.params)
            return LastingRefusal(call.service, tables[more], _DENIED["dynamodb"]) if more < len(tables) else None
        case "s3" if call.operation == "PutObject" and not more:
            return LastingRefusal(call.service, call.params["Key"], _GONE["s3"])
        case service if (sends := sending(service, call.operation)) is not None and more in (0, DENIED):
            answer = (_DENIED if more else {**_DENIED, **_GONE}).get(service)
            return LastingRefusal(service, sends.receivers(call.params)[0], answer) if answer is not None else None
        case _:
            return None


def refusal_of_user(call: ApiCall) -> LastingRefusal | None:
    """Return what denies access for good to a call of user code. None where there is no such thing to name."""
    if (answer := _DENIED.get(call.service)) is None:
        return None
    if call.service == "dynamodb":
        names = _tables(call.params)
    elif call.service == "s3":
        names = [str(call.params["Bucket"])] if "Bucket" in call.params else []
    else:
        sends = sending(call.service, call.operation)
        names = sends.receivers(call.params) if sends is not None else []
    return LastingRefusal(call.service, names[0], answer, of_user=True) if names else None


def can_be_denied(service: str) -> bool:
    """Answer whether a destination of this service has both answers."""
    return service in _GONE and service in _DENIED


def _tables(params: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([*(table for table, _ in tables_of(params)), *params.get("RequestItems", ())]))


_READS_OF_OBJECTS: Final = frozenset({"GetObject", "HeadObject"})
_WHO: Final = f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/function/function"
_NO: Final = "User: " + _WHO + " is not authorized to perform: {what}:{{operation}} on resource: {arn}{{name}}"


def _not_authorized(what: str, arn: str) -> str:
    return _NO.format(what=what, arn=arn)


_IN: Final = f"{REGION}:{ACCOUNT_ID}"
_GONE: Final[Mapping[str, Answer]] = {
    "sqs": Answer(
        "AWS.SimpleQueueService.NonExistentQueue", 400, "The specified queue does not exist.", "QueueDoesNotExist"
    ),
    "sns": Answer("NotFound", 404, "Topic does not exist"),
    "lambda": Answer("ResourceNotFoundException", 404, f"Function not found: arn:aws:lambda:{_IN}:function:{{name}}"),
    "scheduler": Answer("ResourceNotFoundException", 404, "Schedule group default does not exist."),
    "s3": Answer("NoSuchKey", 404, "The specified key does not exist."),
}
_DENIED: Final[Mapping[str, Answer]] = {
    "sqs": Answer("AccessDenied", 403, _not_authorized("sqs", f"arn:aws:sqs:{_IN}:")),
    "sns": Answer("AuthorizationError", 403, _not_authorized("sns", f"arn:aws:sns:{_IN}:")),
    "lambda": Answer("AccessDeniedException", 403, _not_authorized("lambda", f"arn:aws:lambda:{_IN}:function:")),
    "scheduler": Answer("AccessDeniedException", 403, _not_authorized("scheduler", f"arn:aws:scheduler:{_IN}:")),
    "events": Answer("AccessDeniedException", 400, _not_authorized("events", f"arn:aws:events:{_IN}:event-bus/")),
    "s3": Answer("AccessDenied", 403, "Access Denied"),
    "dynamodb": Answer("AccessDeniedException", 400, _not_authorized("dynamodb", f"arn:aws:dynamodb:{_IN}:table/")),
}

DENIABLE: Final = frozenset(_DENIED)
"""The services that may deny access to a call of user code."""
