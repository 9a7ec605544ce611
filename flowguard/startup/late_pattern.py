"""Regular expressions that are compiled when they are first used. A function starts with some forty and uses few."""

from __future__ import annotations

import re
from typing import Any, cast


class _LatePattern:
    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return what the compiled pattern has by the name, and keep it: Python asks once for each."""
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"late_pattern({self._text!r})"


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return what ``re.compile`` does, for all who call its methods."""
    return cast("re.Pattern[str]", _LatePattern(text, flags))
