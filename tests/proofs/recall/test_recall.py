"""The recall judges as it says: a bug that is missed and an alarm in sound code fail it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.recall import __main__ as recall
from tests.proofs.recall import cases, sound, unseen, writes
from tests.proofs.recall.case import Case
from tests.proofs.recall.speed import USUAL

PAGE = Path(__file__).parents[3] / "docs" / "proofs" / "proof.md"
FEW: Any = {"bound": 0, "walks": 0, "most": 1}


def test_each_kind_is_there_once_and_on_the_page() -> None:
    kinds = [case.kind for case in (*cases.BUGS, *cases.SOUND, *recall.UNSEEN)]
    assert [kind for kind, times in Counter(kinds).items() if times > 1] == []
    page = " ".join(PAGE.read_text().split())
    assert [kind for kind in kinds if kind not in page] == []
    assert {*cases.MISSED, *unseen.MISSED_UNSEEN} <= set(kinds)


@pytest.mark.parametrize("case", [*cases.BUGS, *recall.UNSEEN], ids=lambda case: case.kind)
def test_each_bug_has_a_line_to_change(case: Case) -> None:
    assert case.sound or case.lines()


def test_each_case_of_a_tracker_says_which_and_each_of_its_bugs_what_its_owner_would_ask() -> None:
    assert all(case.source.startswith("github.com/") for case in recall.UNSEEN)
    assert all(case.invariant is not None for case in recall.UNSEEN if not case.sound)
    halves = [sum(not case.sound for case in half) for half in (unseen.VISIBLE, unseen.HELD_BACK)]
    assert halves == [10, 10]


@pytest.mark.slow("explores a case")
def test_the_invariant_is_asked_where_the_recall_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert recall.main(["--unseen", "--only", "takes the same", "--jobs", "1"]) == 0
    assert "missed: who says" in capsys.readouterr().out
    recall.main(["--unseen", "--invariants", "--only", "takes the same", "--jobs", "1"])
    assert "judge" in capsys.readouterr().out


def _case(handler: Any, *, is_sound: bool) -> Case:
    return Case("a case", cases._of(handler), (cases.ORDER,), sound=is_sound)


@pytest.mark.parametrize(
    ("handler", "is_sound", "is_good"),
    [(writes.adds, False, True), (writes.adds, True, False), (sound.puts, True, True), (sound.puts, False, False)],
)
def test_a_case_is_good_where_its_bug_is_found_or_it_is_clean(handler: Any, is_sound: bool, is_good: bool) -> None:
    result = _case(handler, is_sound=is_sound).run(FEW)
    assert result.is_good is is_good
    assert recall.is_expected(result) is is_good


def test_what_the_explorer_itself_ends_with_is_no_success() -> None:
    result = Case("a case", cases._of(sound.puts), ("no message",), sound=True).run(FEW)
    assert result.error
    assert not result.is_good


def test_the_command_prints_each_case_and_fails_where_one_is_not_as_expected(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "SHORT", FEW)
    assert recall.main(["--only", "adds without a condition"]) == 0
    assert "right line" in capsys.readouterr().out
    monkeypatch.setattr(recall, "MISSED", {"adds without a condition": "it is found"})
    assert recall.main(["--only", "adds without a condition", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["holds"], said["checks"][0]["line"] is not None) == (False, True)
    assert ["right line" in line for line in said["lines"]] == [True]


def test_the_speed_of_usual_searches_is_printed_and_each_ends_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert recall.main(["--speed", "--seconds", "0.000001"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in lines] == [case.kind for case in USUAL]
    assert all("schedules" in line and "CPU s" in line for line in lines)
