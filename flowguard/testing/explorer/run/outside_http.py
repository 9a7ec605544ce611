"""Answers to requests over HTTP that invocations make of parties outside.

``http.client`` makes the requests of ``urllib.request``, ``urllib3`` and ``requests``. Each writes to a connection what
it would write to a socket, and reads what the party answers.
"""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

import urllib3.connection

from flowguard.testing.explorer.record.outside_call import ASKS, HTTP, OutsideCall, outside_call
from flowguard.testing.explorer.record.schedule import FaultKind
from flowguard.testing.explorer.record.site import Site, calling_site
from flowguard.testing.explorer.record.touched import ADDED
from flowguard.testing.explorer.run.network import NetworkRefused
from flowguard.testing.explorer.run.outside_world import OutsideAnswer, OutsideRequest, OutsideWorld

_HEAD_END: Final = b"\r\n\r\n"
_UNAVAILABLE: Final = OutsideAnswer({"error": "unavailable"}, 503)
_UNPLAYED: Final = {"upgrade": "another protocol (Upgrade)", "expect": "a go-ahead (Expect)"}


class Points(Protocol):
    """The invocation that runs in the calling thread, and the points at which something may go wrong."""

    @property
    def worker(self) -> object:
        """Return whose invocation it is."""
        ...

    def is_inside(self) -> bool:
        """Answer whether the calling thread is that of an invocation."""
        ...

    def point(self, call: OutsideCall, proceed: Callable[[], dict[str, Any]], /) -> dict[str, Any]:
        """Make a call that is counted."""
        ...

    def ends_if_over(self, worker: object, /) -> bool:
        """End another worker whose function's time is over. Answer whether it was."""
        ...

    def lack(self, site: Site, what: str, fix: str, /, service: str = "", driver: str = "") -> None:
        """Note what the worker needs and there is not."""
        ...


class Unavailable(Exception):
    """The party answers that it cannot, and has done nothing."""


@contextmanager
def answered_http(points: Points, world: OutsideWorld) -> Iterator[None]:
    """Let the parties answer the requests of invocations while the block runs."""
    classes: Any = (
        http.client.HTTPConnection,
        http.client.HTTPSConnection,
        urllib3.connection.HTTPConnection,
        urllib3.connection.HTTPSConnection,
    )
    before = [kind.connect for kind in classes]
    for kind, real in zip(classes, before, strict=True):
        kind.connect = _connecting(points, world, real)
    try:
        yield
    finally:
        for kind, real in zip(classes, before, strict=True):
            kind.connect = real


def _connecting(points: Points, world: OutsideWorld, real: Callable[[Any], None]) -> Callable[[Any], None]:
    def connect(self: Any) -> None:
        party = world.party_at(self.host, self.port) if points.is_inside() else None
        if party is None:
            real(self)
            return
        self.sock = _Wire(party, points, world)
        self.is_verified = True

    return connect


class _AnswerFile(io.RawIOBase):
    def __init__(self, answer: Callable[[], bytes]) -> None:
        self._answer = answer
        self._bytes: io.BytesIO | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._bytes is None:
            self._bytes = io.BytesIO(self._answer())
        return self._bytes.readinto(buffer)


class _Wire:
    """What a connection takes for its socket."""

    def __init__(self, party: str, points: Points, world: OutsideWorld) -> None:
        self._party = party
        self._points = points
        self._world = world
        self._sent = bytearray()

    def sendall(self, data: bytes) -> None:
        self._sent += data

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """Return a file that sends what was written when it is first read, as an answer is lost while it is read."""
        return io.BufferedReader(_AnswerFile(self._answer))

    def _answer(self) -> bytes:
        request = read_request(self._party, bytes(self._sent))
        self._sent.clear()
        return written(answer_of(self._points, self._world, request, _timed_out), request.method)

    def settimeout(self, _: float | None) -> None:
        """Wait for nothing: the answer is there at once."""

    def close(self) -> None:
        """Close nothing: it is no socket."""


