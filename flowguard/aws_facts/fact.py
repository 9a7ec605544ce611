"""The form of a row of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

MODELLED: Final = "modelled"
CANNOT: Final = "cannot"
"""The engine has nothing of this behaviour."""

ENGINES: Final = ("memory", "moto", "dynamodb-local", "elasticmq", "ministack", "deliveries")
"""The engines of the tests. ``deliveries`` is what the simulator and the explorer do between a queue and a function."""


class Document(NamedTuple):
    """Name a page of documentation."""

    title: str
    url: str


class Seen(NamedTuple):
    """When somebody has seen the behaviour at AWS itself, and who says so."""

    date: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A behaviour of AWS that flowguard stands on.

    ``relied_on_by`` names pages of the documentation, and what modules of the package define:
    ``"aws/batch_reads.py:KEYS_A_CALL"``, ``"sim/event_source.py:EventSource.next"``. ``limit`` is the number that the
    behaviour has: bytes, seconds or a count. Every constant among those places has this value, times in seconds or
    milliseconds. ``words`` are words of AWS's interfaces that this row explains: error codes, parameters, attributes,
    types of resources.

    ``engines`` says what each engine does: ``MODELLED``, ``CANNOT``, or how it differs. An engine that is not named
    cannot. ``read`` is the year and month of the page's text, or of the same text in boto3, with which the sentence was
    last compared. A program of ``flowguard probe`` has the name of its row; where there can be none, ``by_hand`` says
    why.
    """

    name: str
    sentence: str
    source: Document
    read: str = ""
    relied_on_by: tuple[str, ...]
    limit: int | None = None
    words: tuple[str, ...] = ()
    engines: Mapping[str, str]
    by_hand: str = ""
    seen: Seen | None = None

    def on(self, engine: str) -> str:
        """Return what an engine does."""
        return self.engines.get(engine, CANNOT)


def like(*engines: str, **differing: str) -> Mapping[str, str]:
    """Return engines that model a behaviour and those that differ.

    One that differs says how: ``elasticmq="keeps the message's id"``. An underscore stands for a hyphen in an engine's
    name.
    """
    others = {engine.replace("_", "-"): how for engine, how in differing.items()}
    return {**dict.fromkeys(engines, MODELLED), **others}


NOWHERE: Final[Mapping[str, str]] = {}
"""No engine has it."""
