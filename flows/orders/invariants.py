"""What must hold of the shop's tables at every end, for the explorer."""

from __future__ import annotations

from collections import Counter

from flowguard.testing import View, invariant
from flows.orders.shop import ORDERS, STOCK


@invariant
def what_was_received_is_there_or_sold(view: View) -> str | None:
    for row in view.table(STOCK):
        if not 0 <= row["pieces"] == row.get("received", 0) - row.get("sold", 0):
            return f"{row} do not add up"
    return None


@invariant
def what_was_sold_is_what_the_orders_have(view: View) -> str | None:
    ordered: Counter[str] = Counter()
    for order in view.table(ORDERS):
        ordered.update(order["lines"])
        if order["pieces"] != sum(order["lines"].values()):
            return f"{order} does not add up"
    sold = Counter({row["sku"]: row.get("sold", 0) for row in view.table(STOCK)})
    return None if +sold == +ordered else f"{dict(sold)} were sold, and {dict(ordered)} ordered"