def answer_of(
    points: Points, world: OutsideWorld, request: OutsideRequest, timed_out: Callable[[], Exception]
) -> OutsideAnswer:
    """Return what a party answers. Something may go wrong before and after it.

    Raises what ``timed_out`` makes where the answer is lost.
    """
    answers: list[OutsideAnswer] = []

    def proceed() -> dict[str, Any]:
        answer, has_changed = world.ask(request.host, request)
        answers.append(answer)
        return {"changed": has_changed}

    def failure(kind: FaultKind) -> Exception:
        return Unavailable() if kind is FaultKind.ERROR else timed_out()

    try:
        points.point(_call(request, world, failure), proceed)
    except Unavailable:
        answers.append(_UNAVAILABLE)
    return answers[-1]


def refuse_unplayed(points: Points, request: OutsideRequest, library: str) -> None:
    """Raise :class:`NetworkRefused` if the request has a header ``Upgrade`` or ``Expect``, which is not simulated."""
    for header, what in _UNPLAYED.items():
        if header in request.headers:
            shown = f"asks {request.host} by {library} for {what}, which no party of outside= answers"
            points.lack(calling_site(until="_work"), shown, "put the call behind a function of yours, and give a fake")
            raise NetworkRefused(f"{request.host} is not asked for {what} while a flow is explored")


def _call(request: OutsideRequest, world: OutsideWorld, failure: Callable[[FaultKind], Exception]) -> OutsideCall:
    place = (HTTP, request.host) if world.has_functions or request.method in ASKS else _place(request)
    about = {"To": request.host, "Places": (place,)}
    return outside_call(HTTP, request.method, about, failure)


def _place(request: OutsideRequest) -> tuple[str, ...]:
    """Return what a request touches: two that each add something commute."""
    return (HTTP, request.host, ADDED if request.method == "POST" else request.path)


def _timed_out() -> Exception:
    return TimeoutError("timed out")


def read_request(host: str, sent: bytes) -> OutsideRequest:
    """Read a request as it was written."""
    head, _, body = sent.partition(_HEAD_END)
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, *_ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    content = _joined(body) if headers.get("transfer-encoding", "").lower() == "chunked" else body
    return made_request(method, host, path, headers, content)


def made_request(method: str, host: str, path: str, headers: Mapping[str, str], body: bytes) -> OutsideRequest:
    """Return a request whose body is read as JSON where it is that."""
    return OutsideRequest(method, host, path, headers, _parsed(body))


def is_whole(sent: bytes) -> bool:
    """Answer whether a request is written to its end."""
    head, end, body = sent.partition(_HEAD_END)
    fields = head.lower().split(b"\r\n")
    if any(field.replace(b" ", b"") == b"transfer-encoding:chunked" for field in fields):
        return (b"\r\n" + body).endswith(b"\r\n0\r\n\r\n")
    lengths = [int(field.partition(b":")[2]) for field in fields if field.startswith(b"content-length:")]
    return bool(end) and len(body) >= max(lengths, default=0)


def _joined(body: bytes) -> bytes:
    """Join the chunks of a body."""
    whole, rest = b"", body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.partition(b";")[0] or b"0", 16)
        whole, rest = whole + rest[:length], rest[length + 2 :]
        if not length:
            break
    return whole


def _parsed(body: bytes) -> Any:
    text = body.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def encoded(answer: OutsideAnswer) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of an answer. The connection ends with it."""
    is_text = isinstance(answer.body, str | bytes)
    content = answer.body if is_text else json.dumps(answer.body)
    body = content.encode() if isinstance(content, str) else bytes(content)
    headers = {
        "Content-Type": "text/plain" if is_text else "application/json",
        **answer.headers,
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    return headers, body


def written(answer: OutsideAnswer, method: str) -> bytes:
    """Return an answer as it is written to a socket."""
    headers, body = encoded(answer)
    reason = http.client.responses.get(answer.status, "")
    lines = [f"HTTP/1.1 {answer.status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + _HEAD_END + (b"" if method == "HEAD" else body)
