"""Connections to one endpoint, kept open from call to call.

Before anything is sent over a kept connection, it is checked whether the other side has closed it::

    asked ── kept too long? ── yes ──────────────────────────┐
                │ no                                         ├─ close it, open another
             something to read? ── closed, or out of turn ───┘
                │ no, or only of TLS itself
             send
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from math import inf
from typing import Final
from urllib.parse import urlsplit

from flowguard.aws import botocore_errors
from flowguard.aws.transport.http_answers import Answer, read_answer
from flowguard.startup.named_tuple import NamedTuple

CONNECT_SECONDS: Final = 2.0
READ_SECONDS: Final = 5.0
KEPT_SECONDS: Final = 50.0
"""How long a connection may have been idle. A frozen function does not hear that the other side has closed it."""

MOST_KEPT: Final = 20

_AT_ONCE: Final = 65_536
"""How many bytes one read takes at most."""

_SHORTEST: Final = 0.01
"""Seconds. A socket that waits for none at all does not wait for what is asked of it either."""


class _Kept(NamedTuple):
    """An open connection, idle since ``since`` (s)."""

    connection: socket.socket
    since: float


class Connections:
    """Sends requests to an endpoint, such as ``https://sqs.eu-west-1.amazonaws.com``. Safe in threads and after a fork.

    ``bundle`` is a file of certificates to trust. ``clock`` returns seconds; they may jump.
    """

    def __init__(
        self,
        endpoint: str,
        bundle: str | None = None,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        parts = urlsplit(endpoint)
        self.endpoint = f"{parts.scheme}://{parts.netloc}/"
        self.host = parts.netloc
        self._name = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._is_secure = parts.scheme == "https"
        self._bundle = bundle
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._clock = clock
        self._kept: list[_Kept] = []
        self._process = os.getpid()
        weakref.finalize(self, _close, self._kept)

    def open(self, seconds: float = inf) -> None:
        """Open a connection now, so that the next request need not. Takes at most ``seconds``.

        Raises what :meth:`exchange` raises where no connection could be made.
        """
        self._keep(self._opened(seconds))

    def exchange(self, request: bytes, seconds: float = inf) -> Answer:
        """Send a whole request, and return the answer to it. All of it takes no longer than ``seconds``.

        The look-up of a name takes as long as the system lets it.

        Raises botocore's errors: :class:`EndpointConnectionError`, :class:`ConnectTimeoutError` and :class:`SSLError`
        where no connection could be made, :class:`ReadTimeoutError` and :class:`ConnectionClosedError` where the
        service may have got the request.
        """
        ends = self._clock() + seconds
        connection = self._kept_one() or self._opened(seconds)
        is_reusable = False
        try:
            self._limit(connection, ends)
            connection.sendall(request)
            answer = read_answer(partial(self._received, connection, ends))
            is_reusable = not answer.is_last
        except TimeoutError as error:
            raise botocore_errors.ReadTimeoutError(endpoint_url=self.endpoint, error=error) from None
        except OSError as error:  # also of TLS: the service may have got the request
            raise botocore_errors.ConnectionClosedError(endpoint_url=self.endpoint, error=error) from None
        finally:
            if is_reusable:
                self._keep(connection)
            else:
                connection.close()
        return answer

    def _received(self, connection: socket.socket, ends: float) -> bytes:
        """Return what comes next. Each wait has its limit, and so have all together."""
        self._limit(connection, ends)
        return connection.recv(_AT_ONCE)

    def _limit(self, connection: socket.socket, ends: float) -> None:
        """Let the next step take no longer than what is left. To set the same time anew would ask the system again."""
        if (left := ends - self._clock()) <= 0:
            raise TimeoutError("timed out")
        if (seconds := min(self._read_seconds, left)) != connection.gettimeout():
            connection.settimeout(seconds)

    # -- connections

    def _keep(self, connection: socket.socket) -> None:
        if len(self._kept) < MOST_KEPT:
            self._kept.append(_Kept(connection, self._clock()))
        else:
            connection.close()

    def _kept_one(self) -> socket.socket | None:
        """Return a kept connection that is certainly open, the one that was used last."""
        if self._process != os.getpid():  # what is kept belongs to the process that this one was forked from
            _close(self._kept)
            self._process = os.getpid()
        while self._kept:
            try:
                connection, since = self._kept.pop()
            except IndexError:  # another thread was quicker
                return None
            if 0 <= self._clock() - since <= KEPT_SECONDS and self._is_open(connection):
                return connection
            connection.close()
        return None

    def _is_open(self, connection: socket.socket) -> bool:
        """Answer whether nothing has come. What TLS itself sends, such as a ticket, is read and changes nothing."""
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        if not poll.poll(0):
            return True
        connection.setblocking(False)
        try:
            connection.recv(1)
        except ssl.SSLWantReadError:
            return True
        except OSError:
            return False
        return False

    def _opened(self, seconds: float) -> socket.socket:
        context, ends = self._context(), self._clock() + seconds
        try:
            connection = self._dialled(ends)
        except TimeoutError as error:
            raise botocore_errors.ConnectTimeoutError(endpoint_url=self.endpoint, error=error) from None
        except OSError as error:
            raise botocore_errors.EndpointConnectionError(endpoint_url=self.endpoint, error=error) from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if context is not None:
                connection.settimeout(self._wait(ends))
                connection = context.wrap_socket(connection, server_hostname=self._name)
        except TimeoutError as error:  # it is closed by then
            raise botocore_errors.ReadTimeoutError(endpoint_url=self.endpoint, error=error) from None
        except ssl.SSLError as error:
            raise botocore_errors.SSLError(endpoint_url=self.endpoint, error=error) from None
        except OSError as error:
            raise botocore_errors.ConnectionClosedError(endpoint_url=self.endpoint, error=error) from None
        return connection

    def _dialled(self, ends: float) -> socket.socket:
        """Connect to the first address that answers. All of them together take no longer than until ``ends``."""
        refused: OSError = TimeoutError("timed out")
        for *_, (address, port, *_) in socket.getaddrinfo(self._name, self._port, type=socket.SOCK_STREAM):
            if self._clock() >= ends:
                break
            try:
                return socket.create_connection((str(address), int(port)), self._wait(ends))
            except OSError as error:
                refused = error
        raise refused

    def _wait(self, ends: float) -> float:
        """Return how long the next step of a connection may take. A clock that jumps back makes it no longer."""
        return min(self._connect_seconds, max(ends - self._clock(), _SHORTEST))

    def _context(self) -> ssl.SSLContext | None:
        try:
            return trusted(self._bundle) if self._is_secure else None
        except OSError as error:
            raise botocore_errors.SSLError(endpoint_url=self.endpoint, error=error) from None


def _close(kept: list[_Kept]) -> None:
    """Close connections on this side alone. Another process may go on with them, and another thread close them too."""
    with suppress(IndexError):
        while kept:
            kept.pop().connection.close()


@cache
def trusted(bundle: str | None) -> ssl.SSLContext:
    """Return what verifies the certificates of services. ``bundle`` is a file; None stands for the system's."""
    context = ssl.create_default_context(cafile=bundle)
    context.set_alpn_protocols(["http/1.1"])
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # which Python 3.13 sets, and botocore does not
    return context
