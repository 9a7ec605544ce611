"""The size of a text in bytes of UTF-8, and the characters that a message may have."""

from __future__ import annotations

import re
from typing import Final

from flowguard.sim.limits.fault import Fault

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TOKEN: Final = re.compile("[!-~]{1,128}")
_BATCH_ID: Final = re.compile("[A-Za-z0-9_-]{1,80}")


def byte_size(content: str | bytes) -> int:
    """Return the size of the content in bytes of UTF-8.

    A lone surrogate counts three: :func:`lone` is there to refuse it.
    """
    if isinstance(content, bytes | bytearray) or content.isascii():
        return len(content)
    return len(content.encode(errors="surrogatepass"))


def forbidden(text: str) -> str | None:
    """Return the first character that no message may have. It is given by its code point."""
    if text.isascii() and text.isprintable():
        return None
    match = _FORBIDDEN.search(text)
    return f"#x{ord(match[0]):X}" if match else None


def lone(text: str) -> bool:
    """Answer whether the text has a surrogate without its other half. No UTF-8 can carry one."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def is_token(text: str) -> bool:
    """Answer whether the text may name a FIFO group or a message for deduplication.

    It has to be 1 to 128 letters, digits and punctuation characters.
    """
    return _TOKEN.fullmatch(text) is not None


def check_batch_ids(ids: list[str], most: int, prefix: str = "") -> None:
    """Check that a batch has one to ``most`` entries with ids of their own. SQS writes a prefix before the codes."""

    def wrong(code: str, message: str) -> Fault:
        return Fault(prefix + code, message, shape=code if prefix else None)

    if not ids:
        raise wrong("EmptyBatchRequest", "There should be at least one entry.")
    if len(ids) > most:
        message = f"Maximum number of entries per request are {most}. You have sent {len(ids)}."
        raise wrong("TooManyEntriesInBatchRequest", message)
    if not all(map(_BATCH_ID.fullmatch, ids)):
        raise wrong("InvalidBatchEntryId", "An id has 1 to 80 letters, digits, hyphens and underscores.")
    if len(set(ids)) < len(ids):
        raise wrong("BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")
