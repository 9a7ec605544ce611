"""What a program is, and what it has seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from flowguard.probe.lab import Lab


class Saw(NamedTuple):
    """What a program has seen. ``as_described`` says that it is the row's behaviour."""

    as_described: bool
    what: str


Program = Callable[["Lab"], Saw]


class Probe(NamedTuple):
    """A program for the row of its name.

    ``cents`` is what it costs at AWS at most, in US cents, and ``seconds`` how long it takes there. ``services`` are
    those that it calls, by boto3's names.
    """

    name: str
    about: str
    services: tuple[str, ...]
    cents: float
    seconds: int
    run: Program


PROBES: Final[dict[str, Probe]] = {}
"""The programs by name, in the order of their modules."""


def asks(name: str, *services: str, cents: float = 0.01, seconds: int = 5) -> Callable[[Program], Program]:
    """Make a function the program of a row. Its docstring says what it does."""

    def kept(run: Program) -> Program:
        if name in PROBES:
            raise ValueError(f"there are two programs for {name}")
        PROBES[name] = Probe(name, (run.__doc__ or "").strip(), services, cents, seconds, run)
        return run

    return kept
