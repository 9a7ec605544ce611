"""Conditions live in one layer of a flow: its handlers call methods with the names of the business."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FLOWS = Path(__file__).parents[2] / "flows"
RECORDS = frozenset({"put", "update", "delete", "check", "modify", "newest_wins", "fence"})


def records(source: str) -> list[str]:
    """The calls of a step that write, or judge, and the conditions."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    written = [ast.unparse(call) for call in calls if isinstance(call.func, ast.Attribute) and _writes(call.func)]
    conditions = [ast.unparse(call) for call in calls if any(one.arg == "condition" for one in call.keywords)]
    return [*written, *conditions]


def _writes(called: ast.Attribute) -> bool:
    return called.attr in RECORDS and ast.unparse(called.value).endswith("step")


@pytest.mark.parametrize(
    ("area", "tables"), [("appointments", "surgery.py"), ("orders", "shop.py"), ("take_payment", "books.py")]
)
def test_the_handlers_of_a_flow_leave_tables_and_conditions_to_one_module(area: str, tables: str) -> None:
    assert records((FLOWS / area / "flow.py").read_text()) == []
    assert records((FLOWS / area / tables).read_text())
    assert not [one.name for one in (FLOWS / area).glob("*.py") if one.name != tables and records(one.read_text())]


def test_a_condition_in_a_handler_is_seen() -> None:
    assert records('class A:\n    def handle(self, order, step):\n        step.put("t", order, condition="x")')
