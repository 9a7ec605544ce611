"""The ids by which copies are recognised: copies of one message share an id, different messages never do.

Each begins with the id of a hop of one run, ``Message.hop_id``: flow, object, request, time, hop and redrive. The
messages of one hop differ in what comes after it.

==========  =====================  =============================================================
kind        after the hop          distinguished by
==========  =====================  =============================================================
SEND        ``.3``                 its place in the outbox
NEXT                               nothing: a hop has one message
RETRY       ``.retry2``            the attempt
CONTINUED   ``.on7``               the epoch of the claim whose work goes on in another invocation
BACK        ``.back.1f0c…``        the record that SQS has given up
LOOK        ``.look7``             the epoch of the claim that has found no place
CALL        ``.call7``             the same
LETTER      ``.dead``              the redrive; without an object the message that it is of
REDRIVE     ``.redrive``           the redrive; of a request, and without flow or object, the letter
START       ``.start``             nothing: it is a request
END         ``.end``               nothing: a request is answered once in each redrive
DEADLINE    ``.deadline``          nothing: a hop has one wait
CANCEL      ``.cancel0``           which of those it waits for
CANCEL_ASK  ``.group.0.7.cancel``  which of its group's requests
CANCEL_ON   ``.group.1.0.stop``    the shard at which the cancelling goes on
GROUP       ``.group``             nothing: a hop has one group
MEMBER      ``.group.0.7``         which of its requests
GROUP_ON    ``.group.1.0.on``      the shard at which the asking goes on
ASKED       ``name#`` before it    the name under which it is awaited
ANSWER      ``.answer.1f0c…``      the name, and the answer
==========  =====================  =============================================================
"""

from __future__ import annotations

import json
from enum import Enum
from hashlib import sha256

from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.message import Message

_DIGEST = 16
"""Characters of a digest that tells things of one hop apart."""


_SHORTER = 12
"""Of those, what is left room for."""


class IdKind(Enum):
    """What an id is of. The value says how it is written, from the hop and what tells it apart there."""

    SEND = "{hop}.{place}"
    NEXT = "{hop}"
    RETRY = "{hop}.retry{place}"
    CONTINUED = "{hop}.on{place}"
    BACK = "{hop}.back.{place}"
    LOOK = "{hop}.look{place}"
    CALL = "{hop}.call{place}"
    LETTER = "{hop}.dead{place}"
    REDRIVE = "{hop}.redrive{place}"
    START = "{hop}.start"
    END = "{hop}.end"
    DEADLINE = "{hop}.deadline"
    CANCEL = "{hop}.cancel{place}"
    CANCEL_ASK = "{hop}.{place}.cancel"
    CANCEL_ON = "{hop}.{place}.stop"
    GROUP = "{hop}.group"
    MEMBER = "{hop}.{place}"
    GROUP_ON = "{hop}.{place}.on"
    ASKED = "{place}#{hop}"
    ANSWER = "{hop}.answer.{place}"


def id_of(kind: IdKind, message: Message, place: object = "") -> str:
    """Return the id of a thing of the message's hop. ``place`` tells it from others of its kind there."""
    return kind.value.format(hop=message.hop_id, place=place)


def digest_of(*parts: object) -> str:
    """Return a short text that differs where any part does."""
    return sha256(json.dumps(parts).encode()).hexdigest()[:_DIGEST]


def unnamed(message: Message, message_id: str) -> str:
    """Return a mark for a message without a readable flow or object; empty for one that names both.

    Several of them may have one request id.
    """
    return "" if message.flow and message.object_id else letter_mark(message_id)


def letter_mark(message_id: str) -> str:
    """Return what tells one letter from every other, also one with the same message."""
    return f".{digest_of(message_id)[:_SHORTER]}"


def stem_of_run(flow: str, object_id: str, request_id: str, requested_at: int) -> str:
    """Return what stands in the ids of all that a run has asked for, up to the hop."""
    message = Message(flow, "", 0, ObjectId(object_id), RequestId(request_id), requested_at, "", hop=0)
    return message.hop_id.removesuffix("0")


def key_of(message: Message, name: str, reset_by: str | None = None) -> str:
    """Return the UUID that names an effect of the message's hop for a service outside, the same in each attempt.

    ``reset_by`` is the object's last reset. What was done before it counts no more.

    In a first hop the time of the request does not count: a copy of the request may have a later one, and be the next
    attempt of the same hop. What it asks for counts, which all copies say alike (docs/decisions/0068). Once that hop is
    committed the time of a run stays (docs/decisions/0060).
    """
    run = [message.flow, message.object_id, message.request_id, message.hop]
    import uuid  # not needed to start a function

    parts = [*run, message.body if message.hop == 1 else message.requested_at, name, reset_by]
    return str(uuid.UUID(bytes=sha256(json.dumps(parts).encode()).digest()[:16], version=5))
