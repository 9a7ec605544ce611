"""``flowguard demo``: what it claims is checked, and it is the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import demo as demo_module
from flowguard.cli import main
from flowguard.cli.demo import ACTS, EXPECTED, differences


def demo() -> Result:
    return CliRunner().invoke(main, ["demo"])


@pytest.fixture(scope="module")
def result() -> Result:
    """One for all tests that only look at it."""
    return demo()


PLAYS = pytest.mark.proof("plays all acts, on moto")


@PLAYS
def test_it_ends_well_and_says_by_which_counts(result: Result) -> None:
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-3:] == [
        "Survived: 9 duplicates, 3 deaths, 2 messages too old, 1 worker too late.",
        "Every cart was confirmed and counted once, the newest content is published, nothing was lost.",
        "16 messages in, 23 executions, 19 effects, 9 duplicates refused, 1 fenced write, 38 sent: as expected.",
    ]


@PLAYS
def test_every_act_is_announced_and_played(result: Result) -> None:
    shown = result.stdout
    for number, act in enumerate(ACTS, 1):
        assert f"\n{number}. {(act.__doc__ or '').split('.')[0][:60]}" in shown
    waiting = ("CLAIMED, waiting", "RECORDED", "RESUMED", "UNKNOWN")
    others = ("DONE", "died after commit", "SUPERSEDED", "STALE", "CLAIMED, fenced", "refused: put cache-entries")
    for word in (*waiting, *others):
        assert word in shown


@pytest.mark.slow("plays an act")
def test_a_count_that_is_not_as_expected_is_said_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "ACTS", ACTS[:1])
    result = demo()
    assert result.exit_code == 1
    assert f"NOT AS EXPECTED: effects: 3 instead of {EXPECTED.effects}" in result.stdout.splitlines()


@pytest.mark.parametrize("there", [(), ("samples",), ("samples", "flows")])
def test_without_the_shipped_flows_and_samples_it_says_where_to_run_it(
    there: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in there:
        (tmp_path / folder).mkdir()  # anybody's
    monkeypatch.setattr(demo_module, "__file__", str(tmp_path / "flowguard" / "cli" / "demo.py"))
    monkeypatch.chdir(tmp_path)
    result = demo()
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("demo: the shipped flows and samples are not in ")
    assert result.stderr.endswith("run it in a clone of flowguard\n")


def test_a_figure_that_is_missing_differs() -> None:
    assert differences({"dead_letters": 0}, {}) == ["NOT AS EXPECTED: dead letters: None instead of 0"]


@PLAYS
def test_it_is_the_same_byte_for_byte_from_wherever_it_is_called(result: Result, tmp_path: Path) -> None:
    elsewhere = subprocess.run(
        [sys.executable, "-c", "from flowguard.cli import main; main(['demo'])"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": "1", "COLUMNS": "200"},
        capture_output=True,
        check=True,
    )
    assert elsewhere.stdout == result.stdout_bytes
