"""What a report prints is bounded, whatever happened: all of it is on the page and in the JSON."""

from __future__ import annotations

from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.report.findings import Report, Trace, Violation
from flowguard.testing.explorer.report.folded import MOST_LINES, folded
from flowguard.testing.explorer.report.lanes import Lanes

LONG = [f"line {number}" for number in range(700)]


def report(count: int, problems: int = 1) -> Report:
    each = tuple(Problem("I6", f"run {number}", "is lost") for number in range(problems))
    violations = tuple(Violation(f"d{one}", each, None, "mend it", (), tuple(LONG)) for one in range(count))
    return Report(("f",), 9, 1, 1, 0, {}, violations)


def test_a_time_line_that_fits_is_shown_as_it_is() -> None:
    assert folded(LONG[:MOST_LINES], "d1") == LONG[:MOST_LINES]


def test_of_a_longer_one_the_ends_and_what_went_wrong_are_shown() -> None:
    struck = [*LONG[:300], "call 301  ╳ dies before it", *LONG[301:]]
    lines = folded(struck, "d301")
    assert (lines[0], lines[14]) == ("line 0", "line 14")
    assert lines[15] == "      … 280 lines more: --schedule d301 or a page (--html) shows them"
    assert lines[16:18] == ["line 295", "line 296"]
    assert "call 301  ╳ dies before it" in lines
    assert lines[-15] == "line 685"
    assert len(lines) < MOST_LINES


def test_what_goes_wrong_everywhere_is_shown_at_two_places() -> None:
    assert len(folded([f"{line}  ╳" if line.endswith("00") else line for line in LONG], "f1")) == MOST_LINES + 3


def test_a_report_of_many_violations_is_bounded() -> None:
    text = str(report(20, problems=50))
    assert len(text.splitlines()) < 400
    assert text.count("line 0\n") == 3, "so many time lines"
    assert "  what differs      and 44 more" in text


def test_what_pytest_shows_of_a_report_in_an_assertion_is_a_line() -> None:
    assert repr(report(2)) == "<Report: broken, 2 violations, 9 schedules>"
    assert repr(Trace(("f",), "d1", tuple(LONG), Lanes.__new__(Lanes), ())) == "<Trace: schedule d1, 0 violations>"
