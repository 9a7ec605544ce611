"""The way out of this machine, which is closed while a flow is explored or replayed, but to what is allowed.

An exploration runs a handler hundreds of times: what goes out would be done as often. Python itself reports each
connection, datagram, look-up and program before it makes it (its audit events), whichever library asks for it.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from flowguard.testing.explorer.record.site import Site, calling_site


class NetworkRefused(ConnectionRefusedError):
    """A connection to a host that is not allowed. Nothing was sent."""


class ProgramRefused(PermissionError):
    """A program that is not allowed. It was not started."""


class Refusals(Protocol):
    """The invocation that runs in the calling thread."""

    def is_inside(self) -> bool:
        """Answer whether the calling thread is that of an invocation."""
        ...

    def lack(self, site: Site, what: str, fix: str, /) -> None:
        """Note what the worker needs and there is not."""
        ...


class Words(NamedTuple):
    """The parts of the error that a refused connection raises. ``meanwhile`` says what was running.

    ``starts`` and ``replaced`` are what and how to mend it where a program is refused.
    """

    what: str
    fix: str
    meanwhile: str
    starts: str
    replaced: str


_EXPLORED: Final = Words(
    "goes out to {host}, which an exploration does not: it would do so in each schedule",
    'say what answers it: outside={{"{host}": …}}, or allow it: network=["{host}"]',
    "a flow is explored",
    "starts the program {host}, of which an exploration sees nothing: it would run in each schedule",
    'give the call a fake, or allow it: network=["{host}"]',
)

_Destination = Callable[[Any], str | None]
"""Returns the host that an audit event's arguments name, or None for one that stays on this machine."""


def _of_address(arguments: Any) -> str | None:
    """Return the host of a socket's connection or datagram. None for one that leaves no process, as to a file."""
    sock, address = arguments[0], arguments[1]
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return None
    return str(address[0])


def _of_name(arguments: Any) -> str | None:
    """Return the host that is looked up. None for this machine's own name, which a client of mails says of itself."""
    name = arguments[0][0] if isinstance(arguments[0], tuple) else arguments[0]
    host = name.decode() if isinstance(name, bytes) else str(name or "")
    return host if host not in ("", socket.gethostname()) else None


_WAYS_OUT: Final[Mapping[str, _Destination]] = {
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), _of_address),
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), _of_name),
    "socket.getnameinfo": _of_name,
}

_PROGRAMS: Final = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.spawn")


class _Guard:
    """What one block refuses. ``addresses`` are allowed hosts, and those that their names were resolved to."""

    def __init__(self, refusals: Refusals, allowed: Collection[str], words: Words) -> None:
        self._refusals = refusals
        self._words = words
        self.addresses = set(allowed)

    def is_asked(self, host: str) -> bool:
        """Answer whether somebody whom this guard watches wants to go to an allowed host."""
        return self._refusals.is_inside() and host in self.addresses

    def check(self, event: str, arguments: Any) -> None:
        """Raise :class:`NetworkRefused` or :class:`ProgramRefused` for what is not allowed."""
        if not self._refusals.is_inside():
            return
        if event in _PROGRAMS:
            program = _program(event, arguments)
            if program not in self.addresses:
                self._lack(self._words.starts, self._words.replaced, program)
                raise ProgramRefused(f"{program} is not to be started while {self._words.meanwhile}")
            return
        host = _WAYS_OUT[event](arguments)
        if host is not None and host not in self.addresses:
            self._lack(self._words.what, self._words.fix, host)
            raise NetworkRefused(f"{host} is not to be reached while {self._words.meanwhile}")

    def _lack(self, what: str, fix: str, host: str) -> None:
        self._refusals.lack(calling_site(until="_work"), what.format(host=host), fix.format(host=host))


class _Switch:
    """Turns the hook on and off: Python keeps each audit hook until its process ends."""

    def __init__(self) -> None:
        self.guards: list[_Guard] = []
        self._is_hooked = False

    def hook(self) -> None:
        """Let Python report to the guards from now on."""
        if not self._is_hooked:
            self._is_hooked = True
            sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: Any) -> None:
        if self.guards and event in _HEARD:
            for guard in [*self.guards]:
                guard.check(event, arguments)


_HEARD: Final = frozenset({*_WAYS_OUT, *_PROGRAMS})
_SWITCH: Final = _Switch()


@contextmanager
def no_network(refusals: Refusals, allowed: Collection[str], words: Words = _EXPLORED) -> Iterator[None]:
    """Refuse the ways out of invocations for the block, but for those to the ``allowed`` hosts and programs."""
    guard = _Guard(refusals, allowed, words)
    _SWITCH.hook()
    _SWITCH.guards.append(guard)
    try:
        with _noted_addresses(guard):
            yield
    finally:
        _SWITCH.guards.remove(guard)


@contextmanager
def _noted_addresses(guard: _Guard) -> Iterator[None]:
    """Allow the addresses that allowed names were resolved to. An audit event comes before they are known."""
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *given: Any, **named: Any) -> Any:
        addresses = look_up(host, *given, **named)
        if guard.is_asked(_of_name((host,)) or ""):
            guard.addresses.update(str(address[4][0]) for address in addresses)
        return addresses

    changed: Any = socket
    changed.getaddrinfo = getaddrinfo
    try:
        yield
    finally:
        changed.getaddrinfo = look_up


def _program(event: str, arguments: Any) -> str:
    """Return the bare name of the program that an event is about: a shell where that runs a command."""
    named = "sh" if event == "os.system" else arguments[1 if event == "os.spawn" else 0]
    return os.path.basename(os.fsdecode(named))  # noqa: PTH119 - it may be bytes, and of another system
