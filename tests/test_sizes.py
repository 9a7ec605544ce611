"""How large the rooms of a worker are: the way of a message is read by everybody, so it stays small."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.trees import nodes, parsed

WORKER: Final = Path(__file__).parents[1] / "flowguard" / "worker"
MOST_LINES: Final = 400
MOST_IMPORTS: Final = 20
SCREEN: Final = 150
PHASES: Final = ("claim_phase", "flush_phase", "handle_phase", "commit_phase", "fail_phase")

DRIVER: Final = ("runtime", "batch", "together", "driving", "asks", "observed", "turned_away", *PHASES)
"""The modules of a worker that take messages through their phases, alone, in a batch or in threads."""

WAITS: Final = (
    *(f"protocol/{name}" for name in ("waiting", "groups", "answers", "run_orders")),
    *(f"worker/{name}" for name in ("wait_planner", "group_planner", "group_asks", "group_parts", "orders")),
    *(f"worker/{name}" for name in ("external_answer", "external_answers", "early_answers", "kept_answers")),
    *(f"aws/{name}" for name in ("wait_calls", "waits", "group_items")),
)
"""What plans, keeps, settles and ends waits, of one name or of a group in shards."""


def lines_of_code(modules: Sequence[str]) -> int:
    """Count the lines that have code: no docstrings, comments or empty lines."""
    return sum(len(_lines_of_code((WORKER.parent / f"{module}.py").read_text(encoding="utf-8"))) for module in modules)


_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def _lines_of_code(source: str) -> set[int]:
    texts = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in _NO_CODE]
    return {line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - texts


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
        for node in nodes(parsed(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in asked and "store" in ast.unparse(node.value).split(".")[-1]
    ]
    assert set(calling) == {"driving"}


@pytest.mark.parametrize(
    ("modules", "most"), [(tuple(f"worker/{name}" for name in DRIVER), 1_413), (WAITS, 2_152)], ids=["driver", "waits"]
)
def test_what_everybody_reads_does_not_grow(modules: Sequence[str], most: int) -> None:
    assert lines_of_code(modules) <= most


def test_what_is_a_line_of_code() -> None:
    source = '"""A module."""\n\nX = (\n    1,  # one\n)\n"""What it is."""\n# a comment\n\n\ndef f():\n'
    source += '    """Do it."""\n    return X\n'
    assert _lines_of_code(source) == {3, 4, 5, 10, 12}
