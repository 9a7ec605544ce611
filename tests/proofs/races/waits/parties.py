"""Those who are asked: when they answer, how often, and with what. Each answer has a text of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tests.proofs.races.shared_file import Record
from tests.proofs.races.waits.flow import ANSWERED, DIRECT, EVENTS, WITHIN, direct_id
from tests.proofs.races.waits.post import queue_of

NEVER, TWICE, FAILS, TOO_EARLY = 0.08, 0.3, 0.15, 0.2

SPREAD: Final = 30
"""In ticks: how near to the deadline those answers come that are to meet it."""

AT_ONCE, AT_THE_END = 0.4, 0.5
"""The shares of answers that come at once, and about when the deadline does; the others come some time before it."""


class Given(NamedTuple):
    """An answer on its way: the queue that brings it, its body, and when it is due, in ticks from now."""

    queue: str
    body: dict[str, Any]
    ticks: int


class Parties:
    """One process's part of them."""

    def __init__(self, process: str, draw: random.Random) -> None:
        self._process, self._draw = process, draw
        self._answers = 0

    def answers_to(self, record: Record, now: int) -> Iterator[Given]:
        """What the party does that a record was sent to."""
        body = json.loads(record["body"])
        match queue_of(record):
            case "asked":
                yield from self._some(ANSWERED, {"ref": body["ref"]}, body["until"] - now)
            case "called":
                yield from self._some(DIRECT, {"id": body["id"]}, body["until"] - now, may_fail=False)
            case _:
                return

    def begun(self, request: str, kind: int) -> Iterator[Given]:
        """What happens by itself when a request is made: an event that nobody waits for yet, or an answer to it."""
        if kind == 2:
            yield from self._some(EVENTS, {"of": request}, WITHIN, may_fail=False)
        elif self._draw.random() < TOO_EARLY:
            yield Given(DIRECT, {"id": direct_id(request), **self._value()}, self._draw.randrange(100))

    def _some(self, queue: str, about: dict[str, str], left: int, *, may_fail: bool = True) -> Iterator[Given]:
        if self._draw.random() < NEVER:
            return
        for _ in range(1 + (self._draw.random() < TWICE)):
            fails = may_fail and self._draw.random() < FAILS
            yield Given(queue, {**about, **({"error": "no"} if fails else self._value())}, self._ticks(left))

    def _value(self) -> dict[str, str]:
        self._answers += 1
        return {"value": f"{self._process}-{self._answers}"}

    def _ticks(self, left: int) -> int:
        """At once, some time before the deadline, or about when it comes."""
        luck = self._draw.random()
        if luck < AT_ONCE or left <= 0:
            return 0
        return max(
            0, round(self._draw.gauss(left, SPREAD)) if luck < AT_ONCE + AT_THE_END else self._draw.randrange(left)
        )
