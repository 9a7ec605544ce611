"""Where a call comes from: the user's own line, or the step of flowguard's that makes it."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

_OURS: Final = str(Path(__file__).parents[2])
_STANDARD: Final = sysconfig.get_paths()["stdlib"]
_LIBRARIES: Final = ("/boto3/", "/botocore/", "/s3transfer/")
_STEPS: Final = {
    ("store.py", "claim"): "claim",
    ("store.py", "commit"): "commit",
    ("sender.py", "send"): "dispatch",
    ("sender.py", "postpone"): "postpone",
}


@dataclass(frozen=True, slots=True)
class Site:
    """``file`` is empty for a call of flowguard's own; then ``function`` is the step: claim, commit, dispatch."""

    file: str
    line: int
    function: str

    @property
    def is_users(self) -> bool:
        return bool(self.file)

    @property
    def text(self) -> str:
        """The line of source itself."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{_short(self.file)}:{self.line}" if self.file else self.function


def calling_site(until: str) -> Site:
    """The innermost frame outside flowguard and AWS's libraries, up to the function ``until`` of the explorer's."""
    step = "flowguard"
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != until:
        file = frame.f_code.co_filename
        if not file.startswith(_OURS):
            if not (file.startswith((_STANDARD, "<frozen")) or any(library in file for library in _LIBRARIES)):
                return Site(file, frame.f_lineno, frame.f_code.co_name)
        else:
            step = _STEPS.get((Path(file).name, frame.f_code.co_name), step)
        frame = frame.f_back
    return Site("", 0, step)


def _short(file: str) -> str:
    """As seen from the current directory, where it is below it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
