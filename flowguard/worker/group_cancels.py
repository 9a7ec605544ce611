"""The cancelling of the runs that a group has asked for.

Each message cancels those of some shards, then sends the message of the rest.
"""

from __future__ import annotations

from flowguard.flow import AnyFlow
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.groups import SHARDS_A_TURN, GroupRequest, Member
from flowguard.protocol.outbox import Send
from flowguard.protocol.waiting import Child
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.worker.children import cancelled_request, group_cancel_message
from flowguard.worker.dispatch import Due, not_sent, send_or_park
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.group_planner import request_id
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival
from flowguard.worker.settler import message_at


class GroupCancels:
    """Cancels the runs of groups. Holds nothing of them afterwards."""

    def __init__(self, services: Services, emitter: Emitter) -> None:
        self._services = services
        self._emitter = emitter

    def ending(self, envelope: Envelope, flow: AnyFlow, order: GroupCancelOrder) -> Ending:
        """Cancel the runs of some shards that have not answered, and go on from there with another message.

        ::

            message 0    shards 0 … 9 closed, and cancelled    noted    message 10
                                      dies here: delivered again, it cancels once more
                                                                   dies here: it finds its own note

        A shard that is closed takes no more answers, so the same are cancelled each time. A copy finds another one's
        note, and ends where the next shards are closed: else the other one may be dead, and it was given back under a
        new id. Raises :class:`SendFailed` where requests are not taken now.
        """
        groups, key, start = self._services.store.waits.groups, order.group.key, order.member.shard
        end = min(start + SHARDS_A_TURN, order.end)
        asker = _asker(flow, order)
        for shard in range(start, end):
            self._cancel(envelope, flow, order, asker, shard)
        if not groups.cancelled(flow.name, key, start, end, envelope.message_id) or end == order.end:
            return Ending(envelope, ack=True)
        member = Member(end, 0)
        address = order.address._replace(name=member.text, signature=None)
        rest = order._replace(address=address, member=member)
        send = group_cancel_message(flow, rest, asker, self._services.signer)
        return Ending(envelope, ack=True, arrival=Arrival(envelope, flow, None, asker), sends=(send,))

    def _cancel(self, envelope: Envelope, flow: AnyFlow, order: GroupCancelOrder, asker: Message, shard: int) -> None:
        requests = self._services.store.waits.groups.unanswered(flow.name, order.group.key, shard)
        due = [
            Due(self._request(order, Member(shard, number), request, asker), flow, asker, envelope)
            for number, request in requests.items()
        ]
        if refused := send_or_park(self._services, self._emitter, due):
            raise not_sent({str(due[place].send.to): refusal for place, refusal in refused.items()})

    def _request(self, order: GroupCancelOrder, member: Member, request: GroupRequest, asker: Message) -> Send:
        group = order.group
        child = Child(
            group.to,
            group.flow,
            group.stage,
            group.version,
            request.object_id,
            request.request_id or request_id(asker, member),
            group.moment,
        )
        return cancelled_request(
            child, id_of(IdKind.CANCEL_ASK, asker, member.text), order.why, asker, self._services.signer
        )


def _asker(flow: AnyFlow, order: GroupCancelOrder) -> Message:
    """Return the message of the hop that has asked, as far as the order tells."""
    carried = {name: attribute for name, attribute in (order.carried or {}).items() if name in flow.carry}
    return message_at(order.address, None)._replace(depth=order.depth, tenant=order.tenant, carried=carried)
