"""The order to cancel what a group has asked."""

from __future__ import annotations

import json
from typing import Any, Final

from flowguard.protocol.groups import GroupPlan, Member
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.cancel_reason import read_reason

CANCEL_GROUP: Final = "cancel_group"
"""The key of such an order. The group, the reason and the depth stand beside its address."""


class GroupCancelOrder(NamedTuple):
    """An order to cancel the runs that a group has asked for, and that have not answered.

    The run that asked may be gone, so the order says all that is needed. ``address`` is of the first request that it
    cancels, ``member`` the same. The shards before ``end`` may have been asked. ``depth`` is the asking run's.
    """

    address: AnswerAddress
    member: Member
    group: GroupPlan
    end: int
    why: str
    depth: int

    @property
    def statement(self) -> str:
        """Return what its signature covers, unambiguous and in ASCII."""
        return json.dumps([CANCEL_GROUP, self.address.statement, *self._beside()], separators=(",", ":"))

    def _beside(self) -> list[Any]:
        return [self.group.as_json(), self.end, self.why, self.depth]

    def as_json(self, signature: str | None) -> dict[str, Any]:
        """Return what stands in the ``flowguard`` attribute."""
        return {CANCEL_GROUP: {**self.address._replace(signature=signature).as_json(), "rest": self._beside()}}

    @classmethod
    def parse(cls, data: Any) -> GroupCancelOrder:
        """Read what :meth:`as_json` wrote under its key. Raises ValueError for anything else."""
        address = AnswerAddress.parse(data)
        if (member := Member.parse(address.name)) is None:
            raise ValueError("names no request of a group")
        match data.get("rest"):
            case [[str(), int(), str(), int(), str(), str(), int(), {}, *_] as plan, int(end), why, int(depth)]:
                return cls(
                    address, member, GroupPlan.from_json([*plan[:7], {}, *plan[8:]]), end, read_reason(why), depth
                )
            case _:
                raise ValueError("is an order to cancel a group that does not say which")
