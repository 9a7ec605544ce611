"""Nothing leaves the machine while a handler is explored: by no connection, datagram, look-up or program."""

from __future__ import annotations

import _posixsubprocess
import _thread
import ctypes.util
import multiprocessing
import os
import platform
import pty
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from flowguard.testing import Trace, replay
from flowguard.testing.explorer import PlainFunction
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.run.network import NetworkRefused, ProgramRefused, Words, no_network

ORDER = {"order_id": "o1"}
PROGRAM = [sys.executable, "-c", "pass"]
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
NAME = os.path.basename(sys.executable)  # noqa: PTH119


def sends_a_datagram(event: Any, context: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as metrics:
        metrics.sendto(b"orders:1|c", ("127.0.0.1", 8125))


def sends_a_message(event: Any, context: Any) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as metrics:
        metrics.sendmsg([b"orders:1|c"], [], 0, ("::1", 8125))


def connects_quietly(event: Any, context: Any) -> None:
    with socket.socket() as connection:
        connection.connect_ex(("127.0.0.1", 9))


def looks_up(event: Any, context: Any) -> None:
    socket.gethostbyname("gateway.invalid")


def looks_back(event: Any, context: Any) -> None:
    socket.getnameinfo(("192.0.2.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)


def starts_a_program(event: Any, context: Any) -> None:
    subprocess.run(PROGRAM, check=True)


def starts_a_shell(event: Any, context: Any) -> None:
    os.system("true")  # noqa: S605, S607


def spawns(event: Any, context: Any) -> None:
    os.posix_spawn(sys.executable, PROGRAM, {})


def forks(event: Any, context: Any) -> None:
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)


def forks_a_terminal(event: Any, context: Any) -> None:
    pty.spawn(["true"])


def spawns_by_a_fork(event: Any, context: Any) -> None:
    os.spawnv(os.P_WAIT, sys.executable, PROGRAM)  # noqa: S606


def pools(event: Any, context: Any) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(abs, [1])


def pools_by_futures(event: Any, context: Any) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        pool.submit(abs, 1).result()


def starts_an_interpreter(event: Any, context: Any) -> None:
    multiprocessing.get_context("spawn").Process(target=abs, args=(1,)).start()


def starts_a_server_of_forks(event: Any, context: Any) -> None:
    multiprocessing.get_context("forkserver").Process(target=abs, args=(1,)).start()


def starts_a_thread_below_threading(event: Any, context: Any) -> None:
    _thread.start_new_thread(int, ())


def replayed(handler: Callable[[Any, Any], None], *network: str) -> Trace:
    return replay(PlainFunction("orders", handler), [ORDER], "none", network=network)


ALLOWED_BY = {
    "starts another process (fork)": "fork",
    "starts a thread by _thread instead of threading": "_thread",
}


@pytest.mark.parametrize(
    ("handler", "what"),
    [
        (sends_a_datagram, "goes out to 127.0.0.1"),
        (sends_a_message, "goes out to ::1"),
        (connects_quietly, "goes out to 127.0.0.1"),
        (looks_up, "goes out to gateway.invalid"),
        (looks_back, "goes out to 192.0.2.1"),
        (starts_a_program, f"starts the program {NAME}"),
        (spawns, f"starts the program {NAME}"),
        (starts_a_shell, "starts the program sh"),
        (forks, "starts another process (fork)"),
        (forks_a_terminal, "starts another process (fork)"),
        (spawns_by_a_fork, "starts another process (fork)"),
        (pools, "starts another process (fork)"),
        (pools_by_futures, "starts another process (fork)"),
        (starts_an_interpreter, f"starts the program {NAME}"),
        (starts_a_server_of_forks, f"starts the program {NAME}"),
        (starts_a_thread_below_threading, "starts a thread by _thread instead of threading"),
    ],
)
def test_what_leaves_the_machine_is_refused_and_named_with_its_line(handler: Any, what: str) -> None:
    (found,) = replayed(handler).violations
    assert what in found.problems[0].text
    assert f'network=["{ALLOWED_BY.get(what, what.rpartition(" ")[2])}"]' in found.fix
    assert found.site is not None
    assert found.site.function == handler.__name__


@pytest.mark.parametrize(
    ("handler", "allowed"),
    [(sends_a_datagram, "127.0.0.1"), (looks_back, "192.0.2.1"), (starts_a_program, NAME), (forks, "fork")],
)
def test_what_is_allowed_goes_out(handler: Any, allowed: str) -> None:
    assert replayed(handler, allowed).ok


def test_the_address_of_a_host_that_is_allowed_is_reached_by_its_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def connects(event: Any, context: Any) -> None:
            family, kind, _, _, address = socket.getaddrinfo("localhost", port, socket.AF_INET, socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as connection:
                connection.connect(address)

        assert replayed(connects, "localhost").ok


def test_a_connection_to_this_machine_is_named_by_the_name_that_was_looked_up() -> None:
    def connects(event: Any, context: Any) -> None:
        socket.create_connection(("localhost", 9))

    (found,) = replayed(connects).violations
    assert "goes out to localhost" in found.problems[0].text
    assert 'network=["localhost"]' in found.fix


def asks_what_machine_it_is(event: Any, context: Any) -> None:
    platform.platform()
    subprocess.run(["uname", "-p"], check=True)  # noqa: S607 - as platform.processor() does, once a process
    ctypes.util.find_library("c")
    uuid.getnode()


def names_this_machine(event: Any, context: Any) -> None:
    socket.getfqdn()
    socket.getaddrinfo("localhost", 80)
    socket.getnameinfo(("127.0.0.1", 80), 0)
    HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler).server_close()


@pytest.mark.parametrize("handler", [asks_what_machine_it_is, names_this_machine])
def test_what_only_asks_about_this_machine_is_no_way_out(handler: Any) -> None:
    trace = replayed(handler)
    assert trace.ok, str(trace)


@pytest.mark.parametrize("line", [["uname", "-a"], ["ip", "link", "set", "lo", "down"]])
def test_a_program_that_may_read_the_machine_may_do_nothing_else(line: list[str]) -> None:
    def starts(event: Any, context: Any) -> None:
        subprocess.run(line, check=True)

    (found,) = replayed(starts).violations
    assert f"starts the program {line[0]}" in found.problems[0].text


class Watched:
    """A watcher of all threads, or of none."""

    def __init__(self, *, inside: bool = True) -> None:
        self.lacks: list[str] = []
        self.inside = inside

    def is_inside(self) -> bool:
        return self.inside

    def lack(self, site: Site, what: str, fix: str, /, *, driver: str = "") -> None:
        self.lacks.append(what)


WORDS = Words("goes out to {host}", "", "a test runs", "starts {host}", "")


def test_the_innermost_guard_that_watches_decides_alone() -> None:
    outer, inner, asleep = Watched(), Watched(), Watched(inside=False)
    with no_network(outer, (), WORDS), no_network(inner, ["127.0.0.1"], WORDS), no_network(asleep, (), WORDS):
        sends_a_datagram(None, None)
        with pytest.raises(NetworkRefused):
            sends_a_message(None, None)
    assert (outer.lacks, inner.lacks, asleep.lacks) == ([], ["goes out to ::1"], [])


def test_what_others_look_up_allows_nothing() -> None:
    with no_network(watched := Watched(inside=False), ["localhost"], WORDS):
        socket.getaddrinfo("localhost", 80)
        watched.inside = True
        with pytest.raises(NetworkRefused):
            sends_a_datagram(None, None)


def test_a_thread_of_any_kind_may_start_where_all_are_watched() -> None:
    with no_network(Watched(), (), WORDS):
        starts_a_thread_below_threading(None, None)


def test_nothing_is_patched_afterwards() -> None:
    before = _posixsubprocess.fork_exec, socket.getaddrinfo
    replayed(forks)
    assert (_posixsubprocess.fork_exec, socket.getaddrinfo) == before


def test_a_socket_that_is_a_file_stays_on_the_machine(tmp_path: Any) -> None:
    def connects(event: Any, context: Any) -> None:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as connection:
            server.bind(str(tmp_path / "s"))
            server.listen()
            connection.connect(str(tmp_path / "s"))

    assert replayed(connects).ok


def test_what_is_refused_raises_as_an_error_of_the_system() -> None:
    raised: list[type[BaseException]] = []

    def catches(event: Any, context: Any) -> None:
        for start in (sends_a_datagram, starts_a_program):
            try:
                start(event, context)
            except OSError as error:
                raised.append(type(error))

    replayed(catches)
    assert raised[:2] == [NetworkRefused, ProgramRefused]


def test_outside_an_exploration_nothing_is_refused() -> None:
    replayed(sends_a_datagram)
    sends_a_datagram(None, None)
    starts_a_program(None, None)
