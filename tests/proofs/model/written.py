"""What a release writes, read from the very call that the store makes: it stands nowhere but in its expression."""

from __future__ import annotations

from typing import Any

from flowguard.aws.commit_call import release_call
from flowguard.protocol.run import Claim, RunItem


def released(item: RunItem, claim: Claim, now: int) -> RunItem:
    call = release_call("table", claim, now, failed=True)
    changes = call["UpdateExpression"].removeprefix("SET ").split(", ")
    written = dict(change.split(" = ") for change in changes)
    values: Any = {name: int(call["ExpressionAttributeValues"][value]["N"]) for name, value in written.items()}
    return item._replace(**values)
