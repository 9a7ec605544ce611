"""A sum that must hold, with what was expected and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """``strays`` names a few of those that break it."""

    name: str
    expected: int
    found: int
    strays: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.expected == self.found and not self.strays

    def __str__(self) -> str:
        such_as = f", such as {', '.join(self.strays)}" if self.strays else ""
        says = "ok" if self.holds else f"WRONG: expected {self.expected}{such_as}"
        return f"{self.name:<66} {self.found:>7}  {says}"


def same(name: str, expected: Iterable[str], found: Iterable[str]) -> Check:
    """Both sets have the same members."""
    left, right = frozenset(expected), frozenset(found)
    return Check(name, len(left), len(right), tuple(sorted(left ^ right)[:5]))


def none(name: str, strays: Iterable[str]) -> Check:
    """There is none of these."""
    found = sorted(strays)
    return Check(name, 0, len(found), tuple(found[:5]))


def once(name: str, times: Iterable[tuple[str, int]]) -> Check:
    """Each of these happened one time."""
    counted = list(times)
    wrong = tuple(f"{who}: {how_often} times" for who, how_often in counted if how_often != 1)
    return Check(name, len(counted), sum(how_often for _, how_often in counted), wrong[:5])
