"""How large the rooms of a worker are: the way of a message is read by everybody, so it stays small."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

WORKER: Final = Path(__file__).parents[1] / "flowguard" / "worker"
MOST_LINES: Final = 400
MOST_IMPORTS: Final = 20
SCREEN: Final = 150
PHASES: Final = ("claim_phase", "flush_phase", "handle_phase", "commit_phase", "fail_phase")


def imported(module: str) -> set[str]:
    """The modules of flowguard that a module of the worker imports."""
    tree = ast.parse((WORKER / f"{module}.py").read_text(encoding="utf-8"))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {name for name in modules if name.startswith("flowguard")}


@pytest.mark.parametrize("module", sorted(WORKER.glob("*.py")), ids=lambda path: path.stem)
def test_no_room_of_a_worker_is_too_large(module: Path) -> None:
    assert len(module.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_the_runtime_is_one_screen_that_knows_few_others() -> None:
    assert len((WORKER / "runtime.py").read_text(encoding="utf-8").splitlines()) <= SCREEN
    assert len(imported("runtime")) < MOST_IMPORTS


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_is_a_room_that_only_the_runtime_puts_together(phase: str) -> None:
    """A phase knows those whose parts it uses; none knows the runtime, the driver or the batch."""
    assert f"flowguard.worker.{phase}" in imported("runtime")
    assert imported(phase).isdisjoint(
        f"flowguard.worker.{name}" for name in ("runtime", "driving", "batch", "together")
    )


def test_only_the_driver_calls_the_store_for_claims_reads_and_commits() -> None:
    """What a way asks it yields, or it could not be answered beside others, watched, or replayed."""
    asked = {"claim", "judge", "commit"}
    calling = [
        path.stem
        for path in WORKER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in asked and "store" in ast.unparse(node.value).split(".")[-1]
    ]
    assert set(calling) == {"driving"}
