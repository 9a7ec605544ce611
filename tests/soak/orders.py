"""The requests of a soak: the same for the same seed, down to their ids and to what goes wrong with them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.soak.flow import POLICY, Order

HOPS = (1, 2)


@dataclass(frozen=True)
class Odds:
    """``fail`` is the share of attempts that fail, ``reject`` of requests refused, ``kill`` of deliveries that kill."""

    seed: int = 1
    fail: float = 0.2
    reject: float = 0.05
    kill: float = 0.02


def orders(messages: int, odds: Odds) -> dict[str, Order]:
    """By request id."""
    draw = random.Random(odds.seed)
    return {f"request-{odds.seed}-{number:06d}": _order(draw, odds) for number in range(messages)}


def ends_at(order: Order) -> int | None:
    """The hop at which the request cannot but end among the dead letters; None where it can be completed."""
    for hop in HOPS:
        attempts = {f"{hop}.{attempt}" for attempt in range(1, POLICY.attempts + 1)}
        if order.reject_at == hop or attempts <= set(order.failing):
            return hop
    return None


def _order(draw: random.Random, odds: Odds) -> Order:
    attempts = [f"{hop}.{attempt}" for hop in HOPS for attempt in range(1, POLICY.attempts + 1)]
    return Order(
        account=f"account-{draw.randrange(20)}",
        amount=draw.randint(1, 99),
        reject_at=draw.choice(HOPS) if draw.random() < odds.reject else 0,
        failing=tuple(attempt for attempt in attempts if draw.random() < odds.fail),
    )
