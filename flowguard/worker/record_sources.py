"""Who may say what: the sources from which a function believes each kind of record, and what has to be signed.

A source is what AWS says of a record, never what the record says of itself: the queue that delivered it, or the one
that SQS moved it from, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, assert_never

from flowguard.callback import Callback
from flowguard.destinations import Bus, Destination, Queue, Topic
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import is_foreign
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.run_orders import (
    ArrivedAnswer,
    ArrivedDeadline,
    CancelOrder,
    GroupOrder,
    ResetOrder,
    RunOrder,
)
from flowguard.stage import AnyStage
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.envelope import Envelope, Source
from flowguard.wire.message import Message


class RecordKind(Enum):
    """The kinds of what a record may be."""

    REQUEST = "a request"
    RETRY = "a request that is tried again"
    HOP = "a later hop"
    CANCELLED = "a cancelled request"
    CANCEL = "an order to cancel"
    RESET = "an order to reset"
    ANSWER = "an answer"
    DEADLINE = "a deadline"
    GROUP = "a message of a group"

    @classmethod
    def of(cls, message: Message) -> RecordKind:
        """Return what a stage's message is."""
        if message.cancelled is not None:
            return cls.CANCELLED
        if message.hop > 1:
            return cls.HOP
        return cls.RETRY if message.retry or message.redrive else cls.REQUEST

    @classmethod
    def of_order(cls, order: RunOrder) -> RecordKind:
        """Return what is for a run and no stage's message."""
        match order:
            case ArrivedAnswer():
                return cls.ANSWER
            case ArrivedDeadline():
                return cls.DEADLINE
            case GroupOrder() | GroupCancelOrder():
                return cls.GROUP
            case CancelOrder():
                return cls.CANCEL
            case ResetOrder():
                return cls.RESET
            case _:
                assert_never(order)


class Channel(Enum):
    """What a source is to a flow. One queue may be several of these."""

    ENTRY = "the inbox of a stage where requests enter"
    STAGE = "the inbox of its stage"
    ANSWERS = "the queue of the flow's answers"
    CALLBACK = "the queue of a callback"
    UNNAMED = "a queue that the flow does not name"
    TOPIC = "a topic that invokes the function"
    STREAM = "a stream that invokes the function"


class Signature(Enum):
    """When a record is believed only with a signature."""

    NEVER = "never"
    WITH_KEYS = "where keys are set"
    ALWAYS = "always"


class Belief(NamedTuple):
    """The sources of one kind, and whether it has to be signed there."""

    origins: frozenset[Channel]
    signed: Signature


def _belief(signed: Signature, *origins: Channel) -> Belief:
    return Belief(frozenset(origins), signed)


BELIEVED: Final[Mapping[RecordKind, Belief]] = {
    RecordKind.REQUEST: _belief(Signature.NEVER, Channel.ENTRY, Channel.UNNAMED, Channel.TOPIC, Channel.STREAM),
    RecordKind.RETRY: _belief(Signature.WITH_KEYS, Channel.ENTRY, Channel.UNNAMED, Channel.TOPIC),
    RecordKind.HOP: _belief(Signature.WITH_KEYS, Channel.STAGE),
    RecordKind.CANCELLED: _belief(Signature.WITH_KEYS, Channel.STAGE),
    RecordKind.CANCEL: _belief(Signature.WITH_KEYS, Channel.STAGE),
    RecordKind.RESET: _belief(Signature.ALWAYS, Channel.ANSWERS),
    RecordKind.ANSWER: _belief(Signature.ALWAYS, Channel.ANSWERS),
    RecordKind.DEADLINE: _belief(Signature.ALWAYS, Channel.ANSWERS),
    RecordKind.GROUP: _belief(Signature.ALWAYS, Channel.ANSWERS),
}
"""An order to cancel is for the stage where requests enter. ``trust_senders=True`` of a flow takes signatures out of
its own rows, and no source."""


_ANYWHERE: Final = frozenset(Channel)
_STREAM: Final = frozenset({Channel.STREAM})


