"""A project that has installed flowguard with its testing extra and nothing else: no repository, no AWS, no options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.newcomer.environment import FreshEnvironment
from tests.testing.plugin.project import COUNTING_LINE, ORDERS, TESTS


@pytest.mark.proof("builds a wheel, and installs everything into an environment of its own")
def test_the_plugin_is_all_that_a_project_needs(tmp_path: Path) -> None:
    fresh = FreshEnvironment(tmp_path)
    fresh.install("testing")
    project = tmp_path / "project"
    project.mkdir()
    (project / "orders.py").write_text(ORDERS)
    (project / "test_orders.py").write_text(TESTS)
    where = fresh.run(project, "python", "-c", "import flowguard; print(flowguard.__file__)").out
    assert where.startswith(str(fresh.path)), "not the repository's own"

    done = fresh.run(project, "python", "-m", "pytest", "--strict-markers", "-W", "error")
    told = done.out
    assert "2 failed, 5 passed" in told, done.told
    assert "violation 1 of 1: equivalence, schedule a2" in told
    assert f"UpdateItem totals  orders.py:{COUNTING_LINE}  ╳ dies after it (applied)" in told
    assert "record it with step.update, or make it conditional" in told
    assert "flow time line" in told
    assert "0.020 s  pack of o1, hop 2: CLAIMED, completed" in told
    assert "schedules, 1 violation\n" in told
