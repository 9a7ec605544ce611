"""A mutant: flowguard with one guard taken away, and how to tell whether a schedule ever meets that guard."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

ROOT = Path(__file__).parents[3]


class Change(Protocol):
    """What is changed in the running process."""

    def apply(self) -> None: ...

    def undo(self) -> None: ...


class Scope(NamedTuple):
    """The names of a function: its ``variables``, and what is ``outside`` of it, in its module or built in."""

    variables: Collection[str]
    outside: Collection[str]

    def may_have_renamed(self, old: str, new: str) -> bool:
        """Answer whether ``new`` is a variable that may have been called ``old``."""
        is_free = old.isidentifier() and old not in self.variables and old not in self.outside
        return is_free and new in self.variables


NO_SCOPE: Final = Scope((), ())
"""Of a text that no function has."""


@dataclass(frozen=True)
class Mutant:
    """``name`` stays the same while lines move: where, what stood there, what becomes of it. So it does while variables
    are renamed, if a table has it (``tests.proofs.prove.renamed``).

    ``number`` is by which probes name it (``tests.proofs.prove.probes``).
    """

    number: int
    name: str
    file: str
    line: int
    change: Change
    scope: Scope = NO_SCOPE

    @property
    def place(self) -> str:
        """``flowguard/protocol/claims.py:31``"""
        return f"{self.file}:{self.line}"

    @property
    def function(self) -> str:
        """``protocol.claims.decide``"""
        return self.name.partition(":")[0]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The process without that guard, for as long as the block runs."""
        self.change.apply()
        try:
            yield
        finally:
            self.change.undo()


def within(path: str) -> str:
    """A file's path as people write it here."""
    return Path(path).resolve().relative_to(ROOT).as_posix()
