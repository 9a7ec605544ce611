"""What a failed test that runs flows shows: its own line, and what the flows did."""

from __future__ import annotations

import re

import pytest

from tests.testing.plugin.project import Session

pytest_plugins = ("pytester",)

RUNNING = "def test_it(flow_runner):\n    flow_runner.send(Shop, ORDER)\n    "


def test_a_failure_shows_what_the_flows_did(session: Session) -> None:
    result = session(f"{RUNNING}assert flow_runner.run().run('o1').hop == 3\n", "--flow-schedule", "none")
    result.assert_outcomes(failed=1)
    assert result.stdout.str().count("flow time line") == 1
    result.stdout.fnmatch_lines(
        [
            "*flow time line*",
            "*0.000 s  take of o1, hop 1: CLAIMED, committed",
            "*put orders o1",
            "*0.020 s  pack of o1, hop 2: CLAIMED, completed",
            "*sent to mails",
            '*shop of o1: COMPLETED at pack, hop 2: {"amount": 1}',
        ]
    )


@pytest.mark.slow("explores a flow in a session of pytest")
@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("send(int, 3)", "SettingsError: flow_runner.send: <class 'int'> is no Flow; *"),
        ("serve(3)", "SettingsError: flow_runner.serve: 3 is no Flow; *"),
        ("serve(Shop).deliver(object())", "EnvelopeError: invocation: payload: is not JSON: *"),
        ("run()", "NoFlow: the runner has no flow to run; *"),
    ],
)
def test_a_mistake_in_a_call_is_told_at_the_line_of_the_test(call: str, problem: str, session: Session) -> None:
    test = f"def test_it(flow_runner):\n    flow_runner.{call}\n"
    result = session(test)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f">   *flow_runner.{call}", f"E   *{problem}"])
    inside = r"flowguard/(testing/)?(runner|arguments|records)\.py:\d"
    told = result.stdout.str()
    assert not re.search(inside, told), told
    assert "flow time line" not in told, "nothing was delivered"
    assert re.search(inside, session(test, "--full-trace").stdout.str())


def test_a_time_line_that_cannot_be_shown_says_why(session: Session) -> None:
    result = session(f"{RUNNING}flow_runner._rows = 3\n    assert flow_runner is None\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E   *assert * is None", "*flow time line*", "it cannot be shown: TypeError: 'int' object is not iterable"]
    )
    assert "INTERNALERROR" not in result.stdout.str()


def test_an_error_of_the_tests_own_keeps_its_way(session: Session) -> None:
    result = session("import json\ndef test_it(flow_runner):\n    json.loads('no JSON')\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([">   *json.loads('no JSON')", "E   *JSONDecodeError: *", "*json*decoder.py:*"])


def test_a_test_that_passes_shows_nothing(session: Session) -> None:
    result = session(f"{RUNNING}assert flow_runner.run().run('o1').hop == 2\n", "-rA", "-v")
    result.assert_outcomes(passed=1)
    assert "time line" not in result.stdout.str()
    assert "explorations" not in result.stdout.str()


def test_who_looks_into_a_mistake_gets_all_of_its_way(session: Session, pytester: pytest.Pytester) -> None:
    """As a debugger does."""
    pytester.makeconftest(
        "def pytest_exception_interact(call):\n    print('raised in', call.excinfo.traceback[-1].path.name)\n"
    )
    result = session("def test_it(flow_runner):\n    flow_runner.serve(3)\n", "-s")
    result.stdout.fnmatch_lines(["*raised in arguments.py"])
