"""Answers to requests of aiohttp.

Its connector makes a connection that writes to the explorer and reads the answer. All that a session does with a
request before that, and with the answer after it, stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from flowguard.testing.explorer.run.late_imports import Change, replaced
from flowguard.testing.explorer.run.outside_http import (
    Points,
    answer_of,
    is_whole,
    read_request,
    refuse_unplayed,
    written,
)
from flowguard.testing.explorer.run.outside_world import OutsideRequest, OutsideWorld

_Answering = Callable[[bytes], bytes]
_LATE: Final = "Timeout on reading data from socket"


def answered_aiohttp(points: Points, world: OutsideWorld) -> Change:
    """Return the change with which parties answer what aiohttp sends."""

    @contextmanager
    def change(aiohttp: Any) -> Iterator[None]:
        connector = aiohttp.TCPConnector
        made = _connecting(aiohttp, points, world, connector._create_connection)
        with replaced(connector, "_create_connection", made):
            yield

    return change


def _connecting(aiohttp: Any, points: Points, world: OutsideWorld, real: Callable[..., Any]) -> Callable[..., Any]:
    kind = _protocol(aiohttp.client_proto.ResponseHandler)

    async def create_connection(self: Any, req: Any, *given: Any, **named: Any) -> Any:
        party = world.party_at(req.url.host, req.url.port) if points.is_inside() else None
        if party is None:
            return await real(self, req, *given, **named)
        headers = {str(name).lower(): str(value) for name, value in req.headers.items()}
        refuse_unplayed(points, OutsideRequest(req.method, party, req.url.raw_path_qs, headers, None), "aiohttp")

        def answering(sent: bytes) -> bytes:
            asked = read_request(party, sent)
            return written(
                answer_of(points, world, asked, lambda: aiohttp.ServerTimeoutError(_LATE)),
                asked.method,
            )

        protocol = kind(asyncio.get_running_loop())
        protocol.begin(answering)
        return protocol

    return create_connection


class _Pipe(asyncio.Transport):
    """What a connection takes for its transport. It keeps what is written."""

    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self._protocol = protocol
        self._is_closing = False
        self.sent = bytearray()

    def write(self, data: Any) -> None:
        self.sent += data
        if is_whole(bytes(self.sent)):
            self._protocol.end_request()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Tell the protocol, as the loop does once a socket is closed."""
        if not self._is_closing:
            self._is_closing = True
            self._protocol.connection_lost(None)

    abort = close

    def pause_reading(self) -> None:
        """Wait for nothing: the answer is there at once."""

    resume_reading = pause_reading


def _protocol(base: Any) -> Any:
    """Return a protocol of aiohttp that asks for the answer when somebody wants to read it."""

    class Answered(base):  # type: ignore[misc]  # aiohttp is imported by the handler alone
        def begin(self, answering: _Answering) -> None:
            self._answering = answering
            self._whole: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._pipe = _Pipe(self)
            self.connection_made(self._pipe)

        def end_request(self, *, whole: bool = True) -> None:
            if not self._whole.done():
                self._whole.set_result(whole)

        def set_exception(self, *given: Any, **named: Any) -> None:
            super().set_exception(*given, **named)
            self.end_request(whole=False)

        def connection_lost(self, error: BaseException | None) -> None:
            super().connection_lost(error)
            self.end_request(whole=False)

        async def read(self) -> Any:
            if await self._whole and self._pipe.sent:
                sent = bytes(self._pipe.sent)
                self._pipe.sent.clear()
                self.data_received(self._answering(sent))
            return await super().read()

    return Answered
