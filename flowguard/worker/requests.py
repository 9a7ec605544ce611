"""The sending of a request that starts a run."""

from __future__ import annotations

from collections.abc import Mapping

from flowguard.destinations import Destination, Queue
from flowguard.errors import RunFailed, SendFailed
from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import Signer, signed_attributes
from flowguard.worker.ports import Sender


def send_request(
    sender: Sender,
    signer: Signer,
    message: Message,
    to: Destination,
    attributes: Mapping[str, Attribute],
    *,
    delay: int = 0,
) -> None:
    """Send the request. ``attributes`` go along beside flowguard's own, ``delay`` is in seconds.

    Raises :class:`SendFailed`, and what :func:`request_send` raises.
    """
    send = request_send(signer, message, to, attributes, delay=delay)
    if refusals := sender.send([send]):
        raise SendFailed({str(send.to): refusal.why for refusal in refusals.values()})


def request_send(
    signer: Signer, message: Message, to: Destination, attributes: Mapping[str, Attribute], *, delay: int = 0
) -> Send:
    """Return what sends the request. Raises :class:`TooLarge` for a message that no queue takes.

    And :class:`RunFailed` for a delay where only a standard queue could delay it.
    """
    if delay and (not isinstance(to, Queue) or to.fifo):
        raise RunFailed(f"a request to {to} cannot be sent later; only standard queues do that")
    return Send(
        Kind.SIDE,
        to,
        message.text,
        id_of(IdKind.START, message),
        {**attributes, **message.carried, **signed_attributes(message, signer)},
        delay=delay,
        group=message.object_id,
    ).checked()
