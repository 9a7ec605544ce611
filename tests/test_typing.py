"""The wiring is in the types: what is wrong is refused by mypy, what is right is not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WRONG = ROOT / "tests/typing/wrong.py"

EXPECTED = re.compile(r"  # type: ignore\[[a-z, -]+\]$", re.MULTILINE)


def check(*paths: Path) -> str:
    """What mypy says of these files under the project's own settings; nothing where all is well.

    It has a process of its own: it makes millions of objects, and undoes what spares ours the garbage collector.
    """
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    command = [sys.executable, "-m", "mypy", *options, "--no-error-summary", "--no-pretty", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""  # what it says of a crash
    assert done.returncode in (0, 1)
    return done.stdout


pytestmark = pytest.mark.slow("runs mypy")


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.long("`make types` checks these files too, and in CI")
def test_right_usages_pass_and_each_wrong_one_gives_its_error() -> None:
    assert check(ROOT / "tests/typing") == ""


@pytest.mark.slow("runs mypy")
def test_every_ignore_stands_for_a_mistake_that_mypy_sees(tmp_path: Path) -> None:
    """Without them there is an error on each of those lines, and on no other."""
    source = WRONG.read_text(encoding="utf-8")
    lines = {number for number, line in enumerate(source.splitlines(), 1) if EXPECTED.search(line)}
    assert len(lines) > 30
    bare = tmp_path / "bare.py"
    bare.write_text(EXPECTED.sub("", source), encoding="utf-8")
    found = {int(number) for number in re.findall(r"bare\.py:(\d+): error", check(bare))}
    assert found == lines
