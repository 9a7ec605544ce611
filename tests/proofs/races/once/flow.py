"""What the processes call: a function that charges for an order, once for each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeAlias

from flowguard.once_function import OnceFunction, OnceServices, once

NAME: Final = "charge"
CHARGED: Final = "race-charged"
"""A row for each call of the function, by its owner."""

CALLS: Final = 8
"""For each order, one of each process."""

LEASE: Final = 100
"""In ticks of the shared clock."""

FULL, OTHER = 5, 7
"""Amounts: a fifth of the calls for an order ask for the other one."""


Order: TypeAlias = dict[str, str | int]
"""An ``order`` and its ``amount``. What the function returns says ``by`` which call it was made, too."""


class Declined(Exception):
    """The function's own error: the next call begins at once."""


def guarded(services: OnceServices, charge: Callable[[Order], Order]) -> Any:
    """Return the function under ``@once``, as one process calls it."""

    @once(NAME, key="order", payload="amount", lease=timedelta(milliseconds=LEASE))
    def once_charged(order: Order) -> Order:
        return charge(order)

    found: OnceFunction[[Order], Order] = once_charged.using(services)
    return found


def name_of(number: int) -> str:
    return f"order-{number // CALLS}"


def asked(number: int) -> Order:
    return {"order": name_of(number), "amount": OTHER if number % 5 == 0 else FULL}
