"""Leases are left to the code on each Python alike: what is judged is compiled code, which differs between them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.pythons import PYTHONS, with_installed
from tests.release import ROOT, said

TESTS: Final = (
    "tests/worker/test_leases.py",
    "tests/worker/runtime/test_auto_lease.py",
    "tests/deploy/test_auto_lease.py",
)


@pytest.mark.long("the tests of automatic leases, on the other Pythons that this machine has")
@pytest.mark.parametrize("version", PYTHONS)
def test_the_code_of_stages_is_judged_alike_on_each_python(version: str, tmp_path: Path) -> None:
    python = with_installed(version, tmp_path / "venv", f"{ROOT}[cli,testing]", "hypothesis")
    given = ("-q", "-p", "no:cacheprovider")
    assert " passed" in said(python, "-m", "pytest", *given, *TESTS, PYTHONDONTWRITEBYTECODE="1")