class NamedQueues:
    """The queues that the flows of one function name."""

    def __init__(self, flows: Iterable[AnyFlow]) -> None:
        flows = tuple(flows)
        self._of_messages = {name for flow in flows for name in _inboxes(flow) | _queues_of(flow)[Channel.ANSWERS]}
        self._of_callbacks = {name for flow in flows for name in _queues_of(flow)[Channel.CALLBACK]}
        self._callbacks = [(flow, callback) for flow in flows for callback in flow.callbacks]
        self._known: dict[tuple[str | None, AnyFlow, AnyStage | None], frozenset[Channel]] = {}

    def callbacks_of(self, envelope: Envelope) -> Sequence[tuple[AnyFlow, Callback]]:
        """Return the callbacks whose answer the record may be, each with its flow.

        What a message says of its topic or event is believed only in a queue that brings nothing else to these flows:
        every sender to an inbox, or to another party's queue, can claim that too.
        """
        if not self._bring_callbacks(envelope):
            return ()
        if envelope.came_through in self._of_callbacks:
            told = [pair for pair in self._callbacks if isinstance(pair[1].source, Queue)]
        else:
            told = self._callbacks
        return [pair for pair in told if comes_through(envelope, pair[1])] or self._alone(envelope)

    def _alone(self, envelope: Envelope) -> Sequence[tuple[AnyFlow, Callback]]:
        """Return the only callback of a function, if a record may be its answer that does not say where it came from.

        A raw delivery of a topic names none, and a direct invocation nothing. A queue is always known.
        """
        declared = self._callbacks
        if len(declared) != 1 or (envelope.queue is not None and isinstance(declared[0][1].source, Queue)):
            return ()
        return declared

    def _bring_callbacks(self, envelope: Envelope) -> bool:
        """Answer whether the record may be the answer of a party outside, which comes through no inbox.

        Nor does it come through a queue of another deployment, unless the flow gives that by its ARN or URL. A stream
        brings requests alone.
        """
        if envelope.source.is_stream:
            return False
        queue = envelope.came_through
        return queue not in self._of_messages and (not is_foreign(queue) or queue in self._of_callbacks)

    def origins(self, envelope: Envelope, flow: AnyFlow, stage: AnyStage | None) -> frozenset[Channel]:
        """Return what the record's source is to the flow.

        ``stage`` is the one that the message is for; None where there is none of that name. Who may invoke the function
        can write any queue into a record: what no queue and no topic brought may be from anywhere.
        """
        if envelope.source.is_stream:
            return _STREAM
        queue = envelope.came_through
        if queue is None and envelope.source is not Source.SNS_LAMBDA:
            return _ANYWHERE
        known = self._known.get((queue, flow, stage))
        if known is None:
            known = self._known[queue, flow, stage] = self._origins(queue, flow, stage)
        return known

    def _origins(self, queue: str | None, flow: AnyFlow, stage: AnyStage | None) -> frozenset[Channel]:
        if queue is None:
            channels = {Channel.TOPIC}
        elif queue in _names_of(flow):
            channels = {origin for origin, names in _queues_of(flow).items() if queue in names}
        else:
            channels = {Channel.UNNAMED}
        if stage is None:
            if Channel.UNNAMED in channels or queue in _inboxes(flow):  # it may be the inbox of a stage that is gone
                channels |= {Channel.STAGE}
        elif any(_is_inbox(inbox, queue, channels) for inbox in flow.inboxes_of(stage)):
            channels |= {Channel.STAGE}
        return frozenset(channels)


def comes_through(envelope: Envelope, callback: Callback) -> bool:
    """Answer whether the record came from where the callback says, as far as the record says so."""
    match callback.source:
        case Queue() as queue:
            return envelope.queue in queue.called
        case Topic(arn):
            return envelope.topic_arn == arn
        case Bus(_, source, detail_type):
            event = envelope.event
            return event is not None and (event.source, event.detail_type) == (source, detail_type)
        case _:
            return False


def _is_inbox(inbox: Destination, queue: str | None, channels: set[Channel]) -> bool:
    """Answer whether the stage's messages come through there. Only a queue's name is known of a topic's messages."""
    if isinstance(inbox, Queue):
        return queue in inbox.called
    return bool(channels & {Channel.UNNAMED, Channel.TOPIC})


def _queues_of(flow: AnyFlow) -> dict[Channel, set[str]]:
    entries = [inbox for stage in flow.stages if stage.name in flow.entries for inbox in flow.inboxes_of(stage)]
    return {
        Channel.ENTRY: _called(entries),
        Channel.ANSWERS: _called([flow.answers]),
        Channel.CALLBACK: _called([callback.source for callback in flow.callbacks]),
    }


def _names_of(flow: AnyFlow) -> set[str]:
    return _inboxes(flow).union(*_queues_of(flow).values())


def _inboxes(flow: AnyFlow) -> set[str]:
    return _called(inbox for stage in flow.stages for inbox in flow.inboxes_of(stage))


def _called(destinations: Iterable[Destination]) -> set[str]:
    return {name for destination in destinations if isinstance(destination, Queue) for name in destination.called}
