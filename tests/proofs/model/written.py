"""What a release and a note write, read from the very calls that the store makes: it stands in their expressions."""

from __future__ import annotations

from typing import Any

from flowguard.aws.commit_call import note_kills_call, release_call
from flowguard.protocol.run import Claim, RunItem
from tests.aws.states import REST


def released(item: RunItem, claim: Claim, now: int, *, failed: bool) -> RunItem:
    return _written(item, release_call("table", claim, now, rest=REST if failed else None))


def noted(item: RunItem, claim: Claim) -> RunItem:
    return _written(item, note_kills_call("table", claim))


def _written(item: RunItem, call: Any) -> RunItem:
    changes = call["UpdateExpression"].removeprefix("SET ").split(", ")
    written = dict(change.split(" = ") for change in changes)
    if written.pop("back_off", None) is not None:
        item = item._replace(back_off=REST)
    values: Any = {name: int(call["ExpressionAttributeValues"][value]["N"]) for name, value in written.items()}
    return item._replace(**values)
