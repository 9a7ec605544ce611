"""The page of the lifecycle names the code that carries it out, and that code reads like the page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/explain/way-of-a-message.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([A-Z]?[\w.]+)` in\s`([\w/]+\.py)`", PAGE)
SCREEN = 40


def function(name: str, file: str) -> ast.FunctionDef:
    """A function or a method of a module of flowguard."""
    found: ast.AST = ast.parse((ROOT / "flowguard" / file).read_text(encoding="utf-8"))
    for part in name.split("."):
        [found] = [
            node
            for node in ast.iter_child_nodes(found)
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == part
        ]
    assert isinstance(found, ast.FunctionDef)
    return found


def calls(name: str, file: str) -> list[str]:
    """The names of what is called, in the order of the lines."""
    found = [node.func for node in ast.walk(function(name, file)) if isinstance(node, ast.Call)]
    found.sort(key=lambda node: (node.end_lineno, node.end_col_offset))
    return [node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in found]


def test_the_page_names_a_function_for_each_of_its_seven_steps() -> None:
    rows = [row for row in PAGE.splitlines() if row.startswith("|") and row.endswith(".py` |")]
    assert [row.split("|")[1].strip(" *") for row in rows] == [
        "normalise",
        "resolve",
        "claim",
        "handle",
        "commit",
        "dispatch",
        "ack",
    ]


@pytest.mark.parametrize(("name", "file"), NAMED)
def test_what_the_page_names_is_there(name: str, file: str) -> None:
    assert function(name, file).name == name.rpartition(".")[2]


@pytest.mark.parametrize(
    ("name", "file", "steps"),
    [
        ("LambdaHandler.__call__", "handler.py", ["normalize", "Batch", "run"]),
        ("Batch.run", "worker/batch.py", ["_in_turn", "_in_waves", "dispatch"]),
        ("Batch._in_turn", "worker/batch.py", ["_ending", "dispatch"]),
        ("Batch._ending", "worker/batch.py", ["_arrival", "_alone"]),
        ("Batch._alone", "worker/batch.py", ["alone", "work"]),
        ("Batch._arrival", "worker/batch.py", ["resolve"]),
        ("Runtime.work", "worker/runtime.py", ["claim", "_held"]),
        ("Runtime._held", "worker/runtime.py", ["flush", "_handled", "written", "failed", "answered"]),
        ("Runtime._handled", "worker/runtime.py", ["planned", "failed"]),
    ],
)
def test_the_code_has_the_steps_in_that_order_on_one_screen(name: str, file: str, steps: list[str]) -> None:
    found = calls(name, file)
    assert [found.index(step) for step in steps] == sorted(found.index(step) for step in steps)
    node = function(name, file)
    assert (node.end_lineno or 0) - node.lineno < SCREEN
