"""The text in which a day's weather is written: ``dynamodb-away=60m@5m,late-copies``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final, NamedTuple

from flowguard.clock import Clock
from flowguard.errors import SettingsError, shown
from flowguard.sim.weather.away import Away
from flowguard.sim.weather.hot_items import LEAST_WRITES, MOST_WRITES, HotItems
from flowguard.sim.weather.late_copies import LateCopies
from flowguard.sim.weather.layer import Layer
from flowguard.sim.weather.loops import Loops
from flowguard.sim.weather.new_permissions import NewPermissions
from flowguard.sim.weather.pollers import Pollers
from flowguard.sim.weather.throttled import Throttled
from flowguard.sim.weather.weather import Weather

_HOUR: Final = 3_600_000
_FORM: Final = re.compile(
    r"(?P<name>[a-z-]+)(=(?P<span>[0-9]+[smhd])|(?<=hot-items)=(?P<most>[0-9]+))?(@(?P<after>[0-9]+[smhd]))?"
)
_UNITS: Final = {"s": 1_000, "m": 60_000, "h": _HOUR, "d": 24 * _HOUR}


class Spell(NamedTuple):
    """A piece of weather, from ``begins`` until ``ends``, ms since 1970. ``most`` is what it lets pass in a second."""

    begins: int
    ends: int
    draw: Random
    most: int


class _Kind(NamedTuple):
    """A kind of weather.

    ``make`` makes its interceptor. It lasts for ``lasts`` ms by default; ``passes`` says that it ends after that.
    """

    make: Callable[[Spell], Layer]
    lasts: int = _HOUR
    passes: bool = False


KINDS: Final[Mapping[str, _Kind]] = {
    "dynamodb-away": _Kind(lambda spell: Away("dynamodb", spell.begins, spell.ends), passes=True),
    "sqs-away": _Kind(lambda spell: Away("sqs", spell.begins, spell.ends), passes=True),
    "ssm-away": _Kind(lambda spell: Away("ssm", spell.begins, spell.ends), passes=True),
    "throttled": _Kind(lambda spell: Throttled(spell.begins, spell.ends), _HOUR // 2, passes=True),
    "new-permissions": _Kind(lambda spell: NewPermissions(spell.ends), 30_000, passes=True),
    "loops": _Kind(lambda spell: Loops()),
    "loops-allowed": _Kind(lambda spell: Loops(None)),
    "late-copies": _Kind(lambda spell: LateCopies(spell.ends - spell.begins, spell.draw)),
    "pollers": _Kind(lambda spell: Pollers()),
    "hot-items": _Kind(lambda spell: HotItems(spell.most)),
}
"""Each layer by its name."""


def forecast(text: str, clock: Clock, *, seed: int = 0) -> Weather:
    """Read the names of layers, separated by commas, each with how long it lasts and how long from now it begins.

    ``dynamodb-away=60m@5m`` is an outage of an hour that begins in five minutes, ``hot-items=3`` lets three writes a
    second go to one item, where a small world has to stand for a large one. Raises
    :class:`flowguard.errors.SettingsError` for what is no weather.
    """
    now, draw = clock.now(), Random(seed)  # noqa: S311 - repeatable on purpose
    read = [_read(part.strip(), now, draw) for part in text.split(",") if part.strip()]
    return Weather([KINDS[name].make(spell) for name, spell in read], clock)


def passing(text: str, now: int) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each layer of a forecast of ``now`` that ends, with when it begins and ends, ms since 1970."""
    for part in text.split(","):
        if part.strip():
            name, spell = _read(part.strip(), now, Random(0))  # noqa: S311 - nothing is drawn
            if KINDS[name].passes:
                yield name, spell.begins, spell.ends


def _read(part: str, now: int, draw: Random) -> tuple[str, Spell]:
    match = _FORM.fullmatch(part)
    kind = None if match is None else KINDS.get(match["name"])
    if match is None or kind is None:
        known = ", ".join(KINDS)
        raise SettingsError("weather", f"{shown(part)} is none; write NAME[=SPAN][@SPAN], such as 60m, with {known}")
    begins = now + _ms(match["after"], 0)
    most = MOST_WRITES if match["most"] is None else int(match["most"])
    if most < LEAST_WRITES:
        why = "a hop that met a refusal is claimed, noted and committed within a second, so no run would end"
        raise SettingsError("weather", f"{part} lets {most} writes a second pass; {why}; write {LEAST_WRITES} or more")
    return match["name"], Spell(begins, begins + _ms(match["span"], kind.lasts), draw, most)


def _ms(span: str | None, otherwise: int) -> int:
    return otherwise if span is None else int(span[:-1]) * _UNITS[span[-1]]
