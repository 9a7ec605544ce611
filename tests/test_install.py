"""``.ci/install`` takes uv, which is quick, and pip where uv would not do what pip was told to."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).parents[1] / ".ci" / "install"
TOOL: Final = '#!/bin/sh\necho "{name} $*" >> log\n{does}\n'
UV: Final = ".venv/bin/uv"
PYTHON: Final = ".venv/bin/python"
HAS_AN_INDEX: Final = 'test "$3" = config && echo "global.index-url=https://index.example/simple"\nexit 0'

BY_UV: Final = f"{UV} pip install --quiet --python env/bin/python --requirement what.txt"
BY_PIP: Final = f"{PYTHON} -m pip --python env/bin/python install --quiet --requirement what.txt"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the script and two environments, whose tools note how they are called."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci" / "install")
    for path in ("env/bin/python", PYTHON):
        tool(tmp_path, path)
    return tmp_path


def tool(project: Path, path: str, does: str = "") -> None:
    file = project / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(TOOL.format(name=path, does=does))
    file.chmod(0o755)


def started(project: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(project / ".ci" / "install"), "env", "--requirement", "what.txt"]
    return subprocess.run(command, env={**os.environ, **variables}, check=False, capture_output=True, text=True)


def installed(project: Path, **variables: str) -> list[str]:
    done = started(project, **variables)
    assert done.returncode == 0, done.stderr
    return [line for line in (project / "log").read_text().splitlines() if " install " in line]


def test_uv_installs_where_pip_was_told_nothing_else(project: Path) -> None:
    tool(project, UV)
    assert installed(project) == [BY_UV]


def test_uv_is_installed_first_as_it_is_pinned(project: Path) -> None:
    tool(project, PYTHON, f'test "$3" != install || cp env/bin/python {UV}')
    first, then = installed(project)
    assert first == f"{PYTHON} -m pip install --quiet --no-compile --constraint .ci/constraints.txt uv"
    assert then.endswith(BY_UV.partition(" ")[2])


def test_an_index_of_pips_own_is_asked_by_pip(project: Path) -> None:
    tool(project, PYTHON, HAS_AN_INDEX)
    tool(project, UV)
    assert installed(project) == [BY_PIP]


def test_pip_installs_where_uv_fails(project: Path) -> None:
    tool(project, UV, "exit 1")
    assert installed(project) == [BY_UV, BY_PIP]


TOO_OLD: Final = 'test "$1" != -c'
"""What a Python answers that is older than flowguard needs."""
MAKES_ONE: Final = 'test "$2" != venv || { for made; do :; done; mkdir -p $made/bin; cp new $made/bin/python; }'


@pytest.mark.parametrize("old", [".venv", "env"])
def test_an_environment_of_an_old_python_is_made_anew_by_one_that_is_new_enough(project: Path, old: str) -> None:
    tool(project, f"{old}/bin/python", TOO_OLD)
    tool(project, "new", MAKES_ONE)
    (project / old / "of-the-old").touch()
    installed(project, PYTHON="./new")
    made = [line for line in (project / "log").read_text().splitlines() if " venv " in line]
    assert [(line.split()[0], "--clear" in line, line.split()[-1]) for line in made] == [("new", True, old)]


def test_what_stands_beside_in_an_environment_that_is_made_is_not_cleared(project: Path) -> None:
    (project / "env" / "bin" / "python").unlink()
    tool(project, "new", MAKES_ONE)
    installed(project, PYTHON="./new")
    assert "new -m venv --without-pip env" in (project / "log").read_text().splitlines()


@pytest.mark.parametrize("there", [True, False], ids=["an old environment", "no environment"])
def test_an_old_python_makes_no_environment_and_is_told_so(project: Path, *, there: bool) -> None:
    tool(project, PYTHON, TOO_OLD)
    if not there:
        shutil.rmtree(project / ".venv")
    tool(project, "old", TOO_OLD)
    done = started(project, PYTHON="./old")
    assert done.returncode == 1
    assert done.stderr == (
        "./old is no Python 3.11 or later, which flowguard needs; name one, such as: make PYTHON=python3.13\n"
        "nothing was made or installed\n"
    )
    assert (project / ".venv").exists() == there
    assert " venv " not in (project / "log").read_text()


def test_pip_installs_where_uv_cannot_be_had(project: Path) -> None:
    tool(project, PYTHON, 'test "$3 $4" != "install --quiet"')
    assert installed(project)[-1] == BY_PIP
