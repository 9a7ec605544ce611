"""A handler, what it names, and what nothing names: for tests of which lines ran."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

from tests.testing.explorer import named_elsewhere
from tests.testing.explorer.named_elsewhere import shouted


def logged(function: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(function)
    def wrapper(order: Any) -> str:
        return function(order)

    return wrapper


class Prices:
    @cached_property
    def tea(self) -> int:
        if type(self) is not Prices:
            return 3
        return 4

    @property
    def cake(self) -> int:
        return 5

    @staticmethod
    def of(order: Any) -> Prices:
        if order is None:
            raise ValueError("no order")
        return Prices()

    def known(self, sku: str) -> int:
        if sku != "tea":
            return 0
        return self.tea


PRICES = Prices()


@functools.cache
def cached(amount: int) -> int:
    if amount < 0:
        return -amount
    return amount


@logged
def named(order: Any) -> str:
    if order == "never":
        return "never"
    return shouted(str(order))


def nothing_names_this() -> str:
    return "unknown"


def handler(event: Any, context: Any) -> None:
    def inner(amount: int) -> int:
        return amount + Prices.of(event).tea

    threading.Thread(target=in_a_thread).start()
    named(named_elsewhere.of_a_module(inner(cached(1))))


def in_a_thread() -> None:
    "this runs"


def asks_an_object(event: Any, context: Any) -> None:
    PRICES.known("tea")
