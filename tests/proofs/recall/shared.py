"""A module that handlers import, as a repository of theirs would have it: what it keeps outlives a record."""

from __future__ import annotations

from typing import Any, ClassVar


class Seen:
    """What was seen by this process."""

    skus: ClassVar[set[str]] = set()


class Buffer:
    """Orders that wait to be written together."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []


buffer = Buffer()
_prices: dict[str, str] = {}


def price(dynamodb: Any, sku: str) -> str:
    """Return a price, which is read once."""
    if sku not in _prices:
        _prices[sku] = dynamodb.get_item(TableName="prices", Key={"sku": {"S": sku}})["Item"]["price"]["N"]
    return _prices[sku]
