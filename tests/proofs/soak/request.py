"""A request of a soak, and what is to go wrong with it: it stands in the request, so that it goes wrong every time."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from flowguard import Reject, Step
from flowguard.flow import AnyFlow
from flowguard.testing import hostile
from tests.proofs.soak.odds import Odds
from tests.proofs.soak.places import HOPS, POLICY


class Trouble(BaseModel):
    """``failing`` are the attempts that fail, each as ``<hop>.<attempt>``; ``reject_at`` is the hop that refuses.

    ``words`` names the hostile text that the error has; ``note`` is one that travels with the request.
    """

    reject_at: int = 0
    failing: tuple[str, ...] = ()
    words: str = ""
    note: str = ""

    def strike(self, step: Step[Any]) -> None:
        if f"{step.hop}.{step.attempt}" in self.failing:
            raise ConnectionError(self._said("the other side does not answer"))
        if self.reject_at == step.hop:
            raise Reject(self._said("the other side says no"))

    def _said(self, otherwise: str) -> str:
        return hostile.TEXTS[self.words] if self.words else otherwise

    @property
    def ends_at(self) -> int | None:
        """The hop at which the request cannot but end among the dead letters; None where it can be completed."""
        for hop in HOPS:
            attempts = {f"{hop}.{attempt}" for attempt in range(1, POLICY.attempts + 1)}
            if self.reject_at == hop or attempts <= set(self.failing):
                return hop
        return None


def trouble(draw: random.Random, odds: Odds) -> Trouble:
    attempts = [f"{hop}.{attempt}" for hop in HOPS for attempt in range(1, POLICY.attempts + 1)]
    return Trouble(
        reject_at=draw.choice(HOPS) if draw.random() < odds.reject else 0,
        failing=tuple(attempt for attempt in attempts if draw.random() < odds.fail),
        words=draw.choice(list(hostile.TEXTS)) if draw.random() < odds.hostile else "",
        note=hostile.SENDABLE.drawn(draw.random()) if draw.random() < odds.hostile else "",
    )


HOSTILE_ID = (
    f"{hostile.SENDABLE['quotes']}#|/ \\%{hostile.SENDABLE['astral characters']}{hostile.SENDABLE['combining marks']}"
)
"""The end of some request ids: everything but the dot, at which the sums take ids apart."""


def ending(draw: random.Random, odds: Odds) -> str:
    return HOSTILE_ID if draw.random() < odds.hostile else ""


class Asked(NamedTuple):
    """What is sent: ``position`` orders all sends of a soak, ``moment`` is in ms after the soak's first one."""

    position: float
    flow: AnyFlow
    request_id: str
    payload: BaseModel
    moment: int = 0
    delay: int = 0


class Requests(NamedTuple):
    """``sends`` in their order, copies included. Orders, page requests and waits by request id."""

    orders: Mapping[str, Any]
    pages: Mapping[str, Any]
    waits: Mapping[str, Any]
    sends: Sequence[Asked]
