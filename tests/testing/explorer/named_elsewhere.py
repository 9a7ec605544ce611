"""What a handler of another module names."""

from __future__ import annotations


def shouted(text: str) -> str:
    if not text:
        return "nothing"
    return text.upper()


def of_a_module(amount: int) -> int:
    if amount == 0:
        return -1
    return amount


def nothing_names_this() -> None:
    raise AssertionError
