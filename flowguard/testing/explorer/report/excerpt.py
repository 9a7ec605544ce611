"""Lines of a user's own file around the one that matters."""

from __future__ import annotations

import linecache
import textwrap
from dataclasses import dataclass
from typing import Final

from flowguard.testing.explorer.record.site import Site

AROUND: Final = 3


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of an excerpt. ``hit`` marks the line that the excerpt is about."""

    number: int
    text: str
    hit: bool


def excerpt(site: Site, around: int = AROUND) -> tuple[SourceLine, ...]:
    """Return the lines around a site without their shared indentation. Empty where the file cannot be read."""
    lines = linecache.getlines(site.file)
    if not 1 <= site.line <= len(lines):
        return ()
    first, last = max(1, site.line - around), min(len(lines), site.line + around)
    texts = textwrap.dedent("".join(lines[first - 1 : last])).expandtabs().splitlines()
    return tuple(SourceLine(number, text, number == site.line) for number, text in enumerate(texts, first))
