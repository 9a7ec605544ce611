"""Workers send less of each test, and all that is printed or asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.few_reports import FewReports, asks_for_steps, sends_less

pytest_plugins = ("pytester",)

ROOT: Final = Path(__file__).parents[1]

SUITE: Final = """
import pytest

@pytest.fixture
def broken(): raise OSError("no room")

@pytest.fixture
def leaves():
    yield
    raise OSError("not cleared away")

def test_passes(): pass
def test_fails(): assert 1 == 2
def test_is_not_set_up(broken): pass
def test_is_not_cleared_away(leaves): pass
@pytest.mark.skip(reason="not now")
def test_is_skipped(): pass
@pytest.mark.xfail(reason="known", strict=True)
def test_is_known(): assert False
"""


def report(when: str, outcome: str) -> pytest.TestReport:
    about: Any = {"when": when, "outcome": outcome, "longrepr": None}
    return pytest.TestReport("a.py::test", ("a.py", 1, "test"), {}, **about)


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
@pytest.mark.parametrize("outcome", ["passed", "failed", "skipped"])
def test_only_a_step_that_passes_before_or_after_the_test_itself_is_not_sent(when: str, outcome: str) -> None:
    data = FewReports().pytest_report_to_serializable(report(when, outcome))
    assert (data is not None) is (outcome == "passed" and when != "call")


def test_what_is_printed_is_sent() -> None:
    sent: list[Any] = []
    send = sends_less(lambda name, **about: sent.append((name, about)))
    send("logstart", nodeid="a")
    send("testreport", data=FewReports().pytest_report_to_serializable(report("setup", "passed")))
    send("testreport", data={"outcome": "passed"})
    send("logfinish", nodeid="a")
    send("runtest_protocol_complete", item_index=1)
    assert sent == [("testreport", {"data": {"outcome": "passed"}}), ("runtest_protocol_complete", {"item_index": 1})]


@pytest.mark.parametrize(
    ("asked", "all_are_sent"),
    [
        ({}, False),
        ({"verbose": -1}, False),
        ({"verbose": 1}, True),
        ({"durations": 0}, True),
        ({"xmlpath": "junit.xml"}, True),
    ],
)
def test_who_asks_for_the_steps_is_sent_all(asked: dict[str, Any], all_are_sent: bool) -> None:
    option = SimpleNamespace(**{"verbose": 0, "durations": None, "xmlpath": None, **asked})
    assert asks_for_steps(option) is all_are_sent


NOTING: Final = """
steps = []

def pytest_runtest_logreport(report):
    if hasattr(report, "node"):  # in the process that takes them
        steps.append(report.when)

def pytest_unconfigure():
    if steps:
        open("steps.txt", "w").write(" ".join(steps))
"""


@pytest.mark.slow("starts two sessions of pytest with a worker each")
def test_what_is_printed_is_the_same(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(SUITE)
    pytester.makeconftest(f"from tests.few_reports import FewReports\npytest_configure = FewReports.register\n{NOTING}")
    few = printed(pytester)
    assert steps(pytester) == ["call", "call", "setup", "call", "teardown", "setup", "call"]
    pytester.makeconftest(NOTING)
    assert printed(pytester) == few
    assert len(steps(pytester)) == 16


def steps(pytester: pytest.Pytester) -> list[str]:
    return (pytester.path / "steps.txt").read_text().split()


def printed(pytester: pytest.Pytester) -> list[str]:
    done = pytester.runpytest_subprocess("-n1", "-pno:flowguard", "-pno:hypothesispytest")
    done.assert_outcomes(passed=2, failed=1, errors=2, skipped=1, xfailed=1)
    return [line for line in done.outlines if " in " not in line]
