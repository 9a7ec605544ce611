"""Reads answers of HTTP whose form no service gives them, with Python's own client."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from typing import Any, Final

_LONGEST_HEAD: Final = 262_144
"""Bytes, with the interim answers before it. Those of services have a thousand."""

_END: Final = re.compile(rb"\r?\n\r?\n")
_BEFORE_END: Final = 3
"""How many bytes of an end can have come while it is not whole. What came before them is looked at once."""

_INTERIM: Final = re.compile(rb"HTTP/1\.[0-9] 1[0-9][0-9]\b")


def read_odd(received: bytes, receive: Callable[[], bytes]) -> tuple[int, dict[str, str], bytes]:
    """Return the status, headers and body of an answer that begins with ``received``.

    Raises ConnectionError for what is no whole answer, and for a success that does not say where it ends.
    """
    begun: Any = _Begun(_from_its_head(received, receive), receive)
    try:
        with HTTPResponse(begun, method="POST") as response:
            response.begin()
            headers: Any = response.headers
            if headers.defects:
                raise ConnectionError("a line of the head is no header")
            is_sized = response.length is not None and headers.get("content-length", "0").isdecimal()
            if response.status < 300 and not (is_sized or response.chunked):
                raise ConnectionError("nobody knows where the answer ends")
            named = {name.lower(): ", ".join(headers.get_all(name)) for name in headers}
            return response.status, named, response.read()
    except (HTTPException, ValueError) as error:
        raise ConnectionError(f"it is no answer: {type(error).__name__}") from error


def _from_its_head(received: bytes, receive: Callable[[], bytes]) -> bytes:
    """Return what has come from the first byte of the answer on, with its whole head. Interim answers are left out."""
    head, looked_at, size = bytearray(received), 0, len(received)
    while True:
        end = _END.search(head, looked_at)
        if end is not None and not _INTERIM.match(head):
            return bytes(head)
        if end is not None:
            del head[: end.end()]
            looked_at = 0
            continue
        more = receive()
        if not more or size > _LONGEST_HEAD:
            raise ConnectionError("the head of the answer is not whole")
        looked_at = len(head) - _BEFORE_END
        head += more
        size += len(more)


class _Begun(io.RawIOBase):
    """Stands for a connection over which ``received`` has come."""

    def __init__(self, received: bytes, receive: Callable[[], bytes]) -> None:
        super().__init__()
        self._received = received
        self._receive = receive

    def makefile(self, _: str) -> io.BufferedReader:
        """Return the stream that Python's client reads."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the bytes received so far, then with those that the connection brings."""
        self._received = self._received or self._receive()
        taken = min(len(buffer), len(self._received))
        buffer[:taken] = self._received[:taken]
        self._received = self._received[taken:]
        return taken
