"""The place that a call comes from: the user's own line or the step of flowguard's that makes it."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, TypeAlias

_OURS: Final = f"{Path(__file__).parents[3]}{os.sep}"
"""With its separator: a folder whose name begins like ours is the user's."""

_AT_AWS: Final = f"{_OURS}aws{os.sep}"
"""Where flowguard's own calls are made."""
_STANDARD: Final = f"{sysconfig.get_paths()['stdlib']}{os.sep}"
_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
_LIBRARIES: Final = ("/boto3/", "/botocore/", "/s3transfer/")
_STEPS: Final = {
    ("store.py", "claim"): "claim",
    ("store.py", "judge"): "claim",
    ("store.py", "commit"): "commit",
    ("store.py", "release"): "release",
    ("store.py", "back_off"): "note the back-off",
    ("store.py", "note_kills"): "note the kills",
    ("store.py", "tell"): "tell",
    ("batch_calls.py", "claim"): "claim",
    ("batch_calls.py", "judge"): "claim",
    ("batch_calls.py", "commit"): "commit",
    ("batch_calls.py", "release"): "release",
    ("ledger.py", "claim"): "claim the call",
    ("sender.py", "send"): "dispatch",
    ("sender.py", "postpone"): "postpone",
    ("sender.py", "hand_back"): "hand back",
    ("place_items.py", "change"): "change places",
    ("place_items.py", "keep_text"): "keep the call",
    ("place_items.py", "text"): "read the call",
    ("place_items.py", "forget_text"): "forget the call",
    ("place_items.py", "tell_pause"): "tell of a pause",
    ("place_items.py", "tell_end"): "tell of its end",
    ("waits.py", "save"): "save rows",
    ("group_items.py", "save"): "save group",
    ("memos.py", "remember"): "remember",
    ("memos.py", "holds"): "look whether it is current",
    ("waits.py", "waiting_for"): "find rows",
    ("waits.py", "settle"): "settle",
    ("waits.py", "keep_place"): "keep the place",
    ("waits.py", "time_out"): "time out",
    ("waits.py", "look"): "look ahead",
    ("waits.py", "keep_early"): "keep early",
    ("waits.py", "_taken"): "take early",
    ("waits.py", "free_early"): "free early",
    ("waits.py", "close_early"): "close early",
    ("wait_calls.py", "run"): "find wait",
    ("waits.py", "early"): "look early",
}


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a call. ``file`` is empty for a call of flowguard's own.

    Then ``function`` is the step: claim, commit, dispatch. ``by_library`` says that an installed library makes the call
    and the line asks that library for something, ``by_flowguard`` that a method of the step makes it.
    """

    file: str
    line: int
    function: str
    by_library: bool = False
    by_flowguard: bool = False

    @property
    def is_users(self) -> bool:
        return bool(self.file)

    @property
    def text(self) -> str:
        """Return the line of source itself."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{shown_path(self.file)}:{self.line}" if self.file else self.function


def shown_path(file: str) -> str:
    """Return the path of a file as reports show it: relative to the directory where it is below that."""
    return _short(file, os.getcwd())  # noqa: PTH109 - a text, asked for thousands of times


def calling_site(until: str) -> Site:
    """Return the site of the innermost frame outside flowguard and installed libraries.

    The search goes up to the explorer's function ``until``. Where all the code is installed, it is the innermost frame
    of that which is not AWS's.
    """
    return site_of(sys._getframe(1), until)


def site_of(frame: FrameType | None, until: str) -> Site:
    """Return the site of a frame or of the innermost of its callers that is in user code."""
    step, installed, is_own = "flowguard", None, False
    while frame is not None:
        code = frame.f_code
        known = _KNOWN.get(id(code))
        _, name, kind, own_step, at_aws = known if known is not None else _looked_at(code)
        if name == until:
            break
        if kind is _Code.USERS:
            return Site(code.co_filename, frame.f_lineno, name, by_library=installed is not None, by_flowguard=is_own)
        if kind is _Code.INSTALLED and installed is None:
            installed = Site(code.co_filename, frame.f_lineno, name)
        step, is_own = own_step or step, is_own or at_aws
        frame = frame.f_back
    return installed or Site("", 0, step)


def raising_site(error: BaseException) -> Site | None:
    """Return the innermost line of user code that an error passed. None where it passed none."""
    site: Site | None = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_user_code(code.co_filename):
            site = Site(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return site


def is_user_code(file: str) -> bool:
    """Answer whether a file is neither Python's nor installed nor flowguard's."""
    return _code_of(file) is _Code.USERS


def is_flowguards(file: str) -> bool:
    """Answer whether a file is one of flowguard's."""
    return _code_of(file) is _Code.OURS


class _Code(Enum):
    """The kind of code that a file is."""

    USERS = "user code"
    INSTALLED = "an installed library"
    OURS = "flowguard"
    NOBODYS = "Python or AWS's libraries"


def _looked_at(code: CodeType) -> _Known:
    """Find out what a frame's code is.

    It is known by its id from now on, for to hash a code takes longer. The id stays its own while the code is kept.
    """
    if len(_KNOWN) >= _MOST_KNOWN:  # modules that are loaded anew for each schedule have other codes each time
        _KNOWN.clear()
    file, name = code.co_filename, code.co_name
    kind = _code_of(file)
    step = _STEPS.get((file.rpartition(os.sep)[2], name)) if kind is _Code.OURS else None
    known = _KNOWN[id(code)] = code, name, kind, step, file.startswith(_AT_AWS)
    return known


_Known: TypeAlias = tuple[CodeType, str, _Code, str | None, bool]
_KNOWN: Final[dict[int, _Known]] = {}
_MOST_KNOWN: Final = 10_000


@cache
def _code_of(file: str) -> _Code:
    if file.startswith(_OURS):
        return _Code.OURS
    if any(place in file for place in _INSTALLED):
        return _Code.NOBODYS if any(library in file for library in _LIBRARIES) else _Code.INSTALLED
    return _Code.NOBODYS if file.startswith((_STANDARD, "<frozen")) else _Code.USERS


@cache
def _short(file: str, directory: str) -> str:
    """Return the path relative to the directory where the file is below it."""
    path = Path(file)
    return str(path.relative_to(directory)) if path.is_relative_to(directory) else str(path)
