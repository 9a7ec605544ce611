"""``.ci/within`` tells a command that became dear from a machine that is slow."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).parents[1] / ".ci" / "within"
BURN: Final = "for _ in range({}): pass"
A_UNIT: Final = 2_000_000


@pytest.fixture
def python(tmp_path: Path) -> str:
    """What measures a unit: an interpreter that counts to `A_UNIT`, whatever it is asked."""
    file = tmp_path / "python"
    file.write_text(f"#!/bin/sh\nexec {sys.executable} -S -c '{BURN.format(A_UNIT)}'\n")
    file.chmod(0o755)
    return str(file)


def within(python: str, units: float, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = {"PATH": "/usr/bin:/bin", "PYTHON": python}
    whole = [str(SCRIPT), str(units), *command]
    return subprocess.run(whole, env={**path, **environment}, capture_output=True, text=True, check=False)


def burning(units: int) -> list[str]:
    return [sys.executable, "-S", "-c", BURN.format(units * A_UNIT)]


def test_what_takes_as_much_as_it_may_passes(python: str) -> None:
    assert within(python, 4, *burning(3), CI="true").returncode == 0


def test_what_takes_far_more_fails_in_ci_and_says_what_to_do(python: str) -> None:
    done = within(python, 1, *burning(8), CI="true")
    assert done.returncode == 1
    assert "more than twice the CPU" in done.stderr


def test_a_developer_is_told_and_not_refused(python: str) -> None:
    done = within(python, 1, *burning(8))
    assert done.returncode == 0
    printed = re.search(r"([0-9]+) s of CPU, ([0-9]+) units of about 1 \(one took", done.stderr)
    assert printed is not None
    assert int(printed[2]) > 2


def test_what_its_children_take_counts(python: str) -> None:
    child = f'{sys.executable} -S -c "{BURN.format(8 * A_UNIT)}"'
    assert within(python, 1, "sh", "-c", f"{child}; true", CI="true").returncode == 1


def test_a_command_that_fails_fails_and_what_it_prints_is_passed_on(python: str) -> None:
    done = within(python, 100, "sh", "-c", "echo out; echo err >&2; exit 3", CI="true")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert "err\n" in done.stderr
