"""The request that begins a run anew which failed for good and was taken back. Two calls make the same request.

::

    request      ── hop 1 ✗ ── on_failed: undone, FAILED
    again-1f0c…  ── the first message, now: newer than the run, so its claim takes the object, and
                    step.superseded is what the undo has left; late copies of the run's messages change nothing
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final

from flowguard.flow import PER_REQUEST, AnyFlow
from flowguard.names.ids import RequestId
from flowguard.payload.encoding import decode
from flowguard.protocol.forgotten import NOW, is_forgotten
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import Signer, signed_attributes

_LENGTH: Final = 32
"""Characters of a digest that name a run."""

_GOES_ON: Final = "'flowguard retry' without --again goes on with it"
_ANOTHER_ID: Final = "to begin anew, send the request under another id"
_ANOTHER_OBJECT: Final = (
    "to begin anew, send it for another object, or, once no copy of it can come any more, under another id"
)


def again_refusal(item: RunItem, flow: AnyFlow | None = None) -> str | None:
    """Return why the run is not begun anew. None for one that failed for good and was taken back."""
    failed = item.own_failure
    if item.status is Status.COMPLETED:
        return "the run is COMPLETED"
    if is_forgotten(item):
        return f"{NOW}; {anew_by_hand(flow)}"
    if item.status not in ENDED:
        doing = "is being taken back by the on_failed stage" if failed is not None else "goes on"
        return f"the run of request {item.request_id} {doing}: it is {item.status.value} at {item.stage}"
    if item.cancelled_because is not None:
        return f"it was cancelled; {anew_by_hand(flow)}"
    if failed is None:
        return f"nothing of it was taken back; {_GOES_ON}"
    if not failed.undone:
        return f"its on_failed stage has failed too, so it is not taken back; {_GOES_ON}"
    return None if flow is None else again_refusal_of(flow)


def again_refusal_of(flow: AnyFlow) -> str | None:
    """Return why no run of the flow is begun anew. None where they are.

    A request that is named by its payload is carried out once, however late a copy comes. The item knows copies by the
    id, and the request of :func:`again_request` has another: a copy with a later time would be carried out.
    """
    if flow.object_id is PER_REQUEST:
        return f"each request of {flow.name} is an object of its own; {anew_by_hand(flow)}"
    if flow.request_id is None:
        return None
    once_more = "once a request of another id has the object, a later copy of this one is carried out once more"
    return f"requests of {flow.name} are named by their payload, and {once_more}; {anew_by_hand(flow)}"


def anew_by_hand(flow: AnyFlow | None) -> str:
    """Say how a sender begins the work anew, without a second run for a late copy of the request."""
    if flow is None or flow.request_id is None or flow.object_id is PER_REQUEST:
        return _ANOTHER_ID
    return _ANOTHER_OBJECT


def kept_first_message(item: RunItem) -> bool:
    """Answer whether a dead letter has the run's first message. That of a later hop has only the later one."""
    return item.own_failure is not None and item.own_failure.hop == 1


def again_command(item: RunItem) -> str:
    """Return the command that begins a run anew which was taken back.

    The dead letter of a first hop has its request. Of a later one it has to be given.
    """
    return f"flowguard retry --again{'' if kept_first_message(item) else ' --from FILE'}"


def is_first_of(message: Message, flow: AnyFlow, object_id: str, item: RunItem) -> bool:
    """Answer whether the message is the first one of this very run."""
    wanted = (flow.name, object_id, item.request_id, item.requested_at, 1)
    return (message.flow, message.object_id, message.request_id, message.requested_at, message.hop) == wanted


def again_id(flow: AnyFlow, object_id: str, item: RunItem) -> RequestId:
    """Return the id of the request that begins the run anew."""
    run = [flow.name, object_id, item.request_id, item.requested_at]
    return RequestId(f"again-{sha256(json.dumps(run).encode()).hexdigest()[:_LENGTH]}")


def again_at(item: RunItem, now: int) -> int:
    """Return the time of that request in ms. It is later than the run and its end, also where this clock is slow."""
    return max(now, item.requested_at + 1, item.committed_at + 1)


def again_request(flow: AnyFlow, first: Message, item: RunItem, now: int, signer: Signer) -> tuple[Message, Send]:
    """Build the request from the run's first message.

    Its end goes to the same receivers as the ends of the run's requests. A run that waited for it has had its answer.
    """
    message = first._replace(
        request_id=again_id(flow, first.object_id, item),
        requested_at=again_at(item, now),
        retry=0,
        redrive=0,
        first_error=None,
        last_error=None,
        attempts=None,
        is_event=False,
        answer_to=None,
        since=0,
    )
    attributes = {**signed_attributes(message, signer), **message.carried}
    inbox = flow.inbox_of(flow.stage(message.stage), message.carried)
    send_id = id_of(IdKind.START, message)
    return message, Send(Kind.SIDE, inbox, message.text, send_id, attributes, group=message.object_id).checked()


def with_payload(
    flow: AnyFlow, text: str, object_id: str, item: RunItem, *, signed: bool, lane: str | None = None
) -> Message:
    """Return the first message of the run with this payload. Raises RunFailed for one that the flow would refuse."""
    entry = flow.entry()
    message, _ = flow.request(
        decode(entry.payload, text, what=f"the payload of {flow.name}/{entry.name}"),
        request_id=item.request_id,
        requested_at=item.requested_at,
        object_id=object_id,
        signed=signed,
        lane=lane,
    )
    return message
