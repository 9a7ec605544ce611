"""A row of the table, and the destinations that its call may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.refusals.outcome import Outcome

TABLE = "items"
BUCKET = "long-texts"


@dataclass(frozen=True)
class Places:
    """Where one engine's clients find what is there: the table's keys are ``pk`` and ``sk``, ``small`` takes messages
    of 1,024 bytes."""

    engine: str
    client: Callable[[str], Any]
    queue: str = ""
    small: str = ""
    fifo: str = ""
    topic: str = ""
    fifo_topic: str = ""


@dataclass(frozen=True)
class Case:
    """``then`` is what AWS documents. ``but`` is what an engine of others says instead."""

    service: str
    name: str
    call: Callable[[Any, Places], Any]
    then: Outcome
    but: Mapping[str, Outcome] = field(default_factory=dict)

    def expected(self, engine: str) -> Outcome:
        return self.but.get(engine, self.then)
