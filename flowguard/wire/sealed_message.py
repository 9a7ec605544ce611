"""The payload of a stage's message, sealed as it travels."""

from __future__ import annotations

from flowguard.errors import CannotOpen
from flowguard.payload.codec import PAYLOAD, About, Codec, sealed_text, text_of_sealed
from flowguard.wire.message import Message


def sealed_message(codec: Codec | None, message: Message) -> Message:
    """Return the message with its body sealed. It is the same where its flow has no codec."""
    if codec is None:
        return message
    return message._replace(sealed=sealed_text(codec, message.body, _about(message)))


def opened_message(codec: Codec | None, message: Message) -> Message:
    """Return the message with its body opened, if it is sealed. Raises as :func:`flowguard.payload.codec.opened`."""
    if message.sealed is None:
        return message
    return message._replace(body=text_of_sealed(codec, message.sealed, _about(message)))


def opened_or_why(codec: Codec | None, message: Message) -> tuple[Message, CannotOpen | None]:
    """Return the message with its body opened, or as it is with why that cannot be."""
    try:
        return opened_message(codec, message), None
    except CannotOpen as error:
        return message, error


def _about(message: Message) -> About:
    return About(message.flow, message.object_id, PAYLOAD)
