"""Messages as services take them and as a function's queue delivers them.

The services are SQS, SNS, EventBridge and Lambda.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, assert_never
from zoneinfo import ZoneInfo

from flowguard.aws.sender import bus_entry, invocation, queue_entry, topic_entry
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.protocol.outbox import Send
from flowguard.sim.provision import queue_name
from flowguard.wire.attributes import Attribute, read_attributes
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, Place
from flowguard.worker.unsent import Unsent, bound_for

BATCHES: Final = {"SendMessageBatch": "Entries", "PublishBatch": "PublishBatchRequestEntries", "PutEvents": "Entries"}
_SINGLE: Final = frozenset({"SendMessage", "Publish", "Invoke", "CreateSchedule"})
SENDING: Final = frozenset(BATCHES) | _SINGLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A message that a service took, ``at`` ms since 1970.

    ``to`` is ``sqs:carts``, ``sns:news``, ``events:default`` or ``lambda:price``. ``due`` is when a schedule sends it.
    """

    to: str
    body: str
    call: int
    at: int = 0
    from_user: bool = False
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    delay: int = 0
    due: int | None = None
    group: str | None = None
    copy_of: str | None = None
    """The FIFO deduplication id."""

    @property
    def name(self) -> str:
        return self.to.partition(":")[2]

    @property
    def id(self) -> str | None:
        """Return the id by which a receiver drops copies."""
        found = self.attributes.get(REQUEST_ID)
        return found.value if found is not None else None

    @property
    def place(self) -> Place:
        """Return where the message is in its run. Hop 1 and retry 0 for a message of no run."""
        found = self.attributes.get(PLACE)
        return _place(found.value) if found is not None else Place()

    @property
    def run(self) -> str:
        """Return the key of the run item that a stage's message is about. It ends in ``#`` where it names no object."""
        stage = self.attributes.get(FLOW_STAGE)
        flow = stage.value.partition("/")[0] if stage is not None else ""
        return f"run#{flow}#{self.place.object_id or ''}"

    @property
    def is_letter(self) -> bool:
        """Answer whether this is a dead letter of a stage. Such a letter says the redrive that it will be.

        A message of that redrive which is to be tried again says a retry, too.
        """
        return self.place.redrive > 0 and self.place.retry == 0 and not self.is_unsent

    @property
    def is_unsent(self) -> bool:
        """Answer whether this is a dead letter for no stage: that of a message that was refused for good."""
        return self.place.is_unsent

    @property
    def unsent(self) -> Unsent | None:
        """Return what the letter of an unsent message says of it."""
        found = self.attributes.get(PLACE)
        return _unsent(found) if found is not None else None

    @property
    def says_to(self) -> bool:
        """Answer whether this is a dead letter of a next hop's message that was refused for good.

        Such a letter says where the message was to go.
        """
        found = self.attributes.get(PLACE)
        return found is not None and _bound_for(found) is not None


@lru_cache(maxsize=1024)
def _unsent(said: Attribute) -> Unsent | None:
    try:
        return Unsent.of({PLACE: said})
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def _bound_for(said: Attribute) -> Destination | None:
    try:
        return bound_for({PLACE: said})
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def _place(text: str) -> Place:
    try:
        return Place.parse(text)
    except ValueError:
        return Place()


def as_posted(send: Send, call: int) -> Posted:
    """Return a send as its service takes it: made and read as the sender's call is."""
    match to := send.to:
        case Queue():
            entries: Any = [queue_entry(0, send, fifo=to.fifo)]
            found = posted("sqs", "SendMessageBatch", {"QueueUrl": to.short_name, "Entries": entries}, {}, call=call)
        case Topic():
            entries = [topic_entry(0, send, fifo=to.fifo)]
            params = {"TopicArn": to.arn, "PublishBatchRequestEntries": entries}
            found = posted("sns", "PublishBatch", params, {}, call=call)
        case Bus():
            found = posted("events", "PutEvents", {"Entries": [bus_entry(to, send)]}, {"Entries": [{}]}, call=call)
        case Function():
            found = posted("lambda", "Invoke", invocation(to, send), {}, call=call)
        case _:
            assert_never(to)
    return found[0]


