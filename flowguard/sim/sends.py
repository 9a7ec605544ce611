"""The operations that send messages.

``SENDS`` says of each what it sends, where, and which of it a service accepted. A new one is an entry there, and all
that read messages know it: traces, queues, the explorer's faults and refusals.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias, cast
from zoneinfo import ZoneInfo

from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.limits.queues import queue_name
from flowguard.sim.limits.schedules import delivered_input
from flowguard.sim.limits.topics import topic_name
from flowguard.wire.attributes import Attribute, read_attributes

Params: TypeAlias = Mapping[str, Any]
Entry: TypeAlias = Mapping[str, Any]
"""What a call sends for one message: an entry of a batch, or else the call's own parameters."""


def _nothing(entry: Entry) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOperation:
    """An operation that sends messages.

    ``receiver`` names what takes a message and may refuse it, ``to`` where the message goes if that is elsewhere.
    ``batch`` is the parameter with the entries; None where the call is an entry itself. ``by_position``: the answer has
    a line for each entry, and not the ids of those that failed. ``fills_queues``: queues get the message at once.
    """

    service: str
    receiver: Callable[[Params, Entry], str]
    body: Callable[[Entry], str]
    attributes: Callable[[Entry], Mapping[str, Attribute]]
    to: Callable[[Entry], str] | None = None
    group: Callable[[Entry], str | None] = lambda entry: entry.get("MessageGroupId")
    due: Callable[[Entry], int | None] = _nothing
    batch: str | None = None
    by_position: bool = False
    fills_queues: bool = False

    @property
    def failures(self) -> str:
        """Return the field of the answer that says whether entries failed."""
        return "FailedEntryCount" if self.by_position else "Failed"

    def place(self, params: Params, entry: Entry) -> str:
        """Return where a message goes, with its service: ``sqs:carts``."""
        return self.to(entry) if self.to is not None else f"{self.service}:{self.receiver(params, entry)}"

    def entries(self, params: Params) -> Sequence[Entry]:
        """Return an entry for each message of the call."""
        entries: Sequence[Entry] = params[self.batch] if self.batch is not None else [params]
        return entries

    def accepted(self, params: Params, answer: Mapping[str, Any]) -> list[Entry]:
        """Return the entries that the service accepted.

        A recurring schedule, which only user code makes, is none of them: no message's way depends on it.
        """
        entries = self.entries(params) if str(params.get("ScheduleExpression", "at(")).startswith("at(") else []
        if self.by_position:
            return [
                entry for entry, result in zip(entries, answer["Entries"], strict=True) if "ErrorCode" not in result
            ]
        failed = {failure["Id"] for failure in answer.get("Failed", ()) if "Id" in failure}
        return [entry for entry in entries if entry.get("Id") not in failed]

    def receivers(self, params: Params) -> list[str]:
        """Return what the call needs to be accepted, each name once."""
        return list(dict.fromkeys(self.receiver(params, entry) for entry in self.entries(params)))

    def in_part(self, call: ApiCall, proceed: Proceed, left_out: Collection[int]) -> Response:
        """Make a batch's call without some entries, which are counted from 1. Empty where none is left.

        Afterwards its parameters, which a recorder may keep, have all of them again.
        """
        params, name = cast("dict[str, Any]", call.params), str(self.batch)
        every = params[name]
        params[name] = [entry for number, entry in enumerate(every, 1) if number not in left_out]
        try:
            return proceed() if params[name] else {}
        finally:
            params[name] = every


# -- where a message goes, and what it says ----------------------------------------------------------------------------


def _target(entry: Entry) -> str:
    _, _, service, *_, name = str(entry["Target"]["Arn"]).split(":")
    return f"{service}:{name}"


def _input(entry: Entry) -> str:
    return delivered_input(str(entry["Target"].get("Input", "")))


def _payload(entry: Entry) -> str:
    payload = entry.get("Payload", b"")
    return payload.decode() if isinstance(payload, bytes) else str(payload)


def _moment(entry: Entry) -> int:
    zone = ZoneInfo(entry.get("ScheduleExpressionTimezone", "UTC"))
    moment = datetime.fromisoformat(entry["ScheduleExpression"][3:-1]).replace(tzinfo=zone)
    return int(moment.timestamp()) * 1000


def _own(entry: Entry) -> Mapping[str, Attribute]:
    return _read(dict(entry.get("MessageAttributes", {})))


def _read(attributes: dict[str, Any]) -> Mapping[str, Attribute]:
    return read_attributes(attributes, Attribute.of_receive_message, "sent", "MessageAttributes")


def _notified(entry: Entry) -> Mapping[str, Attribute]:
    """Return the attributes of a notification. A schedule's message has a body alone, and flowguard makes it one."""
    try:
        data = json.loads(_input(entry))
    except ValueError:
        data = None
    attributes = dict(data.get("MessageAttributes") or {}) if isinstance(data, dict) else {}
    return read_attributes(attributes, Attribute.of_notification, "scheduled", "MessageAttributes")


def _inside(body: str) -> Mapping[str, Attribute]:
    """Return the attributes that flowguard puts into the body where the service has none."""
    try:
        data = json.loads(body)
        records = data.get("Records")
        texts = (
            {name: attribute["stringValue"] for name, attribute in records[0]["messageAttributes"].items()}
            if records
            else {name: str(value) for name, value in data["flowguard"].items()}
        )
    except (ValueError, LookupError, AttributeError, TypeError):
        return {}
    return _read({name: {"DataType": "String", "StringValue": text} for name, text in texts.items()})


# -- the table ---------------------------------------------------------------------------------------------------------

_SEND: Final = SendOperation(
    service="sqs",
    receiver=lambda params, _: queue_name(params),
    body=lambda entry: entry["MessageBody"],
    attributes=_own,
    fills_queues=True,
)
_PUBLISH: Final = SendOperation(
    service="sns",
    receiver=lambda params, _: topic_name(params),
    body=lambda entry: entry["Message"],
    attributes=_own,
    fills_queues=True,
)

SENDS: Final[Mapping[str, SendOperation]] = {
    "SendMessage": _SEND,
    "SendMessageBatch": replace(_SEND, batch="Entries"),
    "Publish": _PUBLISH,
    "PublishBatch": replace(_PUBLISH, batch="PublishBatchRequestEntries"),
    "PutEvents": SendOperation(
        service="events",
        receiver=lambda _, entry: str(entry.get("EventBusName", "default")),
        body=lambda entry: entry["Detail"],
        attributes=lambda entry: _inside(entry["Detail"]),
        batch="Entries",
        by_position=True,
    ),
    "Invoke": SendOperation(
        service="lambda",
        receiver=lambda params, _: str(params["FunctionName"]),
        body=_payload,
        attributes=lambda entry: _inside(_payload(entry)),
    ),
    "CreateSchedule": SendOperation(
        service="scheduler",
        receiver=lambda *_: "scheduler",
        body=_input,
        attributes=_notified,
        to=_target,
        group=lambda entry: entry["Target"].get("SqsParameters", {}).get("MessageGroupId"),
        due=_moment,
    ),
}


def sending(service: str, operation: str) -> SendOperation | None:
    """Return what is known of the operation. None where it sends nothing."""
    known = SENDS.get(operation)
    return known if known is not None and known.service == service else None
