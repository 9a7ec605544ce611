"""Functions that make texts fit to be shown. No control reaches a terminal, no long text fills a log.

A message's ids, payloads and errors are whatever their sender wrote: escape sequences that a terminal obeys, marks that
turn the direction of writing, half surrogate pairs that no file takes, a quarter of a megabyte.
"""

from __future__ import annotations

import json
from typing import Final

from flowguard.startup.late_pattern import late_pattern

LONGEST: Final = 500
"""Characters of a text that is shown among others."""

LONGEST_PART: Final = 200
"""Characters of a name or value within such a text: as long as any ARN."""

# Controls (C0 but the newline, DEL, C1), marks of direction, what has no width, line and paragraph separators, tags,
# and what is no character: half surrogate pairs and U+FFFE, U+FFFF.
_UNPRINTABLE: Final = late_pattern(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Write each control and each mark that cannot be seen as an escape such as ``\\x1b``. A newline stays."""
    return text if text.isprintable() else _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str) -> str:
    """Make a text printable on one line: a newline is written ``\\n``."""
    return printable(text).replace("\n", "\\n")


def printable_json(text: str) -> str:
    """Make the text of a JSON value printable. It stays the same value."""
    return text if text.isprintable() else _UNPRINTABLE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def bounded(text: str, most: int = LONGEST) -> str:
    """Cut a long text, and say how long it was."""
    return text if len(text) <= most else f"{text[:most]}… (cut, of {len(text):,} characters)"
