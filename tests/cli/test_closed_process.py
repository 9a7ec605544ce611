"""A command that has its process for itself lets nothing out until that ends, nor do its forks."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from flowguard.cli import main
from flowguard.cli.closed_imports import Outward, closed_imports, end_processes
from flowguard.cli.forked_notes import ForkedNotes
from flowguard.cli.own_process import OwnProcess
from flowguard.cli.replay import _REPLAYED
from flowguard.testing.explorer.run.network import NetworkRefused, no_network

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def in_a_fork(work: Callable[[], object]) -> int:
    """Do the work in a fork of this process and return its exit code: 70 where the work did not end it."""
    if (child := os.fork()) == 0:
        try:
            work()
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def connects() -> None:
    with socket.socket() as connection:
        connection.connect_ex(("192.0.2.1", 9))


def is_refused() -> None:
    with pytest.raises(NetworkRefused):
        connects()


# -- forks -------------------------------------------------------------------------------------------------------------


def test_what_is_refused_in_forks_is_counted_and_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    outward = Outward()
    with no_network(outward, ["fork"], _REPLAYED):
        in_a_fork(connects)
        in_a_fork(connects)
    assert outward.refused == 1
    assert capsys.readouterr().err.count("goes out to 192.0.2.1, which a replay does not") == 1


def test_notes_are_taken_once_and_as_whole_lines() -> None:
    notes = ForkedNotes()
    assert not notes.are_elsewhere
    assert in_a_fork(lambda: notes.are_elsewhere and os._exit(3)) == 3
    in_a_fork(lambda: notes.leave("a"))
    in_a_fork(lambda: notes.leave("b"))
    assert (notes.take(), notes.take()) == (["a", "b"], [])
    os.write(notes._number, b"c")
    assert notes.take() == []
    os.write(notes._number, b"d\n")
    assert notes.take() == ["cd"]


def test_a_fork_that_closed_its_files_writes_into_no_other(tmp_path: Path) -> None:
    notes = ForkedNotes()

    def writes() -> None:
        os.close(notes._number)
        notes.leave("a")  # there is no such file
        assert os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR) <= notes._number
        other = os.open(tmp_path / "other", os.O_RDWR)
        if other != notes._number:
            os.dup2(other, notes._number)
        notes.leave("b")
        os._exit(0)

    assert in_a_fork(writes) == 0
    assert (tmp_path / "other").read_bytes() == b""
    assert notes.take() == []


# -- the end of a process ----------------------------------------------------------------------------------------------


@pytest.fixture
def process() -> Iterator[OwnProcess]:
    process = OwnProcess()
    yield process
    process.until_end.close()
    atexit.unregister(process._at_exit)


def test_threads_go_out_no_more_after_a_command_with_its_own_process(
    process: OwnProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    with click.Context(main, obj=process), closed_imports(["192.0.2.7"]):
        pass
    assert process.before_end is end_processes
    assert process.last(1) == 1
    thread = threading.Thread(target=is_refused)
    thread.start()
    thread.join()
    assert process.last(0) == 2
    assert "goes out to 192.0.2.1 beside the runs: in a thread, or when the process ends" in capsys.readouterr().err


def test_within_another_program_the_way_out_is_open_again() -> None:
    with click.Context(main), closed_imports(()):
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(b"", ("127.0.0.1", 9))


@pytest.mark.parametrize(("ended", "code"), [(3, 3), ("a text", 1), (None, 0)])
def test_the_code_of_a_command_is_known_at_its_end(process: OwnProcess, ended: object, code: int) -> None:
    with pytest.raises(SystemExit), process.ending():
        raise SystemExit(ended)
    assert process.code == code


def test_a_process_that_would_not_end_ends_at_once(process: OwnProcess) -> None:
    def ends() -> None:
        process.before_end = lambda: True
        process.last = lambda code: code + 1
        with process.ending():
            sys.exit(3)

    assert in_a_fork(ends) == 4


def test_what_is_refused_at_exit_changes_the_code(process: OwnProcess) -> None:
    process._at_exit()  # nothing was, and nothing happens
    process.last = lambda code: 2
    assert in_a_fork(process._at_exit) == 2


def test_processes_that_nobody_ended_are_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert not end_processes()
    ours, theirs = multiprocessing.Pipe()
    waiting = multiprocessing.get_context("fork").Process(target=theirs.recv)
    waiting.start()
    assert end_processes()
    waiting.join()
    assert waiting.exitcode == -9
    assert "processes that were started and not ended: 1; they are ended with the command" in capsys.readouterr().err
    ours.close()
    theirs.close()


GOES_OUT_LATE = """
import atexit, socket
from threading import Thread, main_thread
from flowguard import Done, Flow, Stage
from pydantic import BaseModel

def out(host):
    socket.create_connection((host, 443))

def late():
    main_thread().join()  # as a timer that rings after the command, however long that takes
    out("timer.invalid")

class Order(BaseModel):
    order_id: str

class Pay(Stage[Order], name="pay"):
    def handle(self, order, step):
        Thread(target=late).start()
        atexit.register(out, "exit.invalid")
        return Done()

class Paid(Flow, name="paid", object_id="order_id"):
    stages = (Pay,)
"""


@pytest.mark.slow("starts a process")
def test_timers_and_what_runs_at_exit_do_not_go_out_after_a_replay(tmp_path: Path) -> None:
    (tmp_path / "late_orders.py").write_text(GOES_OUT_LATE)
    (tmp_path / "order.json").write_text(json.dumps({"order_id": "o1"}))
    done = subprocess.run(
        [sys.executable, "-m", "flowguard", "replay", "order.json", "--flow", "late_orders:Paid"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    for host in ("timer.invalid", "exit.invalid"):
        assert f"late_orders.py:8: goes out to {host} beside the runs" in done.stderr
    assert "COMPLETED" in done.stdout
