"""A server of HTTP in a thread, which does what a test tells it, one thing for each request."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from zlib import crc32

LINE: Final = b"\r\n"


class Reply(NamedTuple):
    """What one request is answered: these bytes, after which the connection is kept, closed or reset.

    ``held`` lets the server wait, before the last byte, until the client has gone.
    """

    sent: bytes
    then: str = "keep"
    held: bool = False


class Request(NamedTuple):
    """What has arrived. The names of ``headers`` are in lower case. ``connection`` counts from 1."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


class Server:
    """Answers requests from a script, and notes them. The last reply is repeated."""

    def __init__(self) -> None:
        self._replies: list[Reply] = []
        self.echoes = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.requests: list[Request] = []
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def script(self, *replies: Reply) -> None:
        """Answer with these from now on, and forget the requests until now."""
        self._replies, self.requests = list(replies), []

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            number = len(self._connections)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def close(self) -> None:
        self._listening.close()
        self.drop()

    def drop(self, *, politely: bool = True) -> None:
        """Close the connections that are open, as a service closes those that are idle."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR if politely else socket.SHUT_RD)
            connection.close()
        self._connections = []

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with connection, connection.makefile("rb") as incoming:
                while line := incoming.readline():
                    self.requests.append(request := _request(line, incoming, number))
                    if self.echoes:
                        connection.sendall(answer(200, request.body))
                        continue
                    reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
                    if not _answer(connection, incoming, reply):
                        return
        except (OSError, ValueError):  # the client, or the test, has gone
            pass


def _request(line: bytes, incoming: Any, number: int) -> Request:
    headers = {}
    while (header := incoming.readline().strip()) != b"":
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = incoming.read(int(headers.get("content-length", "0")))
    return Request(line.decode().strip(), headers, body, number)


def _answer(connection: socket.socket, incoming: Any, reply: Reply) -> bool:
    """Answer whether the connection is kept."""
    connection.sendall(reply.sent)
    if reply.held:
        incoming.read()
    if reply.then == "keep":
        return True
    if reply.then == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    else:
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
    return False


@contextmanager
def served(*replies: Reply) -> Iterator[Server]:
    server = Server()
    server.script(*replies)
    thread = threading.Thread(target=server.accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()


def answer(status: int, body: bytes | Mapping[str, Any], more: Mapping[str, str] | None = None) -> bytes:
    """A whole answer, with the checksum and the request id that DynamoDB sends, unless ``more`` says otherwise."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "Content-Length": str(len(content)),
        "x-amzn-RequestId": "REQUEST-1",
        "x-amz-crc32": str(crc32(content)),
        **(more or {}),
    }
    lines = [f"{name}: {value}".encode() for name, value in headers.items() if value]
    return LINE.join([f"HTTP/1.1 {status} Some".encode(), *lines, b"", content])
