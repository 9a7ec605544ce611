"""The orders of a soak: the same for the same seed, down to their ids and to what goes wrong with them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from tests.proofs.soak.odds import Odds
from tests.proofs.soak.orders.flow import Order, Orders
from tests.proofs.soak.request import Asked, ending, trouble


def orders(number: int, odds: Odds) -> dict[str, Order]:
    """By request id."""
    draw, ends = random.Random(f"{odds.seed} orders"), random.Random(f"{odds.seed} endings of orders")
    return {
        f"order-{odds.seed}-{place:06d}{ending(ends, odds)}": Order(
            account=f"account-{draw.randrange(20)}", amount=draw.randint(1, 99), trouble=trouble(draw, odds)
        )
        for place in range(number)
    }


def sent(asked: Mapping[str, Order]) -> Iterator[Asked]:
    """One after the other, each once."""
    for place, (request_id, order) in enumerate(asked.items()):
        yield Asked(place, Orders, request_id, order)
