"""The runs that a run waited for and needs no more. Each one's request is sent once more, as cancelled.

Those of a group are too many for one commit: an order to the flow itself cancels them
(:mod:`flowguard.worker.group_cancels`).
"""

from __future__ import annotations

from flowguard.destinations import parse_destination
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.groups import MOST_IN_SHARD, GroupPlan, Member
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import RunItem
from flowguard.protocol.run_orders import order_attributes
from flowguard.protocol.waiting import Child, Wait
from flowguard.recorded.side_messages import Needless
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import Signer, signed_attributes
from flowguard.wire.tenant import of_tenant

_BODY = "cancelled"
"""The body of a cancelled request: the services take no empty one, and no stage reads it."""


def cancelled_requests(flow: AnyFlow, message: Message, item: RunItem, signer: Signer) -> tuple[Send, ...]:
    """Return what cancels the runs that are cancelled with the run of ``item``, which stands at the hop after its wait.

    Nothing of a run that is not cancelled, or that undoes what it did. What has answered has ended.
    """
    why = item.cancelled_because
    if why is None or item.own_failure is not None:
        return ()
    return tuple(children_cancelled(flow, message, item, why, signer).sends)


def children_cancelled(flow: AnyFlow, message: Message, item: RunItem, why: str, signer: Signer) -> Needless:
    """Return what cancels the runs of the wait before the hop that have not answered. It is the same each time.

    Those count that were asked with ``cancel_too``. What has answered has ended.
    """
    wait = item.wait
    if wait is None or wait.plan is None:
        return Needless((), 0)
    if wait.plan.group is not None and wait.plan.cancels_group:
        return _group_cancelled(flow, message, wait, wait.plan.group, why, signer)
    waiting = sorted((name, child) for name, child in wait.plan.children.items() if name in wait.waiting)
    sends = [
        cancelled_request(child, id_of(IdKind.CANCEL, message, n), why, message, signer)
        for n, (_, child) in enumerate(waiting)
    ]
    return Needless(sends, len(sends))


def _group_cancelled(
    flow: AnyFlow, message: Message, wait: Wait, group: GroupPlan, why: str, signer: Signer
) -> Needless:
    """Return the order that cancels the runs of a group, of those that may have been asked.

    Nothing where none was.
    """
    if not (end := max(wait.asked, wait.asking)):
        return Needless((), 0)
    m, first = message, Member(0, 0)
    address = AnswerAddress(m.flow, m.object_id, m.request_id, m.requested_at, m.hop - 1, first.text)
    order = GroupCancelOrder(address, first, group, end, why, m.depth, m.tenant, m.carried)
    return Needless([group_cancel_message(flow, order, m, signer)], min(end * MOST_IN_SHARD, group.size))


def group_cancel_message(flow: AnyFlow, order: GroupCancelOrder, message: Message, signer: Signer) -> Send:
    """Build the message that comes back to the flow and cancels the group's runs from the order's shard on."""
    message_id = id_of(IdKind.CANCEL_ON, message._replace(hop=order.address.hop, redrive=0), order.member.text)
    place = {**order.as_json(signer.sign(order.statement)), **of_tenant(message.tenant)}
    attributes = {**message.carried, **order_attributes(message_id, order.group.moment, place)}
    return Send(Kind.SIDE, flow.answers, "{}", message_id, attributes).checked()


def cancelled_request(child: Child, message_id: str, why: str, asker: Message, signer: Signer) -> Send:
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
        depth=asker.depth + 1,
        tenant=asker.tenant,
    )
    attributes = {**asker.carried, **signed_attributes(cancelled, signer)}
    return Send(Kind.SIDE, parse_destination(child.to), _BODY, message_id, attributes, group=child.object_id).checked()
