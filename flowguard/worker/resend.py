"""A message that has come and is sent again: the first of these forms that its destination takes.

::

    wrapped      in the record as SNS would have made it: its first id, time and queue come along
    plain        its text alone, with all attributes beside it. A long text with many quotes is far shorter so
    short        the same without the errors that it would carry
    as it came   for a dead letter: nothing is added, so what SQS has delivered SQS takes once more
    its place    for a dead letter of a stream's record that no queue holds: it stays in the stream
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

from flowguard.errors import Reject, TooLarge
from flowguard.protocol.outbox import Send, attributes_problem
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, plain, resend, resend_alone
from flowguard.wire.message import PLACE, Message
from flowguard.wire.signing import Signer, signed_attributes
from flowguard.wire.stream_letters import place_letter


def sent_again(send: Send, message: Message, envelope: Envelope, signer: Signer) -> Send:
    """Return ``send`` with the text of the envelope and what the message says, in the first form that fits.

    Raises :class:`flowguard.errors.TooLarge` where none does, with the sizes of the first.
    """
    extras = signed_attributes(message, signer)
    short = message._replace(first_error=None, last_error=None, attempts=None)
    body, attributes = resent(envelope, extras)
    wrapped = send._replace(body=body, attributes=attributes)
    return fitting(wrapped, envelope, extras, signed_attributes(short, signer))


def marked(send: Send, marks: Mapping[str, str | None], message: Message, envelope: Envelope, signer: Signer) -> Send:
    """Return ``send`` with the text of the envelope, and a place that has the marks which are not None.

    Raises :class:`flowguard.errors.Reject` where no queue takes it.
    """
    extras = signed_attributes(message, signer)
    place = {**json.loads(extras[PLACE].value), **{key: mark for key, mark in marks.items() if mark is not None}}
    body, beside = resent(envelope, {**extras, PLACE: Attribute.string(json.dumps(place, separators=(",", ":")))})
    return send._replace(body=body, attributes=beside).checked()


def fitting(wrapped: Send, envelope: Envelope, *extras: Mapping[str, Attribute]) -> Send:
    """Return the send, or where it is too large the plain text with the first of the extras that fit beside it.

    Raises what :meth:`Send.checked` does for ``wrapped`` where nothing fits.
    """
    try:
        return wrapped.checked()
    except TooLarge:
        for more in extras:
            if (parts := plain(envelope, more)) is not None:
                with suppress(Reject):
                    return wrapped._replace(body=parts[0], attributes=parts[1]).checked()
        raise


def as_it_came(send: Send, envelope: Envelope) -> Send:
    """Return ``send`` with the record's body and attributes as they came, unchecked.

    A stream takes records that no queue does. Such a letter says where the record is: a shard cannot wait for it.
    """
    attributes = {name: envelope.attributes[name] for name in envelope.received["messageAttributes"]}
    letter = send._replace(body=envelope.received["body"], attributes=attributes)
    if not envelope.source.is_stream or letter.fits:
        return letter
    why = f"its letter would have {letter.size:,} bytes, which {letter.to} does not take"
    left = place_letter(envelope.first_id, str(envelope.source_arn), envelope.sent_at, why)
    return send._replace(body=left, attributes={})


def resent(envelope: Envelope, extras: Mapping[str, Attribute]) -> tuple[str, dict[str, Attribute]]:
    """Return what :func:`resend` would.

    Attributes that no queue takes, or too many of them, go into the body.
    """
    attributes = {**envelope.extras(), **extras}
    if attributes_problem(attributes) is None:
        return resend(envelope, extras)
    if attributes_problem(extras) is None:
        return resend_alone(envelope, {}), dict(extras)
    return resend_alone(envelope, extras), {}  # of a direct invocation, whose ids may be any text
