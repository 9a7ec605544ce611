"""Parts of a request whose ``repr`` hides their content, for tracebacks that print local variables.

Some loggers, and ``traceback`` with ``capture_locals``, print them. A request has credentials in its head and a payload
in its body.
"""

from __future__ import annotations

from typing import Any


class HiddenBytes(bytes):
    """Bytes whose ``repr`` says how many they are."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


class HiddenMap(dict[str, Any]):
    """A map whose ``repr`` has its keys alone."""

    def __repr__(self) -> str:
        return f"<{', '.join(map(str, self))}>"
