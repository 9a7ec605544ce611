"""Without Pydantic AI, ``flowguard.ai`` names the extra that brings it."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORTED = "import sys; sys.modules[{!r}] = None; from flowguard.ai import RememberedCalls"


def imported_without(module: str) -> str:
    """Return the last line of what a process says that imports the name without this module."""
    command = [sys.executable, "-c", IMPORTED.format(module)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("module", ["pydantic_ai", "pydantic_ai.capabilities"])
def test_the_extra_is_named(module: str) -> None:
    told = imported_without(module)
    assert told.startswith(
        "ModuleNotFoundError: flowguard.ai needs Pydantic AI, which its extra brings: pip install 'flowguard-aws[ai]' ("
    )
    assert module in told


def test_another_module_that_is_missing_is_named_as_it_is() -> None:
    told = imported_without("flowguard.ai.faults")
    assert told == "ModuleNotFoundError: import of flowguard.ai.faults halted; None in sys.modules"
