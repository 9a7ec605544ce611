"""Recorded requests that start runs, replayed: the function of the flow's package gets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from flowguard.cli import main
from flowguard.sim.functions import start_handlers
from tests.deploy import starting
from tests.scene import Orders

SAMPLES = sorted(map(str, Path("samples/starts").glob("*.json")))


def replayed(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(main, ["replay", "--json", *arguments, *SAMPLES])
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_a_request_starts_a_run_and_a_repeat_gets_its_end() -> None:
    code, rows = replayed("--flow", "tests.deploy.starting:Shipping")
    assert code == 0
    assert [row["status"] for row in rows if row.get("status") in (200, 202, 422)] == [202, 200, 422]
    assert [row["outcome"] for row in rows if row.get("stage") == "ship" and "outcome" in row] == ["completed"]


def test_a_handler_is_that_of_its_flow_alone() -> None:
    assert [*start_handlers([starting.Shipping])][:2] == [starting.start, starting.start_public]
    assert [*start_handlers([Orders])] == []
