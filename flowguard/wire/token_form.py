"""The form of tokens. A text that people see is rid of them: who sees one can answer in place of its holder."""

from __future__ import annotations

from typing import Final

from flowguard.startup.late_pattern import late_pattern

FORM: Final = late_pattern("([A-Za-z0-9_-]{1,32})[.]([A-Za-z0-9_-]{84})")
"""The key's id and what it has sealed."""


def without_tokens(text: str) -> str:
    """Return the text with ``<token>`` in place of whatever has the form of a token."""
    return FORM.sub("<token>", text)
