"""The way out of this machine, which is closed while a flow is explored or replayed, but to what is allowed.

An exploration runs a handler hundreds of times: what goes out would be done as often. Python itself reports each
connection, datagram, look-up, program and fork before it makes it (its audit events), whichever library asks for it.

Names of this machine may be looked up, and it is not reached: a service on it keeps what it gets, or passes it on.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple, Protocol

from flowguard.testing.explorer.record.site import Site, calling_site
from flowguard.testing.explorer.run.started import STARTS, Started, reported_starts, started


class NetworkRefused(ConnectionRefusedError):
    """A connection to a host that is not allowed. Nothing was sent."""


class ProgramRefused(PermissionError):
    """A program, process or thread that is not allowed. It was not started."""


class Refusals(Protocol):
    """The invocation that runs in the calling thread."""

    def is_inside(self) -> bool:
        """Answer whether the calling thread is that of an invocation."""
        ...

    def lack(self, site: Site, problem: str, fix: str, /, *, driver: str = "") -> None:
        """Note what the worker needs and there is not. ``driver`` is the library, where it is of a database."""
        ...


class Words(NamedTuple):
    """The parts of the error that a refused connection raises. ``meanwhile`` says what was running.

    ``starts`` and ``replaced`` are what and how to mend it where a program is refused. ``threads`` says whether threads
    beside those of ``threading`` are refused, too: for they would not be watched.
    """

    what: str
    fix: str
    meanwhile: str
    starts: str
    replaced: str
    threads: bool = False


_EXPLORED: Final = Words(
    "goes out to {host}, which an exploration does not: it would do so in each schedule",
    'say what answers it: outside={{"{host}": …}}, or allow it: network=["{host}"]',
    "a flow is explored",
    "starts {host}, of which an exploration sees nothing: it would run in each schedule",
    'give the call a fake, or allow it: network=["{host}"]',
    threads=True,
)

_DRIVERS: Final = re.compile(
    r"[/\\](?:site|dist)-packages[/\\](redis|valkey|pymemcache|pymysql|aiomysql|mysql|asyncpg|pg8000|psycopg|oracledb|"
    r"pymongo|cassandra|kafka|pika)[/\\]"
)
"""Libraries that do not speak HTTP: ``outside=`` answers none of them."""


def _driver(frame: FrameType | None) -> str | None:
    """Return the library of a database or broker among the callers. None where there is none."""
    while frame is not None:
        if (match := _DRIVERS.search(frame.f_code.co_filename)) is not None:
            return match[1]
        frame = frame.f_back
    return None


def _of_driver(words: Words, driver: str) -> Words:
    """Return the words for a library that no party outside answers."""
    if words is not _EXPLORED:
        return words
    return words._replace(
        what=f"goes out to {{host}} by {driver}, which an exploration does not play",
        fix='hand in a client that is a fake; or let it out: network=["{host}"]',
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
    """Return the host that is looked up. None for a name of this machine, which is known here."""
    host = _name(arguments)
    return None if _is_here(host) else host


def _name(arguments: Any) -> str:
    name = arguments[0][0] if isinstance(arguments[0], tuple) else arguments[0]
    return name.decode() if isinstance(name, bytes) else str(name or "")


def _is_here(host: str) -> bool:
    """Answer whether a name or an address is that of this machine."""
    if host in ("", "localhost", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_WAYS_OUT: Final[Mapping[str, _Destination]] = {
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), _of_address),
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), _of_name),
    "socket.getnameinfo": _of_name,
}


class _Guard:
    """What one block refuses. ``addresses`` are allowed hosts, and those that their names were resolved to.

    ``names`` are the names by which addresses of this machine were looked up.
    """

    def __init__(self, refusals: Refusals, allowed: Collection[str], words: Words) -> None:
        self._refusals = refusals
        self._words = words
        self.addresses = set(allowed)
        self.names: dict[str, str] = {}

    def is_inside(self) -> bool:
        """Answer whether the calling thread is watched by this guard."""
        return self._refusals.is_inside()

    def resolved(self, host: str, addresses: Collection[str]) -> None:
        """Note the addresses of a name that somebody whom this guard watches has looked up."""
        if not self.is_inside():
            return
        if host in self.addresses:
            self.addresses.update(addresses)
        elif host:
            self.names.update(dict.fromkeys(addresses, host))

    def check(self, event: str, arguments: Any) -> None:
        """Raise :class:`NetworkRefused` or :class:`ProgramRefused` for what is not allowed."""
        if event in STARTS:
            self._check_start(started(event, arguments))
            return
        host = _WAYS_OUT[event](arguments)
        if host is not None and host not in self.addresses:
            host = self.names.get(host, host)
            driver = _driver(sys._getframe())
            words = self._words if driver is None else _of_driver(self._words, driver)
            self._lack(words.what.format(host=host), words.fix.format(host=host), driver or "")
            raise NetworkRefused(f"{host} is not to be reached while {self._words.meanwhile}")

    def _check_start(self, start: Started | None) -> None:
        if start is None or start.name in self.addresses or (start.is_thread and not self._words.threads):
            return
        self._lack(self._words.starts.format(host=start.shown), self._words.replaced.format(host=start.name))
        raise ProgramRefused(f"{start.name} is not to be started while {self._words.meanwhile}")

    def _lack(self, problem: str, fix: str, driver: str = "") -> None:
        self._refusals.lack(calling_site(until="_work"), problem, fix, driver=driver)


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
        """Ask the innermost guard that watches the calling thread."""
        if self.guards and event in _HEARD:
            guard = next((guard for guard in reversed([*self.guards]) if guard.is_inside()), None)
            if guard is not None:
                guard.check(event, arguments)


_HEARD: Final = frozenset({*_WAYS_OUT, *STARTS})
_SWITCH: Final = _Switch()


@contextmanager
def no_network(refusals: Refusals, allowed: Collection[str], words: Words = _EXPLORED) -> Iterator[None]:
    """Refuse the ways out of invocations for the block, but for those to the ``allowed`` hosts and programs."""
    guard = _Guard(refusals, allowed, words)
    _SWITCH.hook()
    _SWITCH.guards.append(guard)
    try:
        with _noted_addresses(guard), reported_starts():
            yield
    finally:
        _SWITCH.guards.remove(guard)


@contextmanager
def _noted_addresses(guard: _Guard) -> Iterator[None]:
    """Tell the guard to which addresses names were resolved. An audit event comes before they are known."""
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *given: Any, **named: Any) -> Any:
        addresses = look_up(host, *given, **named)
        guard.resolved(_name((host,)), [str(address[4][0]) for address in addresses])
        return addresses

    changed: Any = socket
    changed.getaddrinfo = getaddrinfo
    try:
        yield
    finally:
        changed.getaddrinfo = look_up
