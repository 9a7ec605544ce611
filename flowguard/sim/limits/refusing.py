"""Destinations that always refuse, because access is denied or they no longer exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from flowguard.errors import SettingsError
from flowguard.sim.limits.buses import bus_name
from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.functions import function_name, no_function
from flowguard.sim.limits.items import no_table
from flowguard.sim.limits.objects import no_bucket, no_object
from flowguard.sim.limits.queues import no_queue, queue_name
from flowguard.sim.limits.schedules import group_name, no_group
from flowguard.sim.limits.topics import no_topic, topic_name

Params: TypeAlias = Mapping[str, Any]


class Refusing:
    """The destinations that refuse.

    Each is written as ``"sqs:orders"``: the service, as boto3 names it, and a queue, topic, table, bus, function,
    schedule group or bucket by its name. An object is ``"s3:bucket/key"``.

    Only the calls that use a destination are refused: those that send, read and write.
    """

    def __init__(self) -> None:
        self._denied: frozenset[str] = frozenset()
        self._missing: frozenset[str] = frozenset()

    def deny(self, *places: str) -> None:
        self._denied |= _checked(places)

    def remove(self, *places: str) -> None:
        self._missing |= _checked(places)

    def allow(self, *places: str) -> None:
        self._denied -= _checked(places)
        self._missing -= _checked(places)

    def is_missing(self, service: str, name: str) -> bool:
        return f"{service}:{name}" in self._missing

    def check(self, service: str, operation: str, params: Params) -> None:
        if not (self._denied or self._missing):
            return
        names = _NAMES.get((service, operation))
        for name in names(params) if names is not None else ():
            place = f"{service}:{name}"
            if place in self._denied and operation != "GetQueueUrl":
                raise _denial(service, operation, place)
            if place in self._missing:
                self._refuse_missing(service, operation, name)

    @staticmethod
    def _refuse_missing(service: str, operation: str, name: str) -> None:
        """Raise the service's error for a missing destination.

        EventBridge does not refuse: it accepts events for a bus that does not exist, and they are lost. Nor does S3
        where an object that does not exist is written or deleted.
        """
        match service:
            case "sqs":
                raise no_queue()
            case "sns":
                raise no_topic()
            case "dynamodb":
                raise no_table()
            case "lambda":
                raise no_function(name)
            case "scheduler":
                raise no_group(name)
            case "s3" if "/" not in name:
                raise no_bucket()
            case "s3" if operation in ("GetObject", "HeadObject"):
                raise no_object(operation)


def _checked(places: Iterable[str]) -> frozenset[str]:
    checked = frozenset(places)
    for place in checked:
        service, _, name = place.partition(":")
        if service not in _DENIALS or not name:
            known = ", ".join(f"{kind}:…" for kind in _DENIALS)
            raise SettingsError("EmbeddedAWS", f"{place!r} names no destination; one is written as {known}")
    return checked


# -- which names a call uses


def _queue(params: Params) -> list[str]:
    return [queue_name(params)]


def _topic(params: Params) -> list[str]:
    return [topic_name(params)]


def _table(params: Params) -> list[str]:
    return [params["TableName"].rpartition("/")[2]]


def _tables_of_actions(params: Params) -> list[str]:
    return [name for action in params["TransactItems"] for part in action.values() for name in _table(part)]


def _tables_of_batch(params: Params) -> list[str]:
    return [name.rpartition("/")[2] for name in params["RequestItems"]]


def tables_of_statements(params: Params) -> list[str]:
    """Return what stands first in double quotes: the table of an update or an insert."""
    return [
        statement["Statement"].split('"')[1]
        for statement in params.get("Statements", ())
        if '"' in statement["Statement"]
    ]


def _object(params: Params) -> list[str]:
    return [params["Bucket"], f"{params['Bucket']}/{params['Key']}"]


_NAMES: Final[Mapping[tuple[str, str], Callable[[Params], list[str]]]] = {
    **{("sqs", name): _queue for name in ("SendMessage", "SendMessageBatch", "GetQueueUrl")},
    **{("sns", name): _topic for name in ("Publish", "PublishBatch")},
    **{("dynamodb", name): _table for name in ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan")},
    **{("dynamodb", name): _tables_of_actions for name in ("TransactGetItems", "TransactWriteItems")},
    **{("dynamodb", name): _tables_of_batch for name in ("BatchGetItem", "BatchWriteItem")},
    ("dynamodb", "BatchExecuteStatement"): tables_of_statements,
    **{("s3", name): _object for name in ("GetObject", "HeadObject", "PutObject", "DeleteObject")},
    ("events", "PutEvents"): lambda params: [bus_name(entry) for entry in params["Entries"]],
    ("lambda", "Invoke"): lambda params: [function_name(params)],
    ("scheduler", "CreateSchedule"): lambda params: [group_name(params)],
}


# -- what a service says

_DENIALS: Final[Mapping[str, tuple[str, int]]] = {
    "sqs": ("AccessDenied", 403),
    "sns": ("AuthorizationError", 403),
    "dynamodb": ("AccessDeniedException", 400),
    "events": ("AccessDeniedException", 400),
    "lambda": ("AccessDeniedException", 403),
    "scheduler": ("AccessDeniedException", 403),
    "s3": ("AccessDenied", 403),
}


def _denial(service: str, operation: str, place: str) -> Fault:
    code, status = _DENIALS[service]
    if operation == "HeadObject":  # the answer to a HEAD has no body, and so no error code in it
        return Fault("403", "Forbidden", status=status)
    shape = "AccessDeniedException" if service == "sqs" else None
    message = f"User is not authorized to perform: {service}:{operation} on resource: {place}"
    return Fault(code, message, shape=shape, status=status)
