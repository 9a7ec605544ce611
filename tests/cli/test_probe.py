"""``flowguard probe``, as it is typed."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.probe.lab import Lab
from flowguard.probe.made import queue
from flowguard.probe.probed import chosen
from flowguard.probe.saw import PROBES, Probe, Saw
from flowguard.sim.calls import Recorder, intercept


def probe(*arguments: str, **more: str) -> Result:
    return CliRunner(env={"AWS_EC2_METADATA_DISABLED": "true", **more}).invoke(main, ["probe", *arguments])


def test_an_engine_here_is_asked_at_once() -> None:
    result = probe("--only", "sqs-batch")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == 4
    assert result.stdout.endswith("\n3 programs: 3 as described; 0 not as the table says\n")
    assert result.stdout.startswith("as described sqs-batch-entries: none, 10, 11, twice, bad id: EmptyBatchRequest")


def test_a_line_of_json_for_each_row() -> None:
    result = probe("--only", "sqs-delay", "--json")
    assert json.loads(result.stdout) == {
        "name": "sqs-delay",
        "engine": "memory",
        "ended": "as described",
        "what": "900 s: taken; 901 s: InvalidParameterValueException; FIFO: InvalidParameterValueException",
        "expected": "modelled",
        "left": [],
        "is_expected": True,
    }


def test_what_would_be_asked_is_listed_and_not_asked() -> None:
    result = probe("--list", "--engine", "aws", "--only", "sqs-fifo")
    assert result.exit_code == 0
    assert "sqs-fifo-group-lock: Receive one message of a group of two" in result.stdout
    assert "4 programs, at most 0 US cents" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--engine", "ministack"], "ministack is served: give its --endpoint-url"),
        (["--endpoint-url", "http://localhost:1"], "memory has no address"),
        (["--only", "novelty"], "no row begins with novelty; --list shows those that have a program"),
        (["--engine", "novelty"], "'novelty' is not one of"),
    ],
)
def test_what_cannot_be_asked_is_said(arguments: list[str], problem: str) -> None:
    result = probe(*arguments)
    assert result.exit_code == 2
    assert problem in result.stderr


def test_without_credentials_nothing_is_asked_of_aws() -> None:
    nobody = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "")
    nowhere = {"AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_CONFIG_FILE": "/nowhere", "AWS_REGION": "us-east-1"}
    result = probe("--engine", "aws", "--yes", "--region", "us-east-1", **nobody, **nowhere)
    assert result.exit_code == 2
    assert "AWS does not know who asks" in result.stderr


class _Caller:
    """What says who asks."""

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": "123456789012"}


def test_a_profile_that_is_not_there_is_said() -> None:
    result = probe("--engine", "aws", "--yes", AWS_PROFILE="novelty")
    assert result.exit_code == 2
    assert "The config profile (novelty) could not be found" in result.stderr


def test_aws_is_asked_only_after_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boto3.session.Session.client", lambda self, service: _Caller())
    result = probe("--engine", "aws", "--region", "eu-west-1", "--only", "sqs-")
    assert result.exit_code == 1
    assert "in account 123456789012, region eu-west-1: about" in result.stderr
    assert "Begin? [y/N]" in result.stderr
    assert result.stderr.endswith("nobody agreed, so nothing was done\n")
    assert result.stdout == ""


def test_what_is_not_as_the_table_says_is_an_exit_code_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(lab: Lab) -> Saw:
        return Saw(False, "otherwise")

    monkeypatch.setitem(PROBES, "sqs-delay", Probe("sqs-delay", "", ("sqs",), 0.01, 1, differs))
    result = probe("--only", "sqs-delay")
    assert result.exit_code == 1
    assert result.stdout == (
        "differs      sqs-delay: otherwise (the table says: modelled)\n1 program: 1 differs; 1 not as the table says\n"
    )


def test_what_could_not_be_deleted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaves(lab: Lab) -> Saw:
        lab.undo("a role", lambda: 1 / 0)
        return Saw(True, "well")

    monkeypatch.setitem(PROBES, "sqs-delay", Probe("sqs-delay", "", ("sqs",), 0.01, 1, leaves))
    result = probe("--only", "sqs-delay")
    assert result.exit_code == 1
    assert "could not be deleted: a role (ZeroDivisionError: division by zero)" in result.stdout


def test_an_engine_that_can_run_none_of_the_programs_says_why() -> None:
    result = probe("--only", "scheduler-undelivered")
    assert result.exit_code == 2
    assert "memory has no iam, which the programs call; choose another engine" in result.stderr


STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def programs() -> None:
    """A test that replaces a program needs the others to be there."""
    chosen(())


@pytest.fixture(autouse=True)
def terminal() -> Iterator[None]:
    """The tests may run under nohup, too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_command_under_nohup_outlives_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def hung_up(lab: Lab) -> Saw:
        os.kill(os.getpid(), signal.SIGHUP)
        return Saw(True, "well")

    monkeypatch.setitem(PROBES, "sqs-delay", Probe("sqs-delay", "", ("sqs",), 0.01, 1, hung_up))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert probe("--only", "sqs-delay").exit_code == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", STOPS)
def test_an_interrupted_command_deletes_what_it_has_made(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The program sees it at its next call. What it has made is deleted, and others begin nothing."""
    found: list[tuple[Lab, str]] = []

    def makes_and_is_stopped(lab: Lab) -> Saw:
        url = queue(lab)
        signal.pthread_kill(threading.main_thread().ident or 0, number)  # another thread may be given it otherwise
        assert lab._stop.wait(10), "the main thread has not taken the signal"
        found.append((lab, lab.clean("sqs", "get_queue_url", QueueName=url.rpartition("/")[2])["QueueUrl"]))
        lab.ask("sqs", "purge_queue", QueueUrl=url)
        raise AssertionError("a call was sent after the signal")

    def begins(lab: Lab) -> Saw:
        queue(lab)
        raise AssertionError("a program began after the signal")

    one = Probe("sqs-delay", "x", ("sqs",), 0.01, 1, makes_and_is_stopped)
    monkeypatch.setattr("flowguard.cli.probe.chosen", lambda _: [one, one._replace(run=begins)])
    before = [signal.getsignal(each) for each in STOPS]
    with intercept(Recorder()) as recorder:
        result = probe()
    assert result.stderr == "Interrupted: deleting what was made.\n"
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["interrupted", "interrupted", "2"]
    assert result.stdout.endswith("\n2 programs: 2 interrupted; 0 not as the table says\n"), "nobody has asked"
    assert "(the table says" not in result.stdout
    assert result.exit_code == 1
    [(lab, url)] = found
    assert lab.left == []
    deleted = [call.params["QueueUrl"] for call in recorder.calls if call.operation == "DeleteQueue"]
    assert deleted.count(url) == 1
    assert [signal.getsignal(each) for each in STOPS] == before
