"""The page for those who operate a flow names each alarm that a template has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowguard.deploy.alarms import alarms_of
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, options_of

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "operating.md"


NAMED = re.findall(r"^\| `…(-[a-z-]+)` ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def alarms(name: str) -> list[str]:
    return [alarm.name for alarm in alarms_of(needs(MODULES[name], options=options_of(name)), 900)]


@pytest.mark.parametrize("flow", MODULES)
def test_the_page_has_a_row_for_each_alarm(flow: str) -> None:
    assert [name for name in alarms(flow) if not name.endswith(tuple(NAMED))] == []


def test_the_page_has_no_other_row() -> None:
    made = [name for flow in MODULES for name in alarms(flow)]
    assert [one for one in NAMED if not any(name.endswith(one) for name in made)] == []
