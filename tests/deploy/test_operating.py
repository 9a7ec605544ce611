"""The page for those who operate a flow names each alarm that a template has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowguard.deploy.alarms import alarms_of
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, SHIPPED

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "operating.md"


@pytest.mark.parametrize("flow", SHIPPED)
def test_the_page_has_a_row_for_each_alarm_and_no_other(flow: str) -> None:
    named = re.findall(r"^\| `…(-[a-z-]+)` ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    alarms = [alarm.name for alarm in alarms_of(needs(MODULES[flow]), 900)]
    assert [name for name in alarms if not name.endswith(tuple(named))] == []
    assert {one for one in named if not any(name.endswith(one) for name in alarms)} == set()