def posted(
    service: str, operation: str, params: Mapping[str, Any], answer: Mapping[str, Any], **of_call: Any
) -> list[Posted]:
    """Return the messages of a call that were taken."""
    if operation not in SENDING or _comes_round(params):
        return []
    entries: Any = params[BATCHES[operation]] if operation in BATCHES else [params]
    refused = {one["Id"] for one in answer.get("Failed", ()) if "Id" in one}
    if operation == "PutEvents":
        entries = [entry for entry, said in zip(entries, answer["Entries"], strict=True) if "ErrorCode" not in said]
    return [_one(service, params, entry, of_call) for entry in entries if entry.get("Id") not in refused]


def _one(service: str, params: Mapping[str, Any], entry: Mapping[str, Any], of_call: Mapping[str, Any]) -> Posted:
    if service == "scheduler":
        return _scheduled(entry, of_call)
    said = dict(entry.get("MessageAttributes", {}))
    match service:
        case "sqs":
            to, body = queue_name(params), entry["MessageBody"]
        case "sns":
            to, body = str(params.get("TopicArn", "")).rpartition(":")[2], entry["Message"]
        case "events":
            to, body = str(entry.get("EventBusName", "default")), entry["Detail"]
            said = _inside(body)
        case _:
            payload = entry.get("Payload", b"")
            to, body = str(params["FunctionName"]), payload.decode() if isinstance(payload, bytes) else str(payload)
            said = _inside(body)
    return Posted(
        to=f"{service}:{to}",
        body=body,
        attributes=read_attributes(said, Attribute.of_receive_message, "sent", "MessageAttributes"),
        delay=entry.get("DelaySeconds", 0),
        group=entry.get("MessageGroupId"),
        copy_of=entry.get("MessageDeduplicationId"),
        **of_call,
    )


def _comes_round(params: Mapping[str, Any]) -> bool:
    """Answer whether a schedule is a recurring one of user code. No message's way depends on it."""
    return not str(params.get("ScheduleExpression", "at(")).startswith("at(")


def _scheduled(entry: Mapping[str, Any], of_call: Mapping[str, Any]) -> Posted:
    """Read a one-time schedule. Its message has a body alone, which says everything where flowguard made it."""
    target = entry["Target"]
    body = str(target.get("Input", ""))
    zone = ZoneInfo(entry.get("ScheduleExpressionTimezone", "UTC"))
    moment = datetime.fromisoformat(entry["ScheduleExpression"][3:-1]).replace(tzinfo=zone)
    _, _, service, *_, name = str(target["Arn"]).split(":")
    return Posted(
        to=f"{service}:{name}",
        body=body,
        due=int(moment.timestamp()) * 1000,
        group=target.get("SqsParameters", {}).get("MessageGroupId"),
        attributes=read_attributes(_noted(body), Attribute.of_notification, "scheduled", "MessageAttributes"),
        **of_call,
    )


def _noted(body: str) -> dict[str, Any]:
    """Return the attributes of a notification. Empty where the body is something else."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return dict(found.get("MessageAttributes") or {}) if isinstance(found, dict) else {}


def _inside(body: str) -> dict[str, Any]:
    """Return the attributes that flowguard puts into the body where the service has none."""
    try:
        found = json.loads(body)
        records = found.get("Records")
        if records:
            said = records[0]["messageAttributes"]
            return {name: {"DataType": "String", "StringValue": one["stringValue"]} for name, one in said.items()}
        return {name: {"DataType": "String", "StringValue": str(one)} for name, one in found["flowguard"].items()}
    except (ValueError, LookupError, AttributeError, TypeError):
        return {}
