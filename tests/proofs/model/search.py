"""Breadth first, every state once: the way to the first fault is a shortest one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, TypeVar

from tests.garbage import unlooked_for

State = TypeVar("State", bound=Hashable)


class Found(NamedTuple):
    """``way`` are the labels of the steps to the fault; both are empty where there is none."""

    states: int
    seconds: float
    fault: str = ""
    way: tuple[str, ...] = ()


class BoundReached(Exception):
    """There are more states than the bound allows, so the search would prove nothing."""


@unlooked_for()
def search(
    start: State,
    steps: Callable[[State], Iterator[tuple[str, State]]],
    fault_of: Callable[[State, bool], str],
    bound: int = 2_000_000,
) -> Found:
    """``fault_of`` is asked about each state, and told whether it has any step."""
    began = time.perf_counter()
    came: dict[State, tuple[str, State] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        moved = False
        for label, after in steps(state):
            moved = True
            if after not in came:
                came[after] = (label, state)
                waiting.append(after)
        if fault := fault_of(state, moved):
            return Found(len(came), time.perf_counter() - began, fault, _way(came, state))
        if len(came) > bound:
            raise BoundReached(f"more than {bound:,} states")
    return Found(len(came), time.perf_counter() - began)


def _way(came: dict[State, tuple[str, State] | None], state: State) -> tuple[str, ...]:
    labels = []
    while (step := came[state]) is not None:
        label, state = step
        labels.append(label)
    return tuple(reversed(labels))
