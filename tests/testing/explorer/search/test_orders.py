"""Of orders that commute one is run, and no end is lost by that."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.search.right_ends import RightEnds
from tests.testing.explorer.interleaved import CountStock
from tests.testing.explorer.interleaved import Order as Stocked
from tests.testing.explorer.search.worlds import Booked, Kept, Order, Replaced, runs_of


class EveryOrder(RightEnds):
    """The whole search, which takes each order for one that may end differently."""

    def _commutes(self, history: Any) -> bool:
        return False


def learnt(kind: type[RightEnds], flow: Any, orders: Any) -> RightEnds:
    with runs_of(flow, *orders) as runs:
        right = kind(runs)
        right.learn(runs.run_one_by_one(Schedule()), lambda: False)
        return right


def wholes(right: RightEnds) -> set[str]:
    return {order.end.digest for order in right.ordered if order.is_whole}


o1, o2 = Order(order_id="o1"), Order(order_id="o2")


@pytest.mark.parametrize(
    ("flow", "orders", "run", "of"),
    [
        (Booked, (o1, o2), 1, 6),
        (Booked, (o1, o2, Order(order_id="o3")), 1, 90),
        (Booked, (o1, o1), 5, 5),
        (Replaced, (o1, o2), 6, 6),
        (Replaced, (o1, o2, Order(order_id="o3", shelf="b")), 12, 90),
        (CountStock, (Stocked(order_id="o1"), Stocked(order_id="o2", amount=2)), 1, 6),
        (Kept, (o1, o2), 2, 2),
    ],
    ids=["apart", "three apart", "one object", "one item", "one of three apart", "numbers", "kept in a module"],
)
def test_the_orders_that_are_run_have_all_ends_that_there_are(flow: Any, orders: Any, run: int, of: int) -> None:
    reduced, every = learnt(RightEnds, flow, orders), learnt(EveryOrder, flow, orders)
    assert (reduced.has_all, every.has_all) == (True, True)
    assert reduced.ends.keys() == every.ends.keys()
    assert wholes(reduced) == wholes(every)
    assert (reduced.orders, every.orders) == (run, of)
