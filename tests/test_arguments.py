"""A command that proves nothing must not say that all is well."""

from __future__ import annotations

import functools
import importlib
import sys

import pytest

from tests.proofs.prove import __main__ as prove
from tests.proofs.prove.mutants import Mutants

COMMANDS = {
    "prove": "tests.proofs.prove.__main__",
    "races": "tests.proofs.races.__main__",
    "soak": "tests.proofs.soak.__main__",
}


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("prove", "--jobs 0", "argument --jobs: 0 is no number of at least 1"),
        ("races", "--claims 0", "argument --claims: 0 is no number of at least 1"),
        ("races", "--processes 0", "argument --processes: 0 is no number of at least 1"),
        ("races", "--throttle 2", "argument --throttle: 2.0 is no share from 0 to 1"),
        ("races", "--claims many", "argument --claims: invalid count value: 'many'"),
        ("soak", "--messages 0", "argument --messages: 0 is no number of at least 1"),
        ("soak", "--workers -1", "argument --workers: -1 is no number of at least 1"),
        ("soak", "--kill 1.5", "argument --kill: 1.5 is no share from 0 to 1"),
        ("soak", "--weather rain", "argument --weather: weather: 'rain' is none; write NAME[=SPAN][@SPAN]"),
        ("soak", "--limit -1", "argument --limit: -1.0 is no time of at least 0"),
    ],
)
def test_what_would_prove_nothing_is_refused(
    command: str, arguments: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(COMMANDS[command])
    monkeypatch.setattr(sys, "argv", [command, *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_no_mutant_of_that_name_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(prove, "Mutants", functools.partial(Mutants, ["flowguard.errors"]))  # all take six seconds
    with pytest.raises(SystemExit) as ended:
        prove.main(["--only", "no-such-guard"])
    assert ended.value.code == 2
    assert "--only 'no-such-guard': none of the " in capsys.readouterr().err
