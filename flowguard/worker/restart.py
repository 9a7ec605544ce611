"""The message that restarts a run after a reset. It is made of the run item, the same each time.

::

    hop 1 commits      first_message: stage, version, payload, carried attributes, depth, tenant
    reset              the run is fenced; its callers stay
    restart            a request of its own, newer than the run: its claim takes the object, and its end answers all
"""

from __future__ import annotations

import json
from hashlib import sha256

from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import ENDED, RunItem, RunName
from flowguard.protocol.short_rows import short_row
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import SEALED, Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import Signer, signed_attributes

_LENGTH = 32
"""Characters of a digest that name a restart."""


class Restart(NamedTuple):
    """A restart to be sent, with its message."""

    message: Message
    send: Send


def first_message_text(message: Message) -> str:
    """Return what is stored of a run's first message."""
    carried = {name: [a.type, a.value] for name, a in message.carried.items()}
    more = short_row([message.depth, message.tenant])
    body = message.body if message.sealed is None else {SEALED: message.sealed}
    return json.dumps([message.stage, message.version, body, carried, *more], separators=(",", ":"))


def needs_restart(item: RunItem) -> bool:
    """Answer whether a restart needs a message. A first hop's own message is still there."""
    return item.reset_at is not None and item.status not in ENDED and (item.hop > 1 or item.done)


class RestartId(NamedTuple):
    """What names the request that begins the work anew. The time is in ms."""

    request_id: RequestId
    requested_at: int


def restart_id(flow: str, object_id: ObjectId, item: RunItem) -> RestartId | None:
    """Return the id and time of the request that begins the work anew. None where the run was not reset.

    A run that is reset again before that has begun keeps the id: a cancellation names the request by it, and copies of
    an earlier message are still under way.
    """
    if item.reset_at is None:
        return None
    run = [flow, object_id, item.request_id, item.requested_at]
    name = f"reset-{sha256(json.dumps(run).encode()).hexdigest()[:_LENGTH]}"
    return RestartId(RequestId(name), max(item.reset_at, item.requested_at + 1))


def run_that_goes_on(flow: str, object_id: ObjectId, item: RunItem) -> RunName:
    """Return what names the run that goes on. Of one that was reset it is the request of the restart."""
    restart = restart_id(flow, object_id, item) if needs_restart(item) else None
    return RunName(*([item.request_id, item.requested_at] if restart is None else restart))


def restart_of(flow: AnyFlow, object_id: ObjectId, item: RunItem, signer: Signer) -> Restart | None:
    """Build the request that begins the work anew. None where the item does not say what it was."""
    identity = restart_id(flow.name, object_id, item)
    if identity is None or item.first_message is None:
        return None
    stage_name, version, body, carried, *more = json.loads(item.first_message)
    message = Message(
        flow=flow.name,
        stage=stage_name,
        version=version,
        object_id=object_id,
        request_id=identity.request_id,
        requested_at=identity.requested_at,
        body="" if isinstance(body, dict) else body,
        sealed=body[SEALED] if isinstance(body, dict) else None,
        carried={name: Attribute(*pair) for name, pair in carried.items()},
        depth=more[0] if more else 0,
        tenant=more[1] if more[1:] else None,
    )
    inbox = flow.inbox_of(flow.stage(stage_name), message.carried)
    attributes = {**signed_attributes(message, signer), **message.carried}
    return Restart(
        message,
        Send(Kind.NEXT, inbox, message.text, id_of(IdKind.NEXT, message), attributes, group=object_id).checked(),
    )
