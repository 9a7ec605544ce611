"""TransactWriteItems, which applies all of its actions or none. A refusal gives the reason of each action."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from flowguard.sim.calls import Response
from flowguard.sim.limits.fault import Fault, invalid
from flowguard.sim.limits.items import LARGEST_ITEM, LARGEST_TRANSACTION, MOST_ACTIONS
from flowguard.sim.memory.keys import WrongKeyType
from flowguard.sim.memory.service import Params, Surroundings
from flowguard.sim.memory.table import Table
from flowguard.sim.memory.values import Item
from flowguard.sim.memory.writing import Kind, PlannedWrite, planned

REMEMBERED: Final = 10 * 60 * 1000
"""How long a ClientRequestToken makes a repeated call harmless, ms."""

_KINDS: Final = frozenset({"Put", "Update", "Delete", "ConditionCheck"})


@dataclass(frozen=True, slots=True)
class _Remembered:
    until: int
    actions: str


class Transactions:
    """Applies transactions. ``tokens`` are those of the recent ones; the mapping is replaced, never changed."""

    def __init__(self, around: Surroundings, table: Callable[[Params], Table]) -> None:
        self.tokens: Mapping[str, _Remembered] = {}
        self._around = around
        self._table = table

    def write(self, params: Params) -> Response:
        actions = params["TransactItems"]
        writes = planned_together(actions, self._table)
        if self._repeated(params.get("ClientRequestToken"), actions):
            return {}
        for write, new in zip(writes, judged(writes), strict=True):
            write.table.store(write.key, new)
        self._remember(params.get("ClientRequestToken"), actions)
        return {}

    def _repeated(self, token: str | None, actions: list[Any]) -> bool:
        known = self.tokens.get(token) if token is not None else None
        if known is None or known.until <= self._around.now():
            return False
        if known.actions != _text(actions):
            raise Fault(
                "IdempotentParameterMismatchException",
                "The request uses the same client token as a previous, but non-identical request",
            )
        return True

    def _remember(self, token: str | None, actions: list[Any]) -> None:
        if token is not None:
            now = self._around.now()
            fresh = {name: remembered for name, remembered in self.tokens.items() if remembered.until > now}
            self.tokens = {**fresh, token: _Remembered(now + REMEMBERED, _text(actions))}


def planned_together(actions: list[Any], table: Callable[[Params], Table]) -> list[PlannedWrite]:
    """Plan the writes of one transaction.

    Raises a ValidationException for what is wrong whatever the tables hold.
    """
    if not 0 < len(actions) <= MOST_ACTIONS:
        raise invalid(f"Member must have length less than or equal to {MOST_ACTIONS}; there are {len(actions)}")
    writes = _all_planned(actions, table)
    if len({(write.table.name, write.key) for write in writes}) < len(writes):
        raise invalid("Transaction request cannot include multiple operations on one item")
    if len(writes) > LARGEST_TRANSACTION // LARGEST_ITEM:
        size = sum(write.payload for write in writes)
        if size > LARGEST_TRANSACTION:
            raise invalid(f"Transaction payload size cannot exceed 4MB. Payload Size: {size}")
    return writes


def _all_planned(actions: list[Any], table: Callable[[Params], Table]) -> list[PlannedWrite]:
    """Plan each write. An item whose key is of another type cancels the transaction, unlike all else that is wrong."""
    writes: list[PlannedWrite] = []
    reasons: list[dict[str, Any]] = []
    for action in actions:
        try:
            writes.append(_planned(action, table))
            reasons.append({"Code": "None"})
        except WrongKeyType as fault:
            reasons.append({"Code": "ValidationError", "Message": fault.message})
    _cancel(reasons)
    return writes


def _cancel(reasons: list[dict[str, Any]]) -> None:
    """Raise the Fault of a cancelled transaction, unless no action has a reason to be."""
    codes = [reason["Code"] for reason in reasons]
    if set(codes) != {"None"}:
        raise Fault(
            "TransactionCanceledException",
            f"Transaction cancelled, please refer cancellation reasons for specific reasons [{', '.join(codes)}]",
            CancellationReasons=reasons,
        )


def _planned(action: Mapping[str, Any], table: Callable[[Params], Table]) -> PlannedWrite:
    if len(action) != 1 or not action.keys() <= _KINDS:
        raise invalid("TransactItems can only contain one of Check, Put, Update or Delete")
    ((kind, params),) = action.items()
    return planned(cast("Kind", kind), table(params), params)


def _text(actions: list[Any]) -> str:
    return json.dumps(actions, sort_keys=True, default=repr)


def judged(writes: list[PlannedWrite]) -> list[Item | None]:
    """Return what each item becomes. Raises the Fault that cancels the transaction, with a reason for each action."""
    reasons: list[dict[str, Any]] = []
    news: list[Item | None] = []
    for write in writes:
        reason, new = {"Code": "None"}, None
        try:
            write.check_key()
            if write.holds():
                new = write.new()
            else:
                failed = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
                reason = {**failed, **write.shown_on_failure()}
        except Fault as fault:
            reason = {"Code": "ValidationError", "Message": fault.message}
        reasons.append(reason)
        news.append(new)
    _cancel(reasons)
    return news
