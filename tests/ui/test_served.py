"""The command ``flowguard ui``: its port, and what keeps it from being run."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from flowguard.cli import main
from flowguard.settings import Settings
from flowguard.ui import serving as module
from flowguard.ui.inspected import Inspected
from flowguard.ui.serving import opened
from tests.aws.engines import same_clients
from tests.cli.test_list import played
from tests.scene import Scene, scene


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        played(found)
        yield found


@contextmanager
def served(at: Scene) -> Iterator[int]:
    """The port of an inspector that a thread serves."""
    server = opened(Inspected(Settings(), same_clients(), at.clock, {"orders": at.flow}, wait=0), None, 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.port
    finally:
        server.shutdown()
        thread.join()


def answer(port: int, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        got = connection.getresponse()
        return got.status, got.read().decode()
    finally:
        connection.close()


def test_the_inspector_answers_on_its_port_and_says_nothing(at: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    with served(at) as port:
        status, text = answer(port, "/")
        assert (status, "left" in text) == (200, True)
        assert answer(port, "/", Host=f"localhost:{port}")[0] == 200
        assert answer(port, "/", Host=f"evil.example:{port}")[0] == 403
        assert answer(port, "/", Host="127.0.0.1")[0] == 403
    assert capfd.readouterr().err == ""


def test_a_connection_that_asks_nothing_keeps_nobody_waiting(at: Scene) -> None:
    with served(at) as port, socket.create_connection(("127.0.0.1", port)):
        assert answer(port, "/style.css")[0] == 200


def test_nobody_else_can_reach_it(at: Scene) -> None:
    with served(at) as port, pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_the_command_serves_what_it_was_given(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    class Served:
        port = 8123

        def serve_forever(self) -> None:
            given.append("served")

    def noted(*what: Any) -> Served:
        given.extend(what)
        return Served()

    monkeypatch.setattr(module, "opened", noted)
    options = ("--queue", "more", "--payloads", "--allow-changes", "--port", "8123", "--table", "flowguard")
    result = CliRunner().invoke(main, ["ui", "tests.scene:Orders", *options])
    assert (result.exit_code, result.stdout) == (0, "http://127.0.0.1:8123/  (Ctrl+C ends it)\n")
    inspected, changes, port, done = given
    assert (inspected.dead_letter_queues(), inspected.payloads) == (["dead", "more"], True)
    assert (list(inspected.flows), inspected.settings.table, port, done) == (["orders"], "flowguard", 8123, "served")
    assert changes.inspected is inspected
    given.clear()
    assert "; read only)" in CliRunner().invoke(main, ["ui"]).stdout
    assert (given[0].flows, given[1], given[2]) == ({}, None, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--port", "80"), "80 is not in the range"),
        (("--port", "65536"), "65536 is not in the range"),
        (("tests.scene:Nothing",), "tests.scene has no 'Nothing'"),
        (("tests.scene",), "write MODULE:FLOW"),
        (("--bind", "0.0.0.0"), "No such option"),  # noqa: S104 - there is no such option, on purpose
    ],
)
def test_what_cannot_be_run_is_named(at: Scene, arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(main, ["ui", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_port_that_is_taken_is_named(at: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["ui", "--port", str(port)])
    assert result.exit_code == 2
    assert f"port {port}: Address already in use" in result.stderr
