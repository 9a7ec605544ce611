"""The line of the user's own code that an error came through last."""

from __future__ import annotations

import linecache
import traceback
from functools import cache
from pathlib import Path
from types import TracebackType


def described(error: BaseException) -> str:
    """Describe an error with the user's line: ``KeyError: 'sku' at orders.py:41: order["sku"]``."""
    text = _text_of(error)
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    users = [place for place in frames if _is_users(place[0])]
    if not users:
        return text
    file, line = users[-1]
    return f"{text} at {_short(file)}:{line}: {linecache.getline(file, line).strip()}"


def _text_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # of the error's own ``__str__``
        return f"{type(error).__name__}: (its text cannot be read)"


def up_to_users(whole: TracebackType) -> TracebackType:
    """Copy the traceback up to the last line of the user's. All of it is copied where there is none."""
    places = [whole]
    while (inner := places[-1].tb_next) is not None:
        places.append(inner)
    users = [number for number, place in enumerate(places, 1) if _is_users(place.tb_frame.f_code.co_filename)]
    traceback_type: TracebackType | None = None
    for place in reversed(places[: max(users, default=len(places))]):
        traceback_type = TracebackType(traceback_type, place.tb_frame, place.tb_lasti, place.tb_lineno)
    return traceback_type or whole


def _is_users(file: str) -> bool:
    """Answer whether the file is neither flowguard's nor an installed library's nor Python's."""
    return not file.startswith(_libraries())


@cache
def _libraries() -> tuple[str, ...]:
    """Return the directories of flowguard, of installed libraries and of Python."""
    import sysconfig  # takes a while, and pytest loads this module in each project that has flowguard installed

    return (str(Path(__file__).parents[1]), *sysconfig.get_paths().values())


def _short(file: str) -> str:
    """Return the path as seen from the current directory where it is below it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
