"""A mutant: what it breaks, and what finds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from tests.proofs.model.actions import Environment

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutant:
    """``caught_by`` names the scenario that shows the fault soonest; a mutant without one says in ``harmless`` why."""

    name: str
    about: str
    patches: tuple[Patch, ...] = ()
    environment: Environment = field(default_factory=Environment)
    caught_by: str = ""
    harmless: str = ""

    @contextmanager
    def at_work(self) -> Iterator[Environment]:
        with ExitStack() as stack:
            for target, name, broken in self.patches:
                stack.enter_context(patch.object(target, name, broken))
            yield self.environment
