"""The network, to which nothing goes out while a flow is explored or replayed unless its host is allowed.

An exploration runs a handler hundreds of times: what goes out would be done as often.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from flowguard.testing.explorer.record.site import Site, calling_site


class NetworkRefused(ConnectionRefusedError):
    """A connection to a host that is not allowed. Nothing was sent."""


class Refusals(Protocol):
    """The invocation that runs in the calling thread."""

    def is_inside(self) -> bool:
        """Answer whether the calling thread is that of an invocation."""
        ...

    def lack(self, site: Site, what: str, fix: str, /) -> None:
        """Note what the worker needs and there is not."""
        ...


class Words(NamedTuple):
    """The parts of the error that a refused connection raises. ``meanwhile`` says what was running."""

    what: str
    fix: str
    meanwhile: str


_EXPLORED: Final = Words(
    "goes out to {host}, which an exploration does not: it would do so in each schedule",
    'say what answers it: outside={{"{host}": …}}, or allow it: network=["{host}"]',
    "a flow is explored",
)


@contextmanager
def no_network(refusals: Refusals, allowed: Collection[str], words: Words = _EXPLORED) -> Iterator[None]:
    """Refuse the connections of invocations for the block, but for those to the ``allowed`` hosts."""
    real: Any = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex")}
    look_up = socket.getaddrinfo
    addresses: set[str] = set(allowed)

    def refused(host: str) -> NetworkRefused:
        refusals.lack(calling_site(until="_work"), words.what.format(host=host), words.fix.format(host=host))
        return NetworkRefused(f"{host} is not to be reached while {words.meanwhile}")

    def getaddrinfo(host: Any, *given: Any, **named: Any) -> Any:
        if not refusals.is_inside():
            return look_up(host, *given, **named)
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name not in addresses:
            raise refused(name)
        found = look_up(host, *given, **named)
        addresses.update(str(one[4][0]) for one in found)
        return found

    def guarded(connect: Callable[..., Any]) -> Callable[..., Any]:
        def to(self: socket.socket, address: Any) -> Any:
            is_internet = self.family in (socket.AF_INET, socket.AF_INET6)
            if is_internet and refusals.is_inside() and str(address[0]) not in addresses:
                raise refused(str(address[0]))
            return connect(self, address)

        return to

    changed: Any = socket
    try:
        changed.getaddrinfo = getaddrinfo
        for name, connect in real.items():
            setattr(socket.socket, name, guarded(connect))
        yield
    finally:
        changed.getaddrinfo = look_up
        for name in real:
            delattr(socket.socket, name)  # they are those of the class below it
