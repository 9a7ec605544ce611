"""Answers to requests of httpx and httpx2, of their clients and their asynchronous ones.

A transport gets a request when base URL, authentication and hooks are done with it. Redirects are requests of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flowguard.testing.explorer.run.late_imports import Change, replaced
from flowguard.testing.explorer.run.outside_http import Points, answer_of, encoded, made_request, refuse_unplayed
from flowguard.testing.explorer.run.outside_world import OutsideWorld


def answered_httpx(points: Points, world: OutsideWorld) -> Change:
    """Return the change with which parties answer what httpx sends."""

    @contextmanager
    def change(httpx: Any) -> Iterator[None]:
        transports = _Transports(httpx, points, world)
        sync, awaited = httpx.HTTPTransport, httpx.AsyncHTTPTransport
        with (
            replaced(sync, "handle_request", transports.sync(sync.handle_request)),
            replaced(awaited, "handle_async_request", transports.awaited(awaited.handle_async_request)),
        ):
            yield

    return change


class _Transports:
    """What transports do with a request to a party."""

    def __init__(self, httpx: Any, points: Points, world: OutsideWorld) -> None:
        self._httpx = httpx
        self._points = points
        self._world = world

    def sync(self, real: Any) -> Any:
        def handle_request(transport: Any, request: Any) -> Any:
            party = self._party(request)
            return real(transport, request) if party is None else self._answer(party, request, request.read())

        return handle_request

    def awaited(self, real: Any) -> Any:
        async def handle_async_request(transport: Any, request: Any) -> Any:
            party = self._party(request)
            if party is None:
                return await real(transport, request)
            return self._answer(party, request, await request.aread())

        return handle_async_request

    def _party(self, request: Any) -> str | None:
        return self._world.party_at(request.url.host, request.url.port) if self._points.is_inside() else None

    def _answer(self, party: str, request: Any, body: bytes) -> Any:
        headers = {name.lower(): value for name, value in request.headers.items()}
        path = request.url.raw_path.decode("ascii")
        asked = made_request(request.method, party, path, headers, body)
        refuse_unplayed(self._points, asked, self._httpx.__name__)

        def timed_out() -> Exception:
            error: Exception = self._httpx.ReadTimeout("timed out", request=request)
            return error

        answer = answer_of(self._points, self._world, asked, timed_out)
        fields, content = encoded(answer)
        content = b"" if request.method == "HEAD" else content
        return self._httpx.Response(answer.status, headers=fields, content=content, request=request)
