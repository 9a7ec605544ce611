"""The runs that a run waited for and needs no more. Each one's request is sent once more, as cancelled."""

from __future__ import annotations

from flowguard.destinations import parse_destination
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import RunItem
from flowguard.protocol.waiting import Child
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import Signer, signed_attributes

_BODY = "cancelled"
"""The body of a cancelled request: the services take no empty one, and no stage reads it."""


def cancelled_requests(message: Message, item: RunItem, signer: Signer) -> tuple[Send, ...]:
    """Return the requests that are cancelled with the run of ``item``, which stands at the hop after its wait.

    Nothing of a run that is not cancelled, or that undoes what it did. What has answered has ended.
    """
    why = item.cancelled_because
    return () if why is None or item.own_failure is not None else children_cancelled(message, item, why, signer)


def children_cancelled(message: Message, item: RunItem, why: str, signer: Signer) -> tuple[Send, ...]:
    """Return the requests of the wait before the hop that have no answer, as cancelled. They are the same each time.

    Those count that were asked with ``cancel_too``. What has answered has ended.
    """
    wait = item.wait
    if wait is None or wait.plan is None:
        return ()
    waiting = sorted((name, child) for name, child in wait.plan.children.items() if name in wait.waiting)
    return tuple(
        _request(message, id_of(IdKind.CANCEL, message, n), child, why, signer) for n, (_, child) in enumerate(waiting)
    )


def _request(message: Message, message_id: str, child: Child, why: str, signer: Signer) -> Send:
    """Build the request once more. It arrives before or after the first one, and means the same."""
    cancelled = Message(
        flow=child.flow,
        stage=child.stage,
        version=child.version,
        object_id=ObjectId(child.object_id),
        request_id=RequestId(child.request_id),
        requested_at=child.requested_at,
        body=_BODY,
        cancelled=why,
        depth=message.depth + 1,
        tenant=message.tenant,
    )
    attributes = {**message.carried, **signed_attributes(cancelled, signer)}
    return Send(Kind.SIDE, parse_destination(child.to), _BODY, message_id, attributes, group=child.object_id).checked()
