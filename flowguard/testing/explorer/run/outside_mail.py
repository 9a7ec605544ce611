"""A mail server that takes what invocations send, and sends nothing on."""

from __future__ import annotations

import email
import io
import smtplib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import policy
from typing import Any, Final

from flowguard.testing.explorer.record.outside_call import MAIL, outside_call
from flowguard.testing.explorer.record.schedule import FaultKind
from flowguard.testing.explorer.record.touched import ADDED
from flowguard.testing.explorer.run.outside_http import Points, Unavailable
from flowguard.testing.explorer.run.outside_world import OutsideWorld

_END: Final = b"\r\n.\r\n"
_REPLIES: Final = {
    b"EHLO": b"250-ready\r\n250-STARTTLS\r\n250 AUTH PLAIN LOGIN\r\n",
    b"AUTH": b"235 welcome\r\n",
    b"DATA": b"354 go on\r\n",
    b"QUIT": b"221 bye\r\n",
}
_BUSY: Final = b"451 try again later\r\n"
_TAKEN: Final = b"250 taken\r\n"


@contextmanager
def answered_mail(points: Points, world: OutsideWorld) -> Iterator[None]:
    """Let the parties take the mails of invocations while the block runs."""
    changed: Any = smtplib
    before = [(kind, kind._get_socket) for kind in (changed.SMTP, changed.SMTP_SSL)]
    for kind, real in before:
        kind._get_socket = _socket(points, world, real)
    start_tls = changed.SMTP.starttls
    changed.SMTP.starttls = _started(start_tls)
    try:
        yield
    finally:
        changed.SMTP.starttls = start_tls
        for kind, real in before:
            kind._get_socket = real


def _socket(points: Points, world: OutsideWorld, real: Callable[..., Any]) -> Callable[..., Any]:
    def get_socket(self: Any, host: str, port: int, timeout: Any) -> Any:
        party = world.party_at(host, port) if points.is_inside() else None
        return real(self, host, port, timeout) if party is None else _Wire(party, points, world)

    return get_socket


def _started(real: Callable[..., Any]) -> Callable[..., Any]:
    def starttls(self: Any, *given: Any, **named: Any) -> Any:
        if not isinstance(self.sock, _Wire):
            return real(self, *given, **named)
        self.ehlo_or_helo_if_needed()
        return 220, b"go on"

    return starttls


class _Wire:
    """What a connection takes for its socket: a server that takes each mail."""

    def __init__(self, party: str, points: Points, world: OutsideWorld) -> None:
        self._party = party
        self._points = points
        self._world = world
        self._replies: list[bytes] = [b"220 ready\r\n"]
        self._text: bytearray | None = None
        self._from, self._to = "", list[str]()

    def sendall(self, data: bytes) -> None:
        """Take a command, or a part of a mail."""
        if self._text is not None:
            self._text += data
            if self._text.endswith(_END):
                self._take(bytes(self._text[: -len(_END)]))
            return
        command = bytes(data[:4]).upper()
        if command == b"MAIL":
            self._from, self._to = _address(data), []
        if command == b"RCPT":
            self._to.append(_address(data))
        if command == b"DATA":
            self._text = bytearray()
        self._replies += _REPLIES.get(command, _TAKEN).splitlines(keepends=True)

    def _take(self, text: bytes) -> None:
        self._text = None
        mail = {"from": self._from, "to": ", ".join(sorted(self._to)), **_read(text)}

        def proceed() -> dict[str, Any]:
            self._world.mailed(self._party, mail)
            return {}

        about = {"To": self._party, "Places": ((MAIL, self._party, ADDED),)}
        try:
            self._points.point(outside_call(MAIL, "MAIL", about, _failure), proceed)
        except Unavailable:
            self._replies.append(_BUSY)
        else:
            self._replies.append(_TAKEN)

    def makefile(self, *_: Any, **__: Any) -> Any:
        """Return what the replies are read from."""
        return _Replies(self._replies)

    def close(self) -> None:
        """Close nothing: it is no socket."""


class _Replies(io.RawIOBase):
    """The replies, a line at a time."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._lines.pop(0) if self._lines else b""


def _failure(kind: FaultKind) -> Exception:
    return Unavailable() if kind is FaultKind.ERROR else TimeoutError("timed out")


def _address(command: bytes) -> str:
    """Return the address in ``MAIL FROM:<…>`` or ``RCPT TO:<…>``."""
    return command.decode(errors="replace").partition("<")[2].partition(">")[0]


def _read(text: bytes) -> dict[str, str]:
    """Read a mail without what is new in each copy: its date and its own id."""
    mail = email.message_from_bytes(text, policy=policy.default)
    body = mail.get_body(("plain", "html"))
    return {"subject": str(mail["Subject"] or ""), "text": "" if body is None else body.get_content().strip()}
