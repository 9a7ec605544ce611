"""What the endings of a batch's records have to send, while further records are begun."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowguard.worker.dispatch import dispatch
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Services

MOST_DUE: Final = 100
"""So many sends wait for those of further records. More would cost no call less."""

RESERVE_MS: Final = 1_000
"""Kept of an invocation for sending what was committed: no further record is begun when less is left."""

CALL_MS: Final = 25
"""Kept for each call that sends ten which are due, beside that."""

_A_CALL: Final = 10


class DueSends:
    """The sends that are due. Those of FIFO queues are left out, for they are sent before the next record is begun."""

    def __init__(self, services: Services, emitter: Emitter) -> None:
        self._services = services
        self._emitter = emitter
        self._waiting: dict[int, Ending] = {}
        self._number = 0

    @property
    def reserve_ms(self) -> int:
        """Return how long it may take to send them."""
        return RESERVE_MS + CALL_MS * (self._number // _A_CALL)

    def add(self, endings: Mapping[int, Ending]) -> Mapping[int, Ending]:
        """Take further endings by the places of their records. Return them, or all that waited once those are sent.

        A batch that sent all of its messages at its end would send none where its time is too short for all, and the
        next invocation would begin with as many.
        """
        due = {place: ending for place, ending in endings.items() if ending.sends and not ending.envelope.is_fifo}
        self._waiting |= due
        self._number += sum(len(ending.sends) for ending in due.values())
        if self._number < MOST_DUE:
            return endings
        waiting, self._waiting, self._number = self._waiting, {}, 0
        sent = dispatch(self._services, self._emitter, list(waiting.values()))
        return {**endings, **{place: end._replace(sends=()) for place, end in zip(waiting, sent, strict=True)}}
