"""Messages as they are handed to SQS, SNS, EventBridge and Lambda, and as a function's queue delivers them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flowguard.attributes import Attribute, read_attributes
from flowguard.local.supply import queue_name
from flowguard.message import PLACE, REQUEST_ID, Place

_BATCHES: Final = {"SendMessageBatch": "Entries", "PublishBatch": "PublishBatchRequestEntries", "PutEvents": "Entries"}
_SINGLE: Final = frozenset({"SendMessage", "Publish", "Invoke"})
SENDING: Final = frozenset(_BATCHES) | _SINGLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A message that a service took. ``to`` is ``sqs:carts``, ``sns:news``, ``events:default``, ``lambda:price``."""

    to: str
    body: str
    call: int
    from_user: bool = False
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    delay: int = 0
    group: str | None = None
    copy_of: str | None = None
    """The FIFO deduplication id."""

    @property
    def name(self) -> str:
        return self.to.partition(":")[2]

    @property
    def id(self) -> str | None:
        """The id by which a receiver drops copies."""
        found = self.attributes.get(REQUEST_ID)
        return found.value if found is not None else None

    @property
    def place(self) -> Place:
        """Where it is in its run; hop 1, retry 0 for what is of no run."""
        found = self.attributes.get(PLACE)
        try:
            return Place.parse(found.value) if found is not None else Place()
        except ValueError:
            return Place()


def posted(
    service: str, operation: str, params: Mapping[str, Any], answer: Mapping[str, Any], **of_call: Any
) -> list[Posted]:
    """The messages of a call that were taken."""
    if operation not in SENDING:
        return []
    entries: Any = params[_BATCHES[operation]] if operation in _BATCHES else [params]
    refused = {one["Id"] for one in answer.get("Failed", ()) if "Id" in one}
    return [_one(service, params, entry, of_call) for entry in entries if entry.get("Id") not in refused]


def _one(service: str, params: Mapping[str, Any], entry: Mapping[str, Any], of_call: Mapping[str, Any]) -> Posted:
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


def _inside(body: str) -> dict[str, Any]:
    """Attributes, where the service has none: flowguard puts them into the body."""
    try:
        found = json.loads(body)
        records = found.get("Records")
        if records:
            said = records[0]["messageAttributes"]
            return {name: {"DataType": "String", "StringValue": one["stringValue"]} for name, one in said.items()}
        return {name: {"DataType": "String", "StringValue": str(one)} for name, one in found["flowguard"].items()}
    except (ValueError, LookupError, AttributeError, TypeError):
        return {}
