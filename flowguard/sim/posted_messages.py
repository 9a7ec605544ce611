"""Messages as services accept them, read from the calls that send them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, assert_never

from flowguard.aws.sender import bus_entry, invocation, queue_entry, topic_entry
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.protocol.outbox import Send
from flowguard.sim.calls import ApiCall
from flowguard.sim.sends import SENDS, SendOperation, sending
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, Place
from flowguard.worker.undeliverable import Undeliverable, bound_for


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
        attribute = self.attributes.get(REQUEST_ID)
        return attribute.value if attribute is not None else None

    @property
    def place(self) -> Place:
        """Return where the message is in its run. Hop 1 and retry 0 for a message of no run."""
        attribute = self.attributes.get(PLACE)
        return _place(attribute.value) if attribute is not None else Place()

    @property
    def run(self) -> str:
        """Return the key of the run item that a stage's message is about. It ends in ``#`` where it names no object."""
        stage = self.attributes.get(FLOW_STAGE)
        flow = stage.value.partition("/")[0] if stage is not None else ""
        return f"run#{flow}#{self.place.object_id or ''}"

    @property
    def is_letter(self) -> bool:
        """Answer whether this is a dead letter of a stage. Such a letter says the redrive that it will be.

        A message of that redrive which is to be tried again says a retry, too, and one that goes back to its queue
        since when.
        """
        place = self.place
        return place.redrive > 0 and place.retry == 0 and not place.since and not place.is_unsent

    @property
    def is_unsent(self) -> bool:
        """Answer whether this is a dead letter for no stage: that of a message that was refused for good."""
        return self.place.is_unsent

    @property
    def unsent(self) -> Undeliverable | None:
        """Return what the letter of an unsent message says of it."""
        attribute = self.attributes.get(PLACE)
        return _unsent(attribute) if attribute is not None else None

    @property
    def says_to(self) -> bool:
        """Answer whether this is a dead letter of a next hop's message that was refused for good.

        Such a letter says where the message was to go.
        """
        attribute = self.attributes.get(PLACE)
        return attribute is not None and _bound_for(attribute) is not None


@lru_cache(maxsize=1024)
def _unsent(attribute: Attribute) -> Undeliverable | None:
    try:
        return Undeliverable.of({PLACE: attribute})
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def _bound_for(attribute: Attribute) -> Destination | None:
    try:
        return bound_for({PLACE: attribute})
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
            posted = _read(SENDS["SendMessageBatch"], {"QueueUrl": to.short_name, "Entries": entries}, {}, call=call)
        case Topic():
            entries = [topic_entry(0, send, fifo=to.fifo)]
            params = {"TopicArn": to.arn, "PublishBatchRequestEntries": entries}
            posted = _read(SENDS["PublishBatch"], params, {}, call=call)
        case Bus():
            posted = _read(SENDS["PutEvents"], {"Entries": [bus_entry(to, send)]}, {"Entries": [{}]}, call=call)
        case Function():
            posted = _read(SENDS["Invoke"], invocation(to, send), {}, call=call)
        case _:
            assert_never(to)
    return posted[0]


def posted(call: ApiCall, answer: Mapping[str, Any], /, **of_call: Any) -> list[Posted]:
    """Return the messages of a call that were accepted."""
    sends = sending(call.service, call.operation)
    return _read(sends, call.params, answer, **of_call) if sends is not None else []


def _read(
    sends: SendOperation, params: Mapping[str, Any], answer: Mapping[str, Any], /, **of_call: Any
) -> list[Posted]:
    return [
        Posted(
            to=sends.place(params, entry),
            body=sends.body(entry),
            attributes=sends.attributes(entry),
            delay=entry.get("DelaySeconds", 0),
            due=sends.due(entry),
            group=sends.group(entry),
            copy_of=entry.get("MessageDeduplicationId"),
            **of_call,
        )
        for entry in sends.accepted(params, answer)
    ]
