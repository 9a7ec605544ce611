"""The order to cancel what a group has asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from flowguard.destinations import parse_destination
from flowguard.protocol.groups import MOST_IN_GROUP, GroupPlan, Member
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.cancel_reason import read_reason
from flowguard.wire.message import HIGHEST_VERSION, LATEST_TIME, MOST_HOPS
from flowguard.wire.tenant import read_tenant

CANCEL_GROUP: Final = "cancel_group"
"""The key of such an order. The group, the reason and the depth stand beside its address."""


_ORDER: Final = "is an order to cancel a group"

_KEY: Final = late_pattern(r"(?:[!-;=-~]{1,64}<[0-9]{1,4} ){0,49}[!-;=-~]{1,64}")
"""Match the key of a group, such as ``g-1<10 g-2<25 g-3``. :func:`flowguard.protocol.groups.whole_key` makes it."""


class GroupCancelOrder(NamedTuple):
    """An order to cancel the runs that a group has asked for, and that have not answered.

    The run that asked may be gone, so the order says all that is needed. ``address`` is of the first request that it
    cancels, ``member`` the same. The shards before ``end`` may have been asked. ``depth``, ``tenant`` and ``carried``
    are the asking run's, and the last of them attributes of the order's message. An order of the first form says
    nothing of these two: its ``carried`` is None.
    """

    address: AnswerAddress
    member: Member
    group: GroupPlan
    end: int
    why: str
    depth: int
    tenant: str | None = None
    carried: Mapping[str, Attribute] | None = None

    @property
    def statement(self) -> str:
        """Return what its signature covers, unambiguous and in ASCII."""
        carried = [] if self.carried is None else [attribute for _, attribute in sorted(self.carried.items())]
        return json.dumps([CANCEL_GROUP, self.address.statement, *self._beside(), *carried], separators=(",", ":"))

    def _beside(self) -> list[Any]:
        row = [self.group.as_json(), self.end, self.why, self.depth]
        return row if self.carried is None else [*row, self.tenant, sorted(self.carried)]

    def as_json(self, signature: str | None) -> dict[str, Any]:
        """Return what stands in the ``flowguard`` attribute."""
        return {CANCEL_GROUP: {**self.address._replace(signature=signature).as_json(), "rest": self._beside()}}

    @classmethod
    def parse(cls, data: Any, attributes: Mapping[str, Attribute]) -> GroupCancelOrder:
        """Read an order from what :meth:`as_json` wrote under its key. ``attributes`` are those of its message.

        Raises ValueError for anything else.
        """
        address = AnswerAddress.parse(data)
        if (member := Member.parse(address.name)) is None:
            raise ValueError("names no request of a group")
        match data.get("rest"):
            case [[str(), _, str(), _, str(), str(), _, {}, *_] as row, end, why, depth, *more]:
                group, depth = _plan(row), _whole(depth, "depth", 0, MOST_HOPS)
                end = _whole(end, "end", member.shard + 1, group.shards)
                return cls(address, member, group, end, read_reason(why), depth, *_of_run(more, attributes))
            case _:
                raise ValueError(f"{_ORDER} that does not say which")


def _plan(row: list[Any]) -> GroupPlan:
    """Read the plan, and check what it says. The requests to another flow have no attributes of their own."""
    key, size, to, moment, flow, stage, version, _, *sealed = row
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"{_ORDER} whose key is that of no group")
    parse_destination(to)
    return GroupPlan(
        key,
        _whole(size, "size", 1, MOST_IN_GROUP),
        to,
        _whole(moment, "moment", 0, LATEST_TIME),
        flow,
        stage,
        _whole(version, "version", 1, HIGHEST_VERSION),
        is_sealed=bool(sealed),
    )


def _of_run(more: list[Any], attributes: Mapping[str, Attribute]) -> tuple[str | None, Mapping[str, Attribute] | None]:
    """Read the tenant, and what is carried. The signature is not good where an attribute is not there any more."""
    match more:
        case []:
            return None, None
        case [tenant, [*names], *_]:
            return read_tenant(tenant), {name: attributes[name] for name in attributes if name in names}
        case _:
            raise ValueError(f"{_ORDER} whose end cannot be read")


def _whole(value: object, name: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{_ORDER} whose {name!r} is no whole number from {least} to {most:,}")
    return value
