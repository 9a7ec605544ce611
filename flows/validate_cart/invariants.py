"""What must hold of the carts and of the day's totals at every end, for the explorer."""

from __future__ import annotations

from flowguard.testing import View, invariant
from flows.validate_cart.flow import CARTS, TOTALS
from flows.validate_cart.models import CartStatus


@invariant
def the_days_revenue_is_that_of_the_confirmed_carts(view: View) -> str | None:
    confirmed = [row["total"] for row in view.table(CARTS) if row["status"] == CartStatus.CONFIRMED]
    revenue = [row["revenue"] for row in view.table(TOTALS)]
    return None if sum(confirmed) == sum(revenue) else f"{confirmed} are confirmed, and {revenue} is the revenue"


@invariant
def a_cart_costs_what_its_lines_cost(view: View) -> str | None:
    for row in view.table(CARTS):
        lines = sum(line["unit_price"] * line["quantity"] for line in row["lines"])
        if lines != row["total"]:
            return f"{row['cart_id']} costs {row['total']}, and its lines cost {lines}"
    return None
