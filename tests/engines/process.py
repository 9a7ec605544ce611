"""Starting, awaiting and stopping an engine's process."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ENGINES = Path(__file__).parents[2] / ".engines"
LOOPBACK = "127.0.0.1"

_OUTSIDE = frozenset({"all_proxy", "http_proxy", "https_proxy", "requests_ca_bundle", "curl_ca_bundle"})
"""Variables by which programs reach what is outside, in lower case."""

_LEASH = Path(__file__).with_name("leash.py")
_LOG_TAIL = 2000
_POLL_SECONDS = 0.05
_SECONDS_TO_START = 60
_SECONDS_TO_STOP = 10


class EngineMissing(Exception):
    """The engine has not been fetched, or what it runs on is not installed."""


class EngineFailed(Exception):
    """The engine ended, or did not answer in time. Carries the end of its log."""


def engine_home(name: str, *programs: str) -> Path:
    """Where ``make engines`` has put this engine; ``programs`` must be on the PATH as well."""
    home = ENGINES / name
    if not (home / "ready").exists():
        raise EngineMissing(f"{name} has not been fetched; run `make engines`")
    for program in programs:
        if shutil.which(program) is None:
            raise EngineMissing(f"{name} needs {program} on the PATH")
    return home


def free_port() -> int:
    """A port that nobody listens on now. Another process may take it before the engine does: then the start fails."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def over_http(path: str = "/") -> Callable[[int], bool]:
    """What asks whether somebody answers on a port of this machine by HTTP, with any status."""

    def answers(port: int) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=1)
        try:
            connection.request("GET", path)
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True

    return answers


_ANSWERS = over_http()


@contextmanager
def running(
    home: Path,
    command: Sequence[str],
    *,
    port: int,
    answers: Callable[[int], bool] = _ANSWERS,
    env: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """The command's endpoint URL, from its first answer until the block ends.

    The log lies in ``home`` and is removed after an orderly end.
    """
    log = home / f"{port}.log"
    with log.open("wb") as output:
        leash = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LEASH), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=home,
            env={**_inherited(os.environ), **(env or {})},
            start_new_session=True,  # Ctrl-C is for the tests, which then stop their engines
        )
    try:
        _await_answer(leash, port, answers, log)
        yield f"http://{LOOPBACK}:{port}"
    finally:
        _stop(leash)
    log.unlink()


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an engine has of this process' environment, and the functions that it starts after it.

    It calls nobody outside of this machine, so proxies, certificates and accounts of that are none of its.
    """
    return {
        name: value
        for name, value in environment.items()
        if not (name.lower() in _OUTSIDE or name.startswith(("AWS_", "BOTO")))
    }


def _await_answer(leash: subprocess.Popen[bytes], port: int, answers: Callable[[int], bool], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while not answers(port):
        if leash.poll() is not None:
            raise EngineFailed(f"ended while starting:\n{_tail(log)}")
        if time.monotonic() > deadline:
            raise EngineFailed(f"no answer on port {port} after {_SECONDS_TO_START} s:\n{_tail(log)}")
        time.sleep(_POLL_SECONDS)


def _stop(leash: subprocess.Popen[bytes]) -> None:
    assert leash.stdin is not None
    leash.stdin.close()
    try:
        leash.wait(_SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        leash.kill()
        leash.wait()


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-_LOG_TAIL:]
