"""Dead letters on their way back: the message as which each is sent.

::

    parked   as it is: it says the next redrive already
    raw      the untouched original, and beside it the next redrive, retry 0. A request without a signature stays one
    unsent   the message that it holds, under the id that it had
"""

from __future__ import annotations

import json

from flowguard.destinations import Destination
from flowguard.protocol.outbox import Kind, Send
from flowguard.text.printable import LONGEST_PART, bounded
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, resend
from flowguard.wire.message import (
    EVENT,
    FLOW_STAGE,
    PLACE,
    REQUEST_ID,
    REQUESTED_AT,
    SIGNATURE,
    SINCE,
    WEAK,
    Message,
    Place,
)
from flowguard.wire.send_ids import IdKind, id_of, letter_mark, unnamed
from flowguard.wire.signing import UNSIGNED, Signer, is_claim, statement
from flowguard.wire.tenant import of_tenant
from flowguard.worker.dead_letters import Letter
from flowguard.worker.resend import fitting
from flowguard.worker.undeliverable import Undeliverable


def sent_back(letter: Letter, to: Destination, signer: Signer = UNSIGNED) -> Send:
    """Return the message as which the letter is sent to ``to``, its stage's queue as a rule.

    Raises ValueError where :func:`check_returnable` does or the letter's body is not what it says, and
    :class:`flowguard.errors.RunFailed` or :class:`flowguard.errors.TooLarge` where no service takes the message.
    """
    check_returnable(letter, signer)
    if letter.unsent is not None:
        return letter.unsent.send(letter.text, to)
    message = letter.returning()
    envelope, extras = _envelope(letter), {} if letter.is_parked else _next_redrive(letter, message, signer)
    message_id = id_of(IdKind.REDRIVE, message, _told_apart(letter, message))
    body, attributes = resend(envelope, extras)
    group = _place(letter).fifo_group or letter.group_id or message.object_id
    wrapped = Send(Kind.SIDE, to, body, message_id, attributes, group=group)
    return fitting(wrapped, envelope, extras)


def check_returnable(letter: Letter, signer: Signer = UNSIGNED) -> None:
    """Check that the letter may be sent back.

    Raises ValueError for a letter that cannot be read, for an unsent one that flowguard may not have parked, and where
    messages are signed for one whose own signature is not good: the new one would make a forged message a true one.
    """
    if letter.message is None:
        raise ValueError(letter.problem or "it cannot be read")
    if letter.unsent is not None:
        _check_unsent(letter, letter.unsent, letter.message, signer)
    elif signer.is_required:
        _check_signed(letter, letter.message, signer)
    elif _place(letter).signature is not None and not letter.is_parked:
        raise ValueError("it is signed; set FLOWGUARD_SIGNING_KEYS, so that it can be signed anew")


def _next_redrive(letter: Letter, message: Message, signer: Signer) -> dict[str, Attribute]:
    """Build the attributes of a raw letter's next redrive. ``message`` is of that redrive."""
    data = json.loads(letter.place_text)
    place = {name: value for name, value in data.items() if name not in ("retry", "to", SINCE, SIGNATURE)}
    place |= of_tenant(message.tenant)
    if message.redrive:
        place["redrive"] = message.redrive
    if letter.flow is None and not _said_id(letter):
        place[WEAK] = True  # a flow that names its requests by their payload asks its rule
    if _envelope(letter).event is not None:
        place[EVENT] = True
    if signer.is_on and not letter.is_request(message):
        place[SIGNATURE] = signer.sign(_statement(message, _place(letter), message.request_id))
    extras = {
        **({REQUEST_ID: Attribute.string(message.request_id)} if message.request_id else {}),
        REQUESTED_AT: Attribute.number(message.requested_at),
        PLACE: Attribute.string(json.dumps(place, separators=(",", ":"))),
    }
    if message.flow:
        extras[FLOW_STAGE] = Attribute.string(f"{message.flow}/{message.stage}")
    return extras


def _told_apart(letter: Letter, message: Message) -> str:
    """Return what tells a letter from others with its redrive. A request has no redrive that counts its returns."""
    return letter_mark(letter.message_id) if letter.is_request(message) else unnamed(message, letter.message_id)


def _check_unsent(letter: Letter, unsent: Undeliverable, message: Message, signer: Signer) -> None:
    """Check that flowguard parked an unsent message as it lies there."""
    if letter.source_arn is not None:
        raise ValueError(
            f"SQS moved it here from {bounded(letter.source_arn, LONGEST_PART)}, so anybody may have written it; look "
            "at it with dlq show --payload, then send it by hand, or drop it"
        )
    if not signer.is_required:
        return
    place = _place(letter)
    parked = message._replace(body=unsent.covered(letter.text), sealed=None)
    if problem := signer.problem(_statement(parked, place, _said_id(letter)), place.signature):
        raise ValueError(f"{problem}, so anybody may have written it; send it by hand, or drop it")


def _check_signed(letter: Letter, message: Message, signer: Signer) -> None:
    """Check the signature of a stage's message as it lies there, where it needs one."""
    place = _place(letter)
    if place.signature is None and not is_claim(message):
        return
    if not message.flow:
        raise ValueError("it names no flow, so it cannot be signed; give --flow-class")
    if problem := signer.problem(_statement(message, place, _said_id(letter)), place.signature):
        raise ValueError(f"{problem}; its stage would refuse it, too")


def _envelope(letter: Letter) -> Envelope:
    assert letter.envelope is not None  # noqa: S101 - a message was read from it
    return letter.envelope


def _place(letter: Letter) -> Place:
    return Place.parse(letter.place_text)


def _said_id(letter: Letter) -> str:
    attribute = _envelope(letter).attributes.get(REQUEST_ID)
    return attribute.value if attribute is not None else ""


def _statement(message: Message, place: Place, request_id: str) -> str:
    """Return what the letter's attributes say, whatever was read from its payload."""
    return statement(message, version=place.version, object_id=place.object_id or "", request_id=request_id)
