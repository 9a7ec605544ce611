"""The trace of one delivery, made from its API calls and the runtime's events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from flowguard.aws.writes import from_item
from flowguard.events import Event, EventType
from flowguard.project.declared import Keys, TableKey
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.prepared import low_level
from flowguard.sim.sends import Entry, SendOperation, sending
from flowguard.verdicts import Verdict
from flowguard.wire.message import REQUEST_ID, Message

VERDICTS = {EventType(verdict.value.lower()): verdict.value for verdict in Verdict} | {
    EventType.UNREADABLE: "UNREADABLE",
    EventType.UNROUTABLE: "UNROUTABLE",
    EventType.UNTRUSTED: "UNTRUSTED",
    EventType.REFUSED: "REFUSED",
    EventType.RETURNED: "RETURNED",
}
OUTCOMES = {
    EventType.COMMITTED: "committed",
    EventType.COMPLETED: "completed",
    EventType.WAITING: "waiting",
    EventType.TIMED_OUT: "timed out",
    EventType.FENCED: "fenced",
    EventType.RETRIED: "retried",
    EventType.CONTINUED: "continued",
    EventType.PUT_OFF: "put off",
    EventType.IN_LINE: "in line",
    EventType.FAILED: "failed",
    EventType.UNDONE: "undone",
    EventType.BROKEN: "broken",
    EventType.WAS_RESET: "reset",
    EventType.WAS_CANCELLED: "cancelled",
}
_WRITES = {"PutItem": "put", "UpdateItem": "update", "DeleteItem": "delete"}


@dataclass(frozen=True, slots=True)
class Written:
    """A write to a table of the user's. ``key`` is text; it is empty for a put to a table whose key is not declared."""

    kind: str
    table: str
    key: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a service accepted. ``to`` is a name, ``delay`` is in seconds, ``id`` its ``uniquerequestid``."""

    to: str
    delay: int
    id: str | None


@dataclass(slots=True)
class DeliveryTrace:
    """What happened during one delivery. ``message`` is known once its claim is requested.

    ``status`` is that of the response to an HTTP request.
    """

    events: list[Event] = field(default_factory=list)
    writes: list[Written] = field(default_factory=list)
    refused: list[Written] = field(default_factory=list)
    sends: list[Sent] = field(default_factory=list)
    calls: int = 0
    message: Message | None = None
    status: int | None = None
    _is_answer: bool = False

    def add(self, event: Event) -> None:
        self.events.append(event)
        if not self._is_answer:  # what follows is of the hop after the wait
            self.message = event.message or self.message
        self._is_answer = self._is_answer or event.type in (EventType.ANSWERED, EventType.TIMED_OUT)

    @property
    def verdict(self) -> str | None:
        """Return the verdict on the claim or the answer, or why there was none."""
        return next((verdict for event in self.events if (verdict := _verdict(event)) is not None), None)

    @property
    def outcome(self) -> str | None:
        """Return the result of the work. None where none was done."""
        return next((OUTCOMES[event.type] for event in self.events if event.type in OUTCOMES), None)

    @property
    def why(self) -> str | None:
        """Return the reason or error that was reported last."""
        reasons = [event.facts.get("why") or event.facts.get("error") for event in self.events]
        return next((str(reason) for reason in reversed(reasons) if reason), None)


def _verdict(event: Event) -> str | None:
    if event.type is EventType.ANSWERED:
        return str(event.facts["verdict"])
    if event.type is EventType.REFUSED:
        return str(event.facts.get("verdict", VERDICTS[event.type]))
    return VERDICTS.get(event.type)


class Watch:
    """An interceptor that adds each call to the current record's trace.

    ``run_table`` is flowguard's own; ``keys`` maps the names of the user's tables to those of their hash keys.
    """

    def __init__(self, run_table: str, keys: Keys) -> None:
        self._run_table = run_table
        self._keys = keys
        self.open: list[DeliveryTrace] = []
        """The open traces. The last one is the current record's; those before it wait until that is done."""

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if not self.open:
            return proceed()
        trace = self.open[-1]
        trace.calls += call.service == "dynamodb"
        writes = [write for write in written(call, self._keys) if write.table != self._run_table]
        try:
            answer = proceed()
        except ClientError:
            trace.refused.extend(writes)
            raise
        trace.writes.extend(writes)
        trace.sends.extend(sent(call, answer))
        return answer

    def tell(self, event: Event) -> None:
        """Add a runtime event to the current record's trace."""
        if self.open:
            self.open[-1].add(event)


def written(call: ApiCall, keys: Keys) -> list[Written]:
    """Return what a DynamoDB call writes if it succeeds."""
    if call.service != "dynamodb":
        return []
    params = low_level(call)
    actions = [(kind.lower(), action) for item in params.get("TransactItems", ()) for kind, action in item.items()]
    if call.operation in _WRITES:
        actions = [(_WRITES[call.operation], params)]
    return [
        Written(kind, action["TableName"], _key(action, keys.get(action["TableName"])))
        for kind, action in actions
        if kind in _WRITES.values()
    ]


def _key(action: Mapping[str, Any], declared: TableKey | None) -> str:
    if "Key" in action:
        return "/".join(str(value) for value in from_item(action["Key"]).values())
    return declared.text_of(from_item(action["Item"])) if declared is not None else ""


def sent(call: ApiCall, answer: Response) -> list[Sent]:
    """Return the messages that the service accepted. That of a schedule is none of them: it is sent when it is due."""
    sends = sending(call.service, call.operation)
    if sends is None or sends.to is not None:
        return []
    return [
        Sent(_shown(sends, call, entry), entry.get("DelaySeconds", 0), _id(entry))
        for entry in sends.accepted(call.params, answer)
    ]


def _shown(sends: SendOperation, call: ApiCall, entry: Entry) -> str:
    match call.service:
        case "sqs":
            return sends.receiver(call.params, entry)
        case "events":
            return f"events:{entry['DetailType']}"
        case _:
            return sends.place(call.params, entry)


def _id(entry: Entry) -> str | None:
    request_id: str | None = entry.get("MessageAttributes", {}).get(REQUEST_ID, {}).get("StringValue")
    return request_id
