"""The order in which workers run tests: what takes longest is begun first, and not by one worker alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

Item = TypeVar("Item")


class EarlyStarts:
    """A plugin that lets each worker begin with its share of the tests that are marked as ``proof("…", first=True)``.

    One of them that is begun last keeps all other workers waiting for its end.
    """

    @pytest.hookimpl(trylast=True)  # when what is not chosen is gone
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = in_shares(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), is_first)


def is_first(item: pytest.Item) -> bool:
    return any(mark.kwargs.get("first") for mark in item.iter_markers("proof"))


def in_shares(items: Sequence[Item], workers: int, comes_first: Callable[[Item], bool]) -> list[Item]:
    """Return the items in parts of one size for each worker, with its share of those that come first at its beginning.

    xdist gives out its parts so: ``--dist=worksteal`` cuts the list into as many pieces as there are workers.
    """
    first, rest = [item for item in items if comes_first(item)], [item for item in items if not comes_first(item)]
    ordered: list[Item] = []
    for worker in range(workers):
        share, end = first[worker::workers], len(items) * (worker + 1) // workers
        others = max(0, end - len(ordered) - len(share))
        ordered += [*share, *rest[:others]]
        rest = rest[others:]
    return [*ordered, *rest]
