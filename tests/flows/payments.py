"""What the tests of TakePayment read of a result."""

from __future__ import annotations

from typing import Final

from flowguard.testing import FlowResult

REPLIES: Final = "shop-replies"


def balance(result: FlowResult, merchant: str = "tea-shop") -> float | None:
    found = result.item("merchant-balances", merchant_id=merchant)
    return None if found is None else found["balance"]


def delays(result: FlowResult) -> list[int]:
    """What each retry waited for."""
    return [one.delay for one in result.messages if one.to == "payments"]
