"""A report as SARIF: a result for each violation, at its line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.report.findings import Report, Violation
from flowguard.testing.explorer.report.sarif import sarif

PROBLEM = Problem("equivalence", "totals", "day monday: n", 5, 10)
VIOLATION = Violation("a1", (PROBLEM,), Site("", 0, "claim"), "make it conditional", (), ())
REPORT = Report(("orders",), 1, 1, 1, 0, {}, (VIOLATION,))


def results(report: Report) -> list[Any]:
    log = json.loads(sarif(report, "1.2"))
    (run,) = log["runs"]
    assert (log["version"], run["tool"]["driver"]["version"]) == ("2.1.0", "1.2")
    assert {one["id"] for one in run["tool"]["driver"]["rules"]} == {one.rule for one in report.violations}
    found: list[Any] = run["results"]
    return found


@pytest.mark.parametrize(("file", "uri"), [("shop/a b.py", "shop/a%20b.py"), ("/elsewhere/a.py", "/elsewhere/a.py")])
def test_a_violation_is_shown_at_its_line(file: str, uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    path = file if file.startswith("/") else str(tmp_path / file)
    (one,) = results(replace(REPORT, violations=(replace(VIOLATION, site=Site(path, 7, "handler")),)))
    (place,) = one["locations"]
    assert place["physicalLocation"] == {"artifactLocation": {"uri": uri}, "region": {"startLine": 7}}
    assert one["message"]["text"] == "schedule a1: totals, day monday: n. make it conditional"
    assert (one["ruleId"], one["level"]) == ("equivalence", "error")


@pytest.mark.parametrize("site", [None, Site("", 0, "claim")])
def test_one_without_a_line_has_no_place(site: Site | None) -> None:
    (one,) = results(replace(REPORT, violations=(replace(VIOLATION, site=site),)))
    assert one["locations"] == []


def test_nothing_found_is_no_result() -> None:
    assert results(replace(REPORT, violations=())) == []


@pytest.mark.parametrize(
    ("report", "verdict"),
    [
        (REPORT, "broken"),
        (replace(REPORT, violations=(), coverage={"orders: PutItem": "a"}), "clean"),
        (replace(REPORT, violations=()), "not looked at"),
        (replace(REPORT, violations=(), coverage={"orders: PutItem": "a"}, has_run=False), "not looked at"),
    ],
)
def test_the_verdict_has_its_ground(report: Report, verdict: str) -> None:
    assert report.verdict == report.as_json()["verdict"] == verdict


def test_what_never_ran_and_what_was_compared_is_said() -> None:
    report = replace(REPORT, violations=(), coverage={"orders: PutItem": "a"}, never_ran=("undo", "late"))
    assert "never ran: undo, late; no message and no fault came there" in report.summary()
    assert report.tried.endswith("; compared: nothing but how runs ended")
    assert replace(report, compared=tuple("abcdefgh")).tried.endswith("; compared: a, b, c, d, e, f and 2 more")
    assert replace(report, compared=tuple("abcdef")).tried.endswith("; compared: a, b, c, d, e, f")
