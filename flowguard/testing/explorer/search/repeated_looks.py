"""Looks at a wait that find it as the look before has: a deadline that lies ahead comes every quarter of an hour.

::

    waits   look  look  look  look … look   times out
            └─ tried ─┘ └ not tried ┘ └ tried

What goes wrong at one of those in the middle goes wrong at its neighbours, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from flowguard.protocol.run import RunItem
from flowguard.testing.explorer.record.history import DeliveryRecord, History
from flowguard.testing.explorer.record.wait_messages import is_deadline
from flowguard.wire.answer_address import AnswerAddress

_FIRST: Final = 2
"""So many looks are tried at the beginning: the second is the first that comes after one."""


def repeated_looks(history: History) -> frozenset[int]:
    """Return the numbers of the looks between which nothing else happened, but for the first two and the last."""
    changed = set(_changing(history))
    looks = [
        (number, _looks_at(delivery) if delivery.worker not in changed else None)
        for number, delivery in enumerate(history.deliveries, 1)
    ]
    blocks = groupby(looks, key=lambda look: look[1] is not None)
    return frozenset(number for is_look, block in blocks if is_look for number in _between(list(block)))


def _changing(history: History) -> Iterator[int]:
    """Yield the workers that changed a run otherwise than to note that they have looked."""
    before: dict[str, RunItem | None] = {}
    for version in history.versions:
        was, now = before.get(version.key), version.item
        before[version.key] = now
        if was is None or now is None or not _are_alike(was, now):
            yield version.worker


def _are_alike(was: RunItem, now: RunItem) -> bool:
    """Answer whether a run waits as before, whatever its wait notes of looks."""
    if was.wait is None or now.wait is None:
        return False
    is_over = was.wait.waiting != now.wait.waiting or was.wait.timed_out != now.wait.timed_out
    return not is_over and was._replace(wait=None) == now._replace(wait=None)


def _between(looks: Sequence[tuple[int, AnswerAddress | None]]) -> Iterator[int]:
    """Yield of each wait the looks but for the first and the last ones."""
    waits: dict[AnswerAddress | None, list[int]] = {}
    for number, wait in looks:
        waits.setdefault(wait, []).append(number)
    for numbers in waits.values():
        yield from numbers[_FIRST:-1]


def _looks_at(delivery: DeliveryRecord) -> AnswerAddress | None:
    """Return the wait that a delivery looks at. None for anything else."""
    address = delivery.address
    return address if address is not None and is_deadline(address) else None
