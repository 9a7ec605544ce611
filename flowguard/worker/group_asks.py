"""The sending of a group's requests.

Each message of the group asks some shards, then sends the message of the rest.
"""

from __future__ import annotations

from flowguard.flow import AnyFlow
from flowguard.protocol.answers import is_run_of
from flowguard.protocol.groups import SHARDS_A_TURN, GroupPlan, Member
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.run_orders import GroupOrder
from flowguard.protocol.waiting import WaitPlan
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.worker.dispatch import Due, not_sent, send_or_park
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.group_planner import group_ask, group_message, request_id, signed_address
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival
from flowguard.worker.settler import message_at


class GroupAsks:
    """Asks the requests of groups. Holds nothing of them afterwards."""

    def __init__(self, services: Services, emitter: Emitter) -> None:
        self._services = services
        self._emitter = emitter

    def ending(self, envelope: Envelope, flow: AnyFlow, order: GroupOrder) -> Ending:
        """Ask the requests of some shards, and go on from there with another message.

        ::

            message 0    shards 0 … 9 asked    place noted    message 10
                                               dies here: delivered again, it asks once more
                                                              dies here: delivered again, it goes on from the note

        A copy finds a later place, and ends. So one that was given back under a new id goes on from the note, too. A
        group that is cancelled with its run also notes its place before: what may have been asked is cancelled.
        Raises :class:`SendFailed` where requests are not taken now.
        """
        groups, (address, member) = self._services.store.waits.groups, order
        item = groups.run(address)
        if (parts := _awaited(item, order)) is None:
            return Ending(envelope, ack=True)
        asked, plan, group = parts
        start, end = member.shard, min(member.shard + SHARDS_A_TURN, group.shards)
        message = message_at(address, item)
        if asked == start and (not plan.cancels_group or groups.asking(address, group.key, start, end)):
            for shard in range(start, end):
                self._ask(flow, order, message, plan, group, shard, envelope)
        if not groups.asked(address, group.key, start, end, envelope.message_id) or end == group.shards:
            return Ending(envelope, ack=True)
        next_address = address._replace(name=Member(end, 0).text, signature=None)
        rest = group_message(flow, signed_address(next_address, self._services), message, group.moment)
        return Ending(envelope, ack=True, arrival=Arrival(envelope, flow, None, message), sends=(rest,))

    def _ask(
        self,
        flow: AnyFlow,
        order: GroupOrder,
        message: Message,
        plan: WaitPlan,
        group: GroupPlan,
        shard: int,
        envelope: Envelope,
    ) -> None:
        requests = self._services.store.waits.groups.requests(flow.name, group.key, shard)
        due = []
        for number, request in enumerate(requests):
            member = Member(shard, number)
            address = signed_address(order.address._replace(name=member.text, signature=None), self._services)
            message_id, signer = request_id(message, member), self._services.signer
            send = group_ask(group, request, message_id, address, flow, plan.carried, signer, message)
            due.append(Due(send, flow, message, envelope))
        if refused := send_or_park(self._services, self._emitter, due):
            raise not_sent({str(due[place].send.to): refusal for place, refusal in refused.items()})


def _awaited(item: RunItem | None, order: GroupOrder) -> tuple[int, WaitPlan, GroupPlan] | None:
    """Return how many shards were asked, and the plans, if the run still waits for the group."""
    if item is None or not is_run_of(item, order.address) or item.hop != order.address.hop:
        return None
    wait = item.wait if item.status is Status.WAITING else None
    if wait is None or wait.end is not None or wait.plan is None or wait.plan.group is None:
        return None
    return wait.asked, wait.plan, wait.plan.group
