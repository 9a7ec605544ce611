"""Reads answers of HTTP in the form that services give them. Python's client reads any other, and loads for it.

::

    what has come ── a status line of HTTP/1.1, headers, their end, a length ── the rest of the body
          └─ anything else: odd_answers, from the first byte

Python's client makes a stream for each answer and a mail of each head: a fifth of a call's CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from flowguard.startup.named_tuple import NamedTuple

_MOST_LINES: Final = 100
"""As Python's client has it."""

_STATUS: Final = re.compile(rb"HTTP/1\.1 (200|[45]\d\d)[ \r]")
"""The status line of an answer that has a body, and is the only one to its request."""

_LENGTH: Final = re.compile("[0-9]{1,15}")
_HEADER: Final = re.compile(r"\r\n([^\s:]+):[ \t]*([^\r\n]*)")


class Answer(NamedTuple):
    """What a service has answered. The names of ``headers`` are in lower case.

    Nothing can be sent over its connection after the last one, nor where what follows it may have been read already.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    is_last: bool

    def __repr__(self) -> str:
        """Return nothing of an item or a payload."""
        return f"Answer({self.status}, …)"


def read_answer(receive: Callable[[], bytes]) -> Answer:
    """Read the answer to a POST. Raises OSError where it is not whole, or is none.

    ``receive`` returns what has come next, and nothing at the end.
    """
    received = receive()
    answer = _read(received, receive)
    if answer is not None:
        return answer
    from flowguard.aws.transport.odd_answers import read_odd  # services give none

    return Answer(*read_odd(received, receive), is_last=True)


def _read(received: bytes, receive: Callable[[], bytes]) -> Answer | None:
    """Read an answer of which ``received`` has come. None where its form is another, or its head is not whole yet."""
    head, end, body = received.partition(b"\r\n\r\n")
    status, text = _STATUS.match(received), head.decode("latin-1")
    fields = _HEADER.findall(text)
    if not end or status is None or not text.count("\r") == text.count("\n") == len(fields) < _MOST_LINES:
        return None
    headers = {name.lower(): value for name, value in fields}
    given = headers.get("content-length", "")
    if "transfer-encoding" in headers or len(headers) < len(fields) or not _LENGTH.fullmatch(given):
        return None
    length, pieces, size = int(given), [body], len(body)
    while size < length:
        pieces.append(more := receive())
        if not more:
            raise ConnectionError(f"the answer ends after {size} of {length} bytes")
        size += len(more)
    is_last = size > length or "close" in headers.get("connection", "").lower()
    return Answer(int(status[1]), headers, b"".join(pieces)[:length], is_last)
