"""Engines start, are awaited and end with whoever started them. A small web server stands for them here."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.polling import comes_true
from tests.engines.process import LOOPBACK, EngineFailed, EngineMissing, engine_home, free_port, running

ROOT = Path(__file__).parents[2]


def web_server(port: int) -> list[str]:
    return [sys.executable, "-m", "http.server", "--bind", LOOPBACK, str(port)]


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=1)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def test_an_engine_answers_while_the_block_runs_and_is_gone_afterwards(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, web_server(port), port=port) as endpoint_url:
        assert endpoint_url == f"http://127.0.0.1:{port}"
        assert answers(port)
    assert not answers(port)
    assert list(tmp_path.iterdir()) == []


def test_an_engine_knows_no_proxy_certificates_or_account_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "REQUESTS_CA_BUNDLE", "AWS_PROFILE", "BOTO_CONFIG"):
        monkeypatch.setenv(name, "of this machine")
    shows = "import os; raise SystemExit(repr(sorted({**os.environ})))"
    given = {"AWS_SECRET_ACCESS_KEY": "test"}
    with (
        pytest.raises(EngineFailed, match=r"'AWS_SECRET_ACCESS_KEY'.*'PATH'") as failed,
        running(tmp_path, [sys.executable, "-c", shows], port=free_port(), env=given),
    ):
        pass
    assert [name for name in ("PROXY", "BUNDLE", "PROFILE", "BOTO") if name in str(failed.value)] == []


def test_an_engine_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no room on the disk')"]
    with pytest.raises(EngineFailed, match="no room on the disk"), running(tmp_path, command, port=free_port()):
        pass


def test_an_engine_dies_with_a_starter_that_was_killed(tmp_path: Path) -> None:
    port = free_port()
    script = (
        "import pathlib, sys, time; from tests.engines.process import running\n"
        f"with running(pathlib.Path({str(tmp_path)!r}), {web_server(port)!r}, port={port}):\n"
        "    time.sleep(60)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    try:
        assert comes_true(lambda: answers(port))
    finally:
        os.kill(starter.pid, signal.SIGKILL)
        starter.wait()
    assert comes_true(lambda: not answers(port))


def test_an_engine_that_was_not_fetched_says_how_to_get_it() -> None:
    with pytest.raises(EngineMissing, match="make engines"):
        engine_home("no-such-engine")
