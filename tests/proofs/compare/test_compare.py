"""What the explorer finds in each way, and what it does not find: the table of docs/explain/comparison.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from flowguard.testing.explorer import Violation, replay
from flowguard.testing.explorer.record.schedule import FaultKind
from tests.proofs.compare import check_then_act, mark_first, powertools
from tests.proofs.compare.__main__ import BUSINESS, compare
from tests.proofs.compare.business import Way, changes, charges, declined
from tests.proofs.compare.faults import broken_by
from tests.proofs.compare.table import undisturbed

pytestmark = pytest.mark.proof("the same business in six forms under every fault")

PAGE: Final = Path(__file__).parents[3] / "docs" / "explain" / "comparison.md"
TWICE, LOST, OLDER = "applied twice", "lost", "older over newer"
STAYS, BACK_TWICE = "stays charged", "back twice"
CHARGES = {way.name: way for way in charges()}
CHANGES = {way.name: way for way in changes()}
DECLINED = {way.name: way for way in declined()}


def after(way: Way, schedule: str) -> set[str]:
    """The rules that one schedule breaks."""
    return {one.rule for one in violations(way, schedule)}


def violations(way: Way, schedule: str) -> tuple[Violation, ...]:
    return replay(**way.arguments, schedule=schedule).violations


def shown(business: str) -> str:
    """What the page shows of one business, which tests/test_docs.py holds to what the command prints."""
    block = r"^```console\n\$ python -m tests\.proofs\.compare\n(.*?)^```$"
    (printed,) = re.findall(block, PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (found,) = re.findall(rf"^{business}: .*?\n(.*?)(?=^\w+: |\Z)", printed, re.DOTALL | re.MULTILINE)
    return str(found)


def kinds_shown(business: str, way: str) -> set[str]:
    """The kinds of which the table counts some, and those that are named beside it."""
    (cells,) = re.findall(rf"^  {way:14}( +\d.*)$", shown(business), re.MULTILINE)
    others = re.findall(rf"^  {way}, ([^:\n]+)$", shown(business), re.MULTILINE)
    counted = zip(BUSINESS[business][2], cells.split()[3:], strict=True)
    return {kind for kind, times in counted if times != "-"} | set(others)


@pytest.mark.parametrize(
    ("business", "way", "kinds"),
    [
        ("charges", "check then act", {TWICE}),
        ("charges", "mark first", {TWICE, LOST}),
        ("charges", "one write", set()),
        ("charges", "Powertools", {TWICE}),
        ("charges", "@once", {TWICE}),
        ("charges", "flowguard", set()),
        ("changes", "check then act", {OLDER}),
        ("changes", "mark first", {OLDER}),
        ("changes", "one write", set()),
        ("changes", "Powertools", {OLDER}),
        ("changes", "@once", {OLDER}),
        ("changes", "flowguard", set()),
        ("declined", "check then act", {STAYS, BACK_TWICE}),
        ("declined", "mark first", {STAYS, BACK_TWICE}),
        ("declined", "one write", set()),
        ("declined", "Powertools", {STAYS, BACK_TWICE}),
        ("declined", "@once", {STAYS, BACK_TWICE}),
        ("declined", "flowguard", set()),
    ],
)
def test_exactly_these_kinds_are_found(business: str, way: str, kinds: set[str]) -> None:
    assert kinds_shown(business, way) == kinds


@pytest.mark.parametrize("schedule", ["none", "x1", "x1-1", "x1-2", "x2", "x2-1", "x2-2"])
def test_every_way_protects_from_duplicates(schedule: str) -> None:
    for way in charges():
        assert after(way, schedule) == set(), way.name


@pytest.mark.parametrize("schedule", ["a1", "l1", "u1", "e1", "v2", "v3", "v4", "a4", "l4"])
def test_the_guards_own_calls_survive_these(schedule: str) -> None:
    """The claim, whoever dies after it, a second worker meanwhile, and their own lost answers."""
    assert after(CHARGES["Powertools"], schedule) == after(CHARGES["@once"], schedule) == set()


@pytest.mark.parametrize(
    ("way", "schedule", "rule", "module"),
    [
        (CHARGES["check then act"], "v2", "nothing_is_applied_twice", check_then_act),
        (CHARGES["mark first"], "a1", "nothing_is_lost", mark_first),
        (CHARGES["Powertools"], "a2", "nothing_is_applied_twice", powertools),
        (CHARGES["Powertools"], "e3", "nothing_is_applied_twice", powertools),
        (CHARGES["Powertools"], "e4", "nothing_is_applied_twice", powertools),
    ],
    ids=["check then act", "mark first", "dies", "fails", "does not get its record saved"],
)
def test_what_the_page_tells_of_is_so(way: Way, schedule: str, rule: str, module: object) -> None:
    (found,) = [one for one in violations(way, schedule) if one.rule == rule]
    assert found.site is not None
    assert found.site.file == getattr(module, "__file__", None)
    guilty = "dynamodb.put_item(" if module is mark_first else "dynamodb.update_item("
    assert found.site.text.startswith(guilty), "the mark that came too early, or the write that came twice"


@pytest.mark.parametrize("schedule", ["a2", "e3", "e4"])
def test_a_function_under_once_is_called_again_where_it_died_or_failed_after_its_effect(schedule: str) -> None:
    assert "nothing_is_applied_twice" in after(CHARGES["@once"], schedule)


def test_a_check_before_a_write_is_told_to_go_into_its_condition() -> None:
    fixes = {one.fix for one in violations(CHANGES["check then act"], "z2-2")}
    assert all("put the check into the write's own ConditionExpression" in fix for fix in fixes)
    assert fixes


def test_by_fault_it_is_told_what_a_way_survives() -> None:
    found = broken_by(CHANGES["check then act"])
    assert {kind for kind, (broken, _) in found.items() if broken} == {FaultKind.HELD_UP}
    assert all(tried for _, tried in found.values())


def test_the_calls_of_an_undisturbed_run_are_counted() -> None:
    counted = {name: undisturbed(way) for name, way in CHARGES.items()}
    assert counted == {
        "check then act": (6, 1),
        "mark first": (4, 1),
        "one write": (2, 1),
        "Powertools": (6, 1),
        "@once": (6, 1),
        "flowguard": (4, 1),
    }


def test_the_calls_of_a_run_that_is_undone_are_counted() -> None:
    assert undisturbed(DECLINED["flowguard"]) == (6, 4)
    assert undisturbed(DECLINED["one write"]) == (2, 1)
    assert undisturbed(DECLINED["Powertools"]) == (6, 1)


def test_the_command_prints_a_row_for_each_way_and_the_shortest_schedules() -> None:
    result = CliRunner().invoke(compare, ["--business", "changes", "--way", "Powertools"], catch_exceptions=False)
    lines = result.output.splitlines()
    assert lines[0] == "changes: two requests change one address"
    assert lines[2].split()[0] == "Powertools"
    assert "  Powertools, older over newer: d1" in lines


def test_the_command_shows_one_schedule() -> None:
    arguments = ["--business", "charges", "--way", "flowguard", "--schedule", "a2"]
    result = CliRunner().invoke(compare, arguments, catch_exceptions=False)
    assert "w2  charge, hop 1, receive 2" in result.output
    assert result.output.endswith("\n\n0 violations\n\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--way", "nope"],
            "'nope' is not one of 'check then act', 'mark first', 'one write', 'Powertools', '@once', 'flowguard'",
        ),
        (["--business", "nope"], "'nope' is not one of 'charges', 'changes', 'declined'"),
        (["--schedule", "zz"], "'zz' is no schedule"),
        (["--bound", "-1"], "-1 is not in the range x>=0"),
        (["--walks", "-1"], "-1 is not in the range x>=0"),
    ],
)
def test_the_command_refuses_what_there_is_not_and_runs_nothing(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(compare, arguments, catch_exceptions=False)
    assert result.exit_code == 2
    assert f"Invalid value for '{arguments[0]}': {problem}" in result.output
    assert "charges:" not in result.output
