"""The console on which tables and lines are printed, and their cells."""

from __future__ import annotations

import sys
from typing import Final

import click

try:
    from rich.console import Console
    from rich.text import Text
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "rich":
        raise
    raise click.UsageError("this command needs its extras: pip install 'flowguard-aws[cli,local]'") from None

from flowguard.text.printable import bounded, one_line

WIDE: Final = 100_000
"""Characters of a line in a file or a pipe: programs that read it are to find a row on its line."""


def console() -> Console:
    """Return a console on standard output. Away from a terminal it is plain, and lines have any width."""
    terminal = is_terminal()
    return Console(
        file=sys.stdout, width=None if terminal else WIDE, force_terminal=terminal, highlight=False, emoji=False
    )


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # it may have been closed


def line(text: str, style: str = "") -> Text:
    """Return a text as one printable line."""
    return Text(one_line(text), style=style)


def cell(text: str, style: str = "") -> Text:
    """Return a text as one printable line that is cut where it is long."""
    return line(bounded(text), style=style)
