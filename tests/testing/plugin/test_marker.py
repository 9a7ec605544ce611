"""``@pytest.mark.flow_explore``, its fixtures and its option, in a project of a user's."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.testing.plugin.project import COUNTING_LINE, Session

pytest_plugins = ("pytester",)

BUG = "@pytest.mark.flow_explore(CountOrders, **few)\ndef test_counted(): ...\n"
FINE = "@pytest.mark.flow_explore(Shop, **few)\ndef test_fine(): ...\n"


@pytest.mark.proof("explores a whole case")
def test_a_flow_that_survives_passes_and_its_schedules_are_counted(session: Session) -> None:
    result = session(FINE)
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"-+ flow explorations -+", r"\d\d+ schedules, 0 violations"])


@pytest.mark.slow("explores a flow in a session of pytest")
def test_with_v_each_exploration_has_its_line(session: Session) -> None:
    result = session(BUG, "-v")
    result.stdout.re_match_lines([r"test_orders.py::test_counted: count-orders: \d+ schedules, \d+ calls met \d+ .*"])
    *_, of_the_test, of_all = re.findall(r"(\d+) schedules, ", result.stdout.str())
    assert of_the_test == of_all, "each counts once"
    assert "flow explorations" not in session(BUG, "-q").stdout.str()


def test_a_failure_is_the_time_line_and_nothing_else(session: Session) -> None:
    result = session(BUG)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ test_counted _*",
            "violation 1 of 1: equivalence, schedule a2, found by 1 schedule",
            f"*UpdateItem totals  orders.py:{COUNTING_LINE}  ╳ dies after it (applied)",
            "*what differs * undisturbed  this schedule",
            "*totals, day monday: amount  1            2",
            f"*the line *orders.py:{COUNTING_LINE}: *update_item(",
            "*likely fix  *record it with step.update, or make it conditional",
            "pytest 'test_orders.py::test_counted' --flow-schedule a2",
            "* schedules, 1 violation",
        ]
    )
    for noise in ("Traceback", "plugin.py", "exploration.py", "Failed: "):
        assert noise not in result.stdout.str().partition("short test summary")[0]


def test_exactly_one_schedule_is_run_again(session: Session) -> None:
    broken = session(BUG, "--flow-schedule", "a2")
    broken.assert_outcomes(failed=1)
    broken.stdout.fnmatch_lines(["schedule a2", "*╳ dies after it (applied)", "violation: equivalence, schedule a2, *"])
    assert "flow explorations" not in broken.stdout.str()


def test_a_schedule_that_breaks_nothing_shows_its_time_line_all_the_same(session: Session) -> None:
    sound = session(BUG, "--flow-schedule", "e2")
    sound.assert_outcomes(passed=1)
    sound.stdout.fnmatch_lines(
        ["*flow time line of test_orders.py::test_counted*", "schedule e2", "*w1  count, hop 1*", "0 violations"]
    )


def test_an_id_that_is_none_is_told_without_a_traceback(session: Session) -> None:
    result = session(BUG, "--flow-schedule", "j9")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["NoSuchSchedule: 'j9' is no schedule: *"])
    assert "plugin.py" not in result.stdout.str()


def test_the_body_is_an_invariant_of_each_schedule(session: Session) -> None:
    result = session(
        "@pytest.mark.flow_explore(CountOrders, free={'totals': ['amount']}, **few)\n"
        "def test_counted(flow_view):\n"
        "    total = flow_view.item('totals', day='monday') or {'amount': 0}\n"
        "    assert total['amount'] <= 1\n"
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["violation 1 of 1: test_counted, schedule a2, *", "*what differs *, assert 2 <= 1*"])


@pytest.mark.proof("explores a whole case")
def test_the_body_sees_every_schedule_with_fixtures_of_its_own(session: Session) -> None:
    result = session(
        "seen = []\n"
        "@pytest.mark.parametrize('most', [1])\n"
        "@pytest.mark.flow_explore(Shop, **few)\n"
        "def test_seen(flow_view, most, tmp_path):\n"
        "    assert tmp_path.is_dir()\n"
        "    seen.append(len(flow_view.sent('mails')))\n"
        "    assert seen[-1] <= most\n"
        "def test_afterwards():\n"
        "    assert len(seen) > 20\n"
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("saying", ["pytest.fail('too many')", "return 'too many'", "raise ValueError('too many')"])
def test_a_body_says_it_in_any_way(session: Session, saying: str) -> None:
    result = session(f"@pytest.mark.flow_explore(Shop, **few)\ndef test_no():\n    {saying}\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["violation 1 of 1: test_no, schedule none, *", "*what differs *too many"])


def test_a_skip_in_the_body_skips(session: Session) -> None:
    session("@pytest.mark.flow_explore(Shop, **few)\ndef test_no():\n    pytest.skip('another day')\n").assert_outcomes(
        skipped=1
    )


@pytest.mark.slow("explores a flow in a session of pytest")
def test_an_expected_failure_of_the_body_is_one(session: Session) -> None:
    session("@pytest.mark.flow_explore(Shop, **few)\ndef test_no():\n    pytest.xfail('soon')\n").assert_outcomes(
        xfailed=1
    )


def test_methods_and_invariants_of_others(session: Session) -> None:
    result = session(
        "@invariant\n"
        "def never(view):\n"
        "    return 'never so'\n"
        "class TestShop:\n"
        "    @pytest.mark.flow_explore(Shop, invariants=[never], **few)\n"
        "    def test_it(self, flow_view):\n"
        "        assert flow_view.runs()\n"
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["violation 1 of 1: never, *", "*, never so"])


def test_a_mistake_is_an_error_of_the_test_and_told_by_its_own_words(session: Session) -> None:
    result = session("@pytest.mark.flow_explore(Take, messages=[ORDER], walk=1)\ndef test_it(): ...\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "MarkerError: @pytest.mark.flow_explore is not well defined:",
            "  - <class 'orders.Take'> is no Flow; *",
            "  - it takes no 'walk'; *",
        ]
    )
    assert "plugin.py" not in result.stdout.str()


@pytest.mark.parametrize(
    ("test", "problem"),
    [
        ("async def test_it(): ...", "it marks plain test functions and methods; this is none"),
        ("async def test_it(): yield", "it marks plain test functions and methods; this is none"),
        (
            "def test_it(flow_runner): ...",
            "an exploration has an engine*take flow_clock, flow_engine, flow_runner out*",
        ),
    ],
)
def test_what_cannot_be_explored_is_an_error_and_never_passes(session: Session, test: str, problem: str) -> None:
    result = session(f"@pytest.mark.flow_explore(Shop, **few)\n{test}\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"@pytest.mark.flow_explore: {problem}"])


def test_a_method_of_unittest_is_no_plain_one(session: Session) -> None:
    result = session(
        "import unittest\n"
        "class TestIt(unittest.TestCase):\n"
        "    @pytest.mark.flow_explore(Shop, **few)\n"
        "    def test_it(self): ...\n"
    )
    result.assert_outcomes(errors=1)


def test_a_view_is_for_explorations(session: Session) -> None:
    result = session("def test_it(flow_view): ...\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["flow_view is for tests marked with @pytest.mark.flow_explore; *"])


def test_a_fixture_that_asks_for_the_view_is_told(session: Session) -> None:
    result = session(
        "@pytest.fixture\n"
        "def runs(flow_view):\n"
        "    return flow_view.runs()\n"
        "@pytest.fixture\n"
        "def view(flow_view):\n"
        "    return flow_view\n"
        "@pytest.mark.flow_explore(Shop, **few)\n"
        "def test_early(runs): ...\n"
        "@pytest.mark.flow_explore(Shop, **few)\n"
        "def test_late(view):\n"
        "    assert view.runs()\n"
    )
    result.assert_outcomes(errors=1, failed=1)
    told = "*flow_view.runs: there is one for each schedule, and a fixture is made before them; the test itself asks *"
    result.stdout.fnmatch_lines([told, told])


# -- what is not there ------------------------------------------------------------------------------------------------


def test_what_is_not_installed_is_told_with_the_cure(session: Session) -> None:
    result = session("import sys\nsys.modules['time_machine'] = None\ndef test_it(flow_clock): ...\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["SettingsError: VirtualTime: time-machine is not installed; pip install *"])
    assert "virtual.py" not in result.stdout.str()


def test_two_engines_at_once_are_told_apart(session: Session) -> None:
    result = session(
        "from flowguard.testing import EmbeddedAWS\n"
        "@pytest.fixture\n"
        "def mine():\n"
        "    with EmbeddedAWS() as aws:\n"
        "        yield aws\n"
        "def test_it(mine, flow_engine): ...\n"
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["SettingsError: EmbeddedAWS: another one is open in this process; close it first"])


# -- beside other plugins ----------------------------------------------------------------------------------------------


@pytest.mark.proof("three processes that explore")
def test_several_processes_share_the_tests(session: Session) -> None:
    result = session(FINE + BUG, "-n", "2")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*violation 1 of 1: equivalence, schedule a2, *", "* schedules, 1 violation"])


def test_whoever_does_not_use_it_pays_next_to_nothing() -> None:
    check = (
        "import sys, pytest; before = set(sys.modules); import flowguard.testing.plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [
        "flowguard",
        "flowguard.errors",
        "flowguard.names",
        "flowguard.names.public",
        "flowguard.testing",
        "flowguard.testing.plugin",
        "flowguard.testing.raised",
    ]
