"""An environment that has flowguard from the wheel, and knows nothing of this repository."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT: Final = Path(__file__).parents[2]
CONSTRAINTS: Final = str(ROOT / ".ci" / "constraints.txt")
INSTALL: Final = str(ROOT / ".ci" / "install")


class Ran(NamedTuple):
    """A program that has ended."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> str:
        """Everything that it said."""
        return self.out + self.err


def fetching(*command: str, constraints: str = CONSTRAINTS) -> None:
    """Runs what fetches packages. Where the index is out of reach, the test is skipped; not in CI."""
    pinned = {f"{tool}{kind}CONSTRAINT": constraints for tool in ("PIP_", "UV_") for kind in ("", "BUILD_")}
    done = subprocess.run(command, env={**os.environ, **pinned}, capture_output=True, text=True, check=False)
    if done.returncode and "Could not find a version" in done.stderr and not os.environ.get("CI"):
        pytest.skip(f"the package index is out of reach: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


def oldest_admitted(extras: Sequence[str]) -> dict[str, str]:
    """Return by the packages that pyproject.toml names for a function and for these extras the oldest release of each.

    botocore comes with boto3, and its releases have the same numbers.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [one for extra in extras for one in project["optional-dependencies"][extra]]
    oldest: dict[str, str] = {}
    for required in map(Requirement, [*project["dependencies"], *named]):
        for admitted in required.specifier:
            known = oldest.get(required.name, "0")
            oldest[required.name] = max(known, admitted.version, key=Version)
    return {**oldest, "botocore": oldest["boto3"]}


@functools.cache
def built_wheel() -> Path:
    """The wheel of this repository, as it would be published. One serves all tests of a process."""
    folder = Path(tempfile.mkdtemp(prefix="flowguard-wheel-"))
    atexit.register(shutil.rmtree, folder)
    fetching(sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", f"--wheel-dir={folder}", str(ROOT))
    (wheel,) = folder.glob("flowguard_aws-*.whl")
    return wheel


class FreshEnvironment:
    """A virtual environment in a folder outside the repository. More extras may be installed later."""

    def __init__(self, folder: Path) -> None:
        self._wheel = built_wheel()
        self._home = folder / "home"
        self._home.mkdir()
        self.path = folder / "venv"
        venv.create(self.path)
        self._bin = self.path / "bin"
        self.python = self._bin / "python"

    def install(self, extras: str = "") -> None:
        """Installs flowguard with these extras. What is used of it is compiled then."""
        what = f"{self._wheel}[{extras}]" if extras else str(self._wheel)
        fetching(INSTALL, str(self.path), what)

    def install_oldest(self, extras: Sequence[str]) -> None:
        """Installs flowguard with these extras, and the oldest releases that it and they admit."""
        constraints = self._home / "oldest.txt"
        constraints.write_text("\n".join(f"{name}=={release}" for name, release in oldest_admitted(extras).items()))
        fetching(INSTALL, str(self.path), f"{self._wheel}[{','.join(extras)}]", constraints=str(constraints))

    def has(self, module: str) -> bool:
        """Whether a module can be imported there."""
        return not self.run(self._home, "python", "-c", f"import {module}").code

    def run(self, folder: Path, program: str, *arguments: str) -> Ran:
        """In that folder, with the environment's own programs: no region, no credentials, nothing of this process."""
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            cwd=folder,
            env={"PATH": f"{self._bin}:{os.defpath}", "HOME": str(self._home)},
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)
