"""A project that has installed flowguard with its testing extra and nothing else: no repository, no AWS, no options."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.testing.plugin.project import COUNTING_LINE, ORDERS, TESTS

ROOT = Path(__file__).parents[3]
CONSTRAINTS = str(ROOT / ".ci" / "constraints.txt")


def pip(*arguments: str) -> None:
    """Runs this environment's pip. Where the index is out of reach, the test is skipped; not in CI."""
    environment = {**os.environ, "PIP_CONSTRAINT": CONSTRAINTS, "PIP_BUILD_CONSTRAINT": CONSTRAINTS}
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and "Could not find a version" in done.stderr and not os.environ.get("CI"):
        pytest.skip(f"the package index is out of reach: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def fresh_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new virtual environment, outside the repository, with ``flowguard[testing]``."""
    place = tmp_path_factory.mktemp("fresh")
    pip("wheel", "--no-deps", f"--wheel-dir={place}", str(ROOT))
    (wheel,) = place.glob("flowguard-*.whl")
    venv.create(place / "venv")
    python = place / "venv" / "bin" / "python"
    pip("--python", str(python), "install", "--no-compile", f"{wheel}[testing]")  # what is used is compiled then
    return python


def run(python: Path, project: Path, *arguments: str) -> Any:
    """In the project, with an environment that knows nothing of this one."""
    return subprocess.run(
        [str(python), *arguments],
        cwd=project,
        env={"PATH": os.environ["PATH"], "HOME": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.proof("builds a wheel, and installs everything into an environment of its own")
def test_the_plugin_is_all_that_a_project_needs(fresh_python: Path, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)
    (tmp_path / "test_orders.py").write_text(TESTS)
    where = run(fresh_python, tmp_path, "-c", "import flowguard; print(flowguard.__file__)").stdout
    assert where.startswith(str(fresh_python.parents[1])), "not the repository's own"

    done = run(fresh_python, tmp_path, "-m", "pytest", "--strict-markers", "-W", "error")
    told = done.stdout
    assert "2 failed, 5 passed" in told, told + done.stderr
    assert "violation 1 of 1: equivalence, schedule a2" in told
    assert f"UpdateItem totals  orders.py:{COUNTING_LINE}  ╳ dies after it (applied)" in told
    assert "record it with step.update, or make it conditional" in told
    assert "flow time line" in told
    assert "0.020 s  pack of o1, hop 2: CLAIMED, completed" in told
    assert "schedules, 1 violation\n" in told
