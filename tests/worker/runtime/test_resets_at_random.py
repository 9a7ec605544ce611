"""A cache that is reset, killed and asked in any order: it ends with what is true, and everybody is answered."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest

from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.verdicts import ResetVerdict
from flowguard.worker.kills import MOST_KILLS
from tests.proofs.soak.mapping import as_record
from tests.scene import OrderState, Scene, record, scene
from tests.worker.runtime.mishaps import Died
from tests.worker.runtime.test_callers import answers, caller
from tests.worker.runtime.test_resets import client, triggered_cache

CALLERS: Final = 3
WILD: Final = 40
"""Steps in which anything may happen. After them messages are only delivered."""

MOST: Final = 400


class World:
    """A source that changes with each reset, the readings of it, and the records that are under way."""

    def __init__(self, at: Scene, draw: random.Random) -> None:
        self._at, self._draw = at, draw
        self.source = 0
        self.needed = 0
        self.readings: list[int] = []
        self._records = [record(at.message(reply_to="sqs:completed"))]
        self._asked = 0
        self._deaths = 0
        at.script.pricing = self._read

    def step(self) -> None:
        """Let one thing happen."""
        match self._draw.choices(("ask", "reset", "wait", "deliver"), (1, 1, 1, 7))[0]:
            case "ask" if self._asked < CALLERS:
                self._asked += 1
                asked = caller(self._at, self._asked)
                self._records.append(record(asked, place=self._asked))
            case "reset":
                self._reset()
            case "wait":
                self._at.clock.advance(seconds=self._draw.choice((1, 10, 31)))
            case _:
                self.deliver(dies=self._draw.random() < 0.3)

    def deliver(self, *, dies: bool = False) -> None:
        """Deliver one of the records. Its function may die at any call."""
        self._collect()
        if not self._records:
            return
        delivered = self._draw.choice(self._records)
        dies = dies and self._deaths < MOST_KILLS - 1  # so many in a row end a hop by right
        try:
            with intercept(_dies_at(self._draw.randrange(1, 7), after=self._draw.random() < 0.5) if dies else _lives):
                answer = self._at.handler({"Records": [delivered]}, None)
        except Died:
            self._deaths += 1
            return
        if not answer["batchItemFailures"]:
            self._records.remove(delivered)

    @property
    def is_at_rest(self) -> bool:
        self._collect()
        return not self._records and self._asked == CALLERS

    def ask_the_rest(self) -> None:
        while self._asked < CALLERS:
            self._asked += 1
            self._records.append(record(caller(self._at, self._asked), place=self._asked))

    def _read(self, step: Step[OrderState]) -> None:
        if self._draw.random() < 0.2:
            self._reset()
        self.readings.append(step.once("read", lambda: self.source))
        if self._draw.random() < 0.2:
            self._reset()

    def _reset(self) -> None:
        self.source += 1
        if client(self._at).reset(self._at.flow, "o1") is ResetVerdict.RESTARTED:
            self.needed = self.source

    def _collect(self) -> None:
        for queue in ("price-order", "close-order"):
            self._records += [as_record(sent, f"/{queue}") for sent in self._at.sent(queue)]


def _lives(_: ApiCall, proceed: Proceed, /) -> Response:
    return proceed()


def _dies_at(number: int, *, after: bool) -> Any:
    calls: Iterator[int] = iter(range(1, number + 1))

    def interceptor(_: ApiCall, proceed: Proceed, /) -> Response:
        if next(calls, None) != number:
            return proceed()
        if after:
            proceed()
        raise Died

    return interceptor


@pytest.mark.parametrize("seed", range(40))
def test_it_ends_with_what_was_read_after_the_last_reset_and_all_are_answered(seed: int) -> None:
    with scene(triggered_cache) as at:
        world = World(at, random.Random(seed))
        for _ in range(WILD):
            world.step()
        world.ask_the_rest()
        for _ in range(MOST):
            if world.is_at_rest:
                break
            at.clock.advance(seconds=31)
            world.deliver()
        item = at.item()
        assert item is not None
        assert item.status is Status.COMPLETED
        assert world.readings[-1] >= world.needed
        assert {who for who, _, _ in answers(at)} == {"run-1", *(f"caller-{n}" for n in range(1, CALLERS + 1))}
