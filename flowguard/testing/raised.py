"""An error that a stage has raised, with the line of the user's own code that it came through last."""

from __future__ import annotations

import linecache
import sysconfig
import traceback
from pathlib import Path
from typing import Final

_LIBRARIES: Final = (str(Path(__file__).parents[1]), *sysconfig.get_paths().values())


def told(error: BaseException) -> str:
    """``KeyError: 'sku' at orders.py:41: order["sku"]``."""
    what = f"{type(error).__name__}: {error}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    users = [place for place in frames if not place[0].startswith(_LIBRARIES)]
    if not users:
        return what
    file, line = users[-1]
    return f"{what} at {_short(file)}:{line}: {linecache.getline(file, line).strip()}"


def _short(file: str) -> str:
    """As seen from the current directory, where it is below it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
