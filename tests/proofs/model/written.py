"""What a release writes, read from the very call that the store makes: it stands nowhere but in its expression."""

from __future__ import annotations

from typing import Any

from flowguard.aws.store import DynamoDBStore
from flowguard.protocol.run import Claim, RunItem


class _Client:
    """Takes one call, and makes none."""

    def __init__(self) -> None:
        self.call: Any = None

    def update_item(self, **call: Any) -> dict[str, Any]:
        self.call = call
        return {}


def released(item: RunItem, claim: Claim, now: int) -> RunItem:
    client: Any = _Client()
    nothing_to_pack: Any = None
    DynamoDBStore(client, "table", nothing_to_pack).release(claim, now, failed=True)
    changes = client.call["UpdateExpression"].removeprefix("SET ").split(", ")
    written = dict(change.split(" = ") for change in changes)
    values: Any = {name: int(client.call["ExpressionAttributeValues"][value]["N"]) for name, value in written.items()}
    return item._replace(**values)
