"""What an exploration changes of Python itself, threads and programs, it changes on each Python alike."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.pythons import PYTHONS, with_installed
from tests.release import ROOT, said

TESTS: Final = tuple(f"tests/testing/explorer/run/test_{name}.py" for name in ("network", "virtual_waits", "outside"))


@pytest.mark.long("the tests of what is changed of Python, on the other Pythons that this machine has")
@pytest.mark.parametrize("version", PYTHONS)
def test_what_is_changed_of_python_is_changed_on_each(version: str, tmp_path: Path) -> None:
    needed = ("hypothesis", "httpx", "httpx2", "aiohttp", "redis", "psycopg[binary]")
    python = with_installed(version, tmp_path / "venv", f"{ROOT}[cli,testing]", *needed)
    given = ("-q", "-p", "no:cacheprovider", "-m", "not proof and not long")
    assert " passed" in said(python, "-m", "pytest", *given, *TESTS, PYTHONDONTWRITEBYTECODE="1")
