"""The sending of a request that starts a run."""

from __future__ import annotations

from collections.abc import Mapping

from flowguard.destinations import Destination
from flowguard.errors import SendFailed
from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import Signer, signed_attributes
from flowguard.worker.ports import Sender


def send_request(
    sender: Sender, signer: Signer, message: Message, to: Destination, attributes: Mapping[str, Attribute]
) -> None:
    """Send the request. ``attributes`` go along beside flowguard's own. Raises :class:`SendFailed`."""
    send = Send(
        Kind.SIDE,
        to,
        message.text,
        id_of(IdKind.START, message),
        {**attributes, **signed_attributes(message, signer)},
        group=message.object_id,
    ).checked()
    if refusals := sender.send([send]):
        raise SendFailed({str(send.to): refusal.why for refusal in refusals.values()})
