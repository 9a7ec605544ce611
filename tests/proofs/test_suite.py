"""What takes too long for each change is run by `make prove`: nothing is left out, and what takes long says why."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import unit
from tests.conftest import REASONED
from tests.proofs import suite
from tests.proofs.prove import others

pytest_plugins = ("pytester",)
ROOT = Path(__file__).parents[2]

COLLECTS = """
import contextlib, json, sys, pytest

class Found:
    chosen = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        self.tests = [one.nodeid for one in items]
        marks = {"slow", "proof", "long"}
        self.marked = [one.nodeid for one in items if marks & {mark.name for mark in one.iter_markers()}]
        for config.option.markexpr in sys.argv[1:]:  # one collection for all selections: it takes its time
            chosen = list(items)
            config.pluginmanager.get_plugin("mark").pytest_collection_modifyitems(chosen, config)
            self.chosen[config.option.markexpr] = [one.nodeid for one in chosen]

found = Found()
with contextlib.redirect_stdout(sys.stderr):
    code = pytest.main(["-q", "--collect-only", "-n", "0", "-p", "no:cacheprovider"], plugins=[found])
print(json.dumps({"tests": found.tests, "marked": found.marked, "chosen": found.chosen, "code": code}))
"""


def test_what_make_test_leaves_out_make_prove_runs_and_ci_runs_both() -> None:
    [recipe] = re.findall(r"^\t.*-m pytest .*$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r'-m "(.*?)"', recipe) == [suite.QUICK]
    assert suite.__name__ in {one.module for one in others.ALL}
    assert re.search(r"^\.ci/within \d+ make prove PROVE=--brief$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert re.search(r"<!-- test command -->\n```sh\nmake test\n```", (ROOT / "README.md").read_text())


@pytest.mark.long("collects all tests once more, to see that three expressions select what they say")
def test_each_test_is_run_by_make_test_or_before_a_release_and_most_proofs_by_ci() -> None:
    selections = (suite.QUICK, suite.PROOFS, suite.ALL)
    command = [sys.executable, "-c", COLLECTS, *selections]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["code"] == 0, done.stderr
    assert len(found["tests"]) == len(set(found["tests"]))
    quick, proofs, before_a_release = (found["chosen"][one] for one in selections)
    assert before_a_release == found["marked"]
    assert sorted(quick + before_a_release) == sorted(found["tests"])
    assert set(before_a_release) > set(proofs) > set()


# -- a test that takes long says why -----------------------------------------------------------------------------------

BUSY = """
import time
import pytest

def test_busy():
    began = time.process_time()
    while time.process_time() < began + 0.05:
        pass
"""


@pytest.fixture
def session(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with this one's rules for tests that take long."""
    hooks = "pytest_addoption, pytest_collection_modifyitems, pytest_runtest_call"
    pytester.makeconftest(f"from tests.conftest import {hooks}")
    marks = "".join(f"    {name}(reason): takes long\n" for name in REASONED)
    pytester.makeini(f"[pytest]\nmarkers =\n{marks}")
    return pytester


def run(session: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run the session in this process. At its end pytest would look five times for garbage of the whole process."""
    return session.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:unraisableexception", *options)


def marked(mark: str) -> str:
    return BUSY.replace("def test", f"@pytest.mark.{mark}\ndef test")


@pytest.mark.slow("starts pytest")
def test_a_test_that_takes_more_cpu_than_the_limit_fails_and_is_told_the_cure(session: pytest.Pytester) -> None:
    session.makepyfile(BUSY)
    ended = run(session, "--cpu-limit=0.01")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["*took 0.? s of CPU, 0.* units of at most 0.01: make it quicker, or give the reason*"])


@pytest.mark.parametrize("mark", ["slow('burns CPU')", "proof('burns CPU')", "long('burns CPU')"])
def test_a_test_with_its_reason_may_take_longer(session: pytest.Pytester, mark: str) -> None:
    session.makepyfile(marked(mark))
    run(session, "--cpu-limit=0.01").assert_outcomes(passed=1)


@pytest.mark.parametrize("options", [[], ["--cpu-limit=1000"]])
def test_no_test_is_judged_unasked_or_below_the_limit(session: pytest.Pytester, options: list[str]) -> None:
    session.makepyfile(BUSY)
    run(session, *options).assert_outcomes(passed=1)


@pytest.mark.parametrize(("units", "counts"), [([0.05, 0.2, 0.05], {"passed": 1}), ([0.05, 0.09, 0.05], {"failed": 1})])
def test_a_test_is_judged_by_the_slowest_of_three_units_here(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, units: list[float], counts: dict[str, int]
) -> None:
    session.makepyfile(BUSY)
    measured = iter(units)
    monkeypatch.setattr(unit, "seconds", lambda: next(measured))
    run(session, "--cpu-limit=0.45").assert_outcomes(**counts)


@pytest.mark.parametrize("mark", ["slow", "slow('')", "proof", "proof()", "long"])
def test_a_mark_without_its_reason_is_refused(session: pytest.Pytester, mark: str) -> None:
    session.makepyfile(marked(mark))
    ended = run(session)
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    ended.stderr.fnmatch_lines(["*say why it takes so long, as in slow('all characters'):*::test_busy"])


# -- what became of each test ------------------------------------------------------------------------------------------


def test_how_each_test_ended_is_told_its_worst_ending_last() -> None:
    outcomes = suite.Outcomes()
    for test, when, outcome in [
        ("a", "setup", "passed"),
        ("a", "call", "passed"),
        ("a", "teardown", "failed"),
        ("b", "setup", "skipped"),
        ("c", "setup", "passed"),
        ("c", "call", "passed"),
        ("c", "teardown", "passed"),
        ("d", "setup", "failed"),
    ]:
        report = pytest.TestReport(test, ("", 0, ""), {}, outcome, None, when)  # type: ignore[arg-type]  # literals
        outcomes.pytest_runtest_logreport(report)
    assert outcomes.by_test == {"a": "failed", "b": "skipped", "c": "passed", "d": "failed"}


def having(**outcomes: str) -> suite.Outcomes:
    found = suite.Outcomes()
    found.by_test.update(outcomes)
    return found


@pytest.mark.parametrize(
    ("again", "code", "unsteady", "ends"),
    [
        ({"b": "passed", "c": "passed"}, 0, ["b", "c"], 0),
        ({"b": "passed", "c": "failed"}, 1, ["b"], 1),
        ({"b": "passed", "c": "skipped"}, 0, ["b"], 1),
        ({"b": "passed"}, 0, ["b"], 1),
        ({}, 4, [], 1),
    ],
)
def test_what_fails_beside_others_is_run_alone_and_fails_where_it_fails_again(
    again: dict[str, str], code: int, unsteady: list[str], ends: int
) -> None:
    outcomes = having(a="passed", b="failed", c="failed")

    def alone(tests: Sequence[str], found: suite.Outcomes) -> int:
        assert tests == ["b", "c"]
        found.by_test.update(again)
        return code

    assert (outcomes.failed_again(alone), outcomes.unsteady) == (ends, unsteady)
    said = suite._as_json(outcomes, ends)
    assert len(said["lines"]) == len(unsteady)
    assert said["ok"] is (ends == 0)


def test_where_much_fails_nothing_is_run_again() -> None:
    outcomes = having(**{f"t{number}": "failed" for number in range(suite.MOST_UNSTEADY + 1)})
    assert outcomes.failed_again(lambda tests, found: pytest.fail("nothing is run")) == 1
