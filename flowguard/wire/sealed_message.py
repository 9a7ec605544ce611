"""The payload of a stage's message, sealed as it travels."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Final

from flowguard.errors import CannotOpen
from flowguard.payload.codec import PAYLOAD, About, Codec, opened, sealed_text, text_of_sealed
from flowguard.wire.message import TEXT_DIGEST, Message

_FIRST_TEXT: Final = "first text"


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


def first_text(codec: Codec | None, message: Message) -> str:
    """Return what the run item keeps of a sealed request: the digest of its text, then that of its content, sealed.

    A sender that repeats a request seals it into another text: only the content tells that it is the same. Empty for
    other messages. Raises :class:`flowguard.errors.KeyUnavailable`.
    """
    if codec is None or message.sealed is None or message.hop > 1:
        return ""
    return message.text_digest + b64encode(codec.seal(_content_digest(message), _about_first(message))).decode("ascii")


def says_the_same(codec: Codec | None, message: Message, kept: str) -> bool:
    """Answer whether a sealed request has the content of the first one, of which the run item keeps ``kept``.

    Raises as :func:`flowguard.payload.codec.opened`.
    """
    if kept[:TEXT_DIGEST] == message.text_digest:
        return True  # the very text: each claim seals the digest of its content anew
    sealed = kept[TEXT_DIGEST:]
    before = opened(codec, b64decode(sealed), _about_first(message)) if sealed else kept.encode()  # that came plain
    return before == _content_digest(message)


def _content_digest(message: Message) -> bytes:
    """Return a digest of the content. Never store it unsealed: a short payload could be guessed from it."""
    return message._replace(sealed=None).text_digest.encode()


def _about_first(message: Message) -> About:
    return About(message.flow, message.object_id, _FIRST_TEXT)


def _about(message: Message) -> About:
    return About(message.flow, message.object_id, PAYLOAD)
