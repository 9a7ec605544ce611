"""The Pythons that flowguard says it runs on, as far as this machine has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.release import ROOT, said

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSIONS: Final = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
PYTHONS: Final = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if one.startswith("Programming Language")]


def program(version: str) -> str | None:
    """Return the Python of this version: what was fetched, or that of pyenv or the PATH.

    A manager of versions may have a program of the name that only says no.
    """
    managed = sorted(VERSIONS.glob(f"{version}.*/bin"))
    for folder in (ROOT / ".engines" / f"python{version}" / "bin", *managed, os.environ.get("PATH", os.defpath)):
        path = shutil.which(f"python{version}", path=str(folder))
        if path is not None and not subprocess.run([path, "--version"], check=False, capture_output=True).returncode:
            return str(Path(path).resolve())  # beside its library, which an environment of a link does not find
    return None


def with_installed(version: str, folder: Path, *requirements: str) -> Path:
    """Return a Python of this version with its own environment, in which these are installed. Skips without one."""
    python = program(version)
    if python is None:
        pytest.skip(f"python{version} is not on the PATH")
    pins = str(ROOT / ".ci" / "constraints.txt")
    said(ROOT / ".ci" / "install", folder, *requirements, PYTHON=python, PIP_CONSTRAINT=pins, UV_CONSTRAINT=pins)
    return folder / "bin" / "python"
