"""What must hold after a race of limits: never more at work than places, and no order lost or charged twice. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.proofs.races.limits.at_work import beside, within, works
from tests.proofs.races.limits.flow import AT_ONCE, COUNT, PER
from tests.proofs.races.limits.mail import order_of
from tests.proofs.races.limits.run import Outcome
from tests.proofs.races.reconcile import Check, check

MOST: Final = "never more handlers are at work for a customer than it has places"
RATE: Final = "never more handlers begin for a customer in any interval than may"
ONCE: Final = "each order is charged once"
ENDS: Final = "each order's run is COMPLETED"


def reconcile(outcome: Outcome) -> list[Check]:
    return list(_checks(outcome))


def _checks(outcome: Outcome) -> Iterator[Check]:
    at_work = list(works(outcome.journal))
    counted = [(work, beside(work, at_work)) for work in at_work]
    yield check(MOST, at_work, (f"{work}: {number}" for work, number in counted if number > AT_ONCE))
    begun = [(work, within(work, at_work, PER)) for work in at_work]
    yield check(RATE, at_work, (f"{work}: {number}" for work, number in begun if number > COUNT))
    orders = [order_of(number).id for number in range(outcome.asked)]
    charged = {order: outcome.rows.get(order, {}).get("charged", 0) for order in orders}
    yield check(ONCE, orders, (f"{order}: {times} times" for order, times in charged.items() if times != 1))
    ends = {order: outcome.items.get(f"run#limited#{order}") for order in orders}
    strays = (order for order, item in ends.items() if item is None or item.status != "COMPLETED")
    yield check(ENDS, orders, strays)
