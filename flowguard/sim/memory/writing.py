"""One write to one item. It puts, updates, deletes or checks, the same alone and in a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from flowguard.sim.limits.fault import invalid
from flowguard.sim.limits.items import TOO_LARGE, TOO_LARGE_TO_UPDATE
from flowguard.sim.limits.texts import byte_size
from flowguard.sim.memory.keys import Key
from flowguard.sim.memory.paths import projected
from flowguard.sim.memory.requests import Bound, bind
from flowguard.sim.memory.service import Params
from flowguard.sim.memory.table import Table, check_size
from flowguard.sim.memory.values import Item, item_weight, shown_item, stored_item, weight

Kind: TypeAlias = Literal["Put", "Update", "Delete", "ConditionCheck"]


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A valid write. ``given`` is the item to be put, or the key."""

    kind: Kind
    table: Table
    key: Key
    given: Item
    bound: Bound
    params: Params

    @property
    def old(self) -> Item | None:
        row = self.table.rows.get(self.key)
        return row.item if row is not None else None

    def check_key(self) -> None:
        self.table.schema.check_sizes(self.given)

    @property
    def payload(self) -> int:
        """Return the bytes that count towards a transaction's limit.

        They are those of the item that is put, or of the key, expressions and values.
        """
        given = item_weight(self.given)
        if self.kind == "Put":
            return given
        texts = (self.params.get("UpdateExpression", ""), self.params.get("ConditionExpression", ""))
        return given + sum(map(byte_size, texts)) + sum(map(weight, self.bound.values.values()))

    def holds(self) -> bool:
        return self.bound.holds(self.old)

    def new(self) -> Item | None:
        """Return the item as the write leaves it.

        It is None where the write deletes. Raises a Fault if the write cannot be applied.
        """
        match self.kind:
            case "Put":
                return self.table.check(self.given)
            case "Update":
                base = self.old or self.given
                update = self.bound.update
                new = update.applied(base, self.bound.values) if update else dict(base)
                check_size(new, TOO_LARGE_TO_UPDATE)
                return self.table.check(new)
            case "Delete":
                return None
            case _:
                return self.old

    def shown_on_failure(self) -> dict[str, Any]:
        """Return what a failed condition reports beside its code."""
        old = self.old
        if old is None or self.params.get("ReturnValuesOnConditionCheckFailure") != "ALL_OLD":
            return {}
        return {"Item": shown_item(old)}

    def answer(self, old: Item | None, new: Item | None) -> dict[str, Any]:
        wanted = self.params.get("ReturnValues", "NONE")
        item = new if wanted.endswith("NEW") else old
        if wanted == "NONE" or item is None:
            return {}
        if wanted.startswith("UPDATED"):
            touched = self.bound.update.touched if self.bound.update else ()
            item = projected(item, {path[:1] for path in touched})
        return {"Attributes": shown_item(item)} if item else {}


def planned(kind: Kind, table: Table, params: Params) -> PlannedWrite:
    """Plan a write. Raises a ValidationException for what is wrong whatever the table holds."""
    bound = bind(params)
    if kind == "Put":
        given = stored_item(params["Item"])
        table.schema.check(given)
        check_size(given, TOO_LARGE)
    else:
        given = table.schema.given(params["Key"])
    if bound.update is not None:
        for name in table.schema.names:
            if any(path[0] == name for path in bound.update.touched):
                raise invalid(
                    f"One or more parameter values were invalid: Cannot update attribute {name}. "
                    "This attribute is part of the key"
                )
    if kind != "Update" and params.get("ReturnValues", "NONE") not in ("NONE", "ALL_OLD"):
        raise invalid("ReturnValues can only be ALL_OLD or NONE")
    return PlannedWrite(kind, table, table.schema.of(given), given, bound, params)
