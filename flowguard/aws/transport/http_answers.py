"""Reads answers of HTTP. The head is read here, and the body by Python's own client.

That makes a mail of each head, with a parser of mails: a quarter of a call's CPU.
"""

from __future__ import annotations

import socket
from http.client import HTTPException, HTTPResponse
from typing import Any, Final

from flowguard.startup.named_tuple import NamedTuple

_LONGEST_LINE: Final = 65_536
_MOST_LINES: Final = 100
"""As Python's client has them. The last line of a head is empty."""

_WITHOUT_BODY: Final = (204, 304)


class Answer(NamedTuple):
    """What a service has answered. The names of ``headers`` are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HTTPAnswer(HTTPResponse):
    """The answer to a POST, on its way over a connection."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, method="POST")

    def whole(self) -> Answer:
        """Read all of it. Raises HTTPException for a success that does not say where it ends: it may be cut."""
        self.begin()
        if self.length is None and not self.chunked and self.status < 300:
            raise HTTPException("nobody knows where the answer ends")
        headers: Any = self.headers
        return Answer(self.status, headers, self.read())

    def begin(self) -> None:
        """Read the head."""
        response: Any = self  # types of Python's client leave out what is not for its users
        version, status, reason = response._read_status()
        while status == 100:
            _head(self.fp)
            version, status, reason = response._read_status()
        if not version.startswith("HTTP/1."):
            raise HTTPException(f"unknown version {version[:20]!r}")
        self.status, self.reason, self.version = status, reason, 10 if version == "HTTP/1.0" else 11
        headers = response.headers = response.msg = _head(self.fp)
        self.chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self.chunk_left = None
        length = headers.get("content-length", "")
        self.length = 0 if status in _WITHOUT_BODY else int(length) if length.isdecimal() else None
        self.will_close = response._check_close() or (self.length is None and not self.chunked)


def _head(stream: Any) -> dict[str, str]:
    """Read the headers up to the empty line, or to where the connection has ended."""
    headers: dict[str, str] = {}
    for _ in range(_MOST_LINES):
        line = stream.readline(_LONGEST_LINE + 1)
        if line in (b"\r\n", b"\n", b""):
            return headers
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or name != name.strip() or len(line) > _LONGEST_LINE:
            raise HTTPException("a line of the head is no header")
        headers[name.lower()] = value.lstrip(" \t").rstrip("\r\n")
    raise HTTPException(f"a head of more than {_MOST_LINES} lines")
