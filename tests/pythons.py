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
PYTHONS: Final = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if one.startswith("Programming Language")]


def program(version: str) -> str | None:
    """Return the Python of this version. A manager of versions may have a program of the name that only says no."""
    fetched = ROOT / ".engines" / f"python{version}" / "bin"
    path = shutil.which(f"python{version}", path=f"{fetched}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    works = path is not None and not subprocess.run([path, "--version"], check=False, capture_output=True).returncode
    return path if works else None


def with_installed(version: str, folder: Path, *requirements: str) -> Path:
    """Return a Python of this version with its own environment, in which these are installed. Skips without one."""
    python = program(version)
    if python is None:
        pytest.skip(f"python{version} is not on the PATH")
    pins = str(ROOT / ".ci" / "constraints.txt")
    said(ROOT / ".ci" / "install", folder, *requirements, PYTHON=python, PIP_CONSTRAINT=pins, UV_CONSTRAINT=pins)
    return folder / "bin" / "python"
