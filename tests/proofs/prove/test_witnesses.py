"""What is called noticed is noticed by a test that fails on the mutant, whatever is remembered of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.proofs.prove import witnesses as asked
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.mutants import Mutants
from tests.proofs.prove.remembered import FILE, LONG, remember, remembered
from tests.proofs.prove.witnesses import Answer, Witnesses

MODULE: Final = "flowguard.retry"
DELAY: Final = "tests/test_retry.py::test_no_delay_is_ever_outside_what_was_declared"


class Unchanged:
    """A mutant that is the whole flowguard: nothing can notice it."""

    def apply(self) -> None: ...

    def undo(self) -> None: ...


def planted(mutants: Mutants, number: int) -> Mutant:
    mutant = Mutant(len(mutants.all), f"retry.planted: {number} → as it is", "flowguard/retry.py", 1, Unchanged())
    mutants.all.append(mutant)
    return mutant


@pytest.mark.proof("runs a file of tests on each of eleven mutants")
def test_what_nothing_can_notice_is_not_noticed_in_whatever_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten that change nothing, between those that are noticed, some with a test that is said to have noticed them."""
    mutants = Mutants((MODULE,))
    real = [one for one in mutants.all if one.name.startswith("retry.")][:6]
    unnoticeable = [planted(mutants, number) for number in range(10)]
    wrong = {one.name: test for one, test in zip(unnoticeable, [DELAY, DELAY, "gone.py::test_gone"], strict=False)}
    monkeypatch.setattr(asked, "remembered", lambda: wrong)
    witnesses = Witnesses(mutants, 1)
    mixed = [one for pair in zip(unnoticeable, real, strict=False) for one in pair]
    witnesses.ask([*mixed, *unnoticeable[len(real) :]])

    assert witnesses.failing == []
    assert {one.name for one in unnoticeable if witnesses.noticed[one.number] is not None} == set()
    assert {one.name for one in real if witnesses.noticed[one.number] is None} == set()
    assert not set(witnesses.sought) & set(wrong)


@pytest.mark.parametrize(
    ("answer", "before", "is_sought"),
    [
        (Answer("quick", LONG + 0.1), None, True),
        (Answer("quick", LONG - 0.01), None, False),
        (Answer("quick", 0.01), "quick", True),
        (Answer("quick", 0.01), "another", False),
        (Answer("slow", 3.0), None, False),
        (Answer(None, 3.0), None, False),
        (Answer("one of …, which comes to no end,", 3.0), None, False),
    ],
    ids=["sought", "noticed soon", "remembered", "remembered wrongly", "slow itself", "unnoticed", "endless"],
)
def test_what_was_long_sought_is_remembered_and_what_was_remembered_stays_so(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, before: str | None, is_sought: bool
) -> None:
    monkeypatch.setattr(asked, "_before", {} if before is None else {"it": before}, raising=False)
    witnesses = Witnesses(Mutants(()), 1)
    witnesses.seek("it", answer, {"quick": 0.01, "slow": 1.5})
    assert witnesses.sought == ({"it": answer.test} if is_sought else {})


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    file, tests = tmp_path / "table.json", {"b: x → y": "t.py::two", "a: x → y": "t.py::one", "c: é": "t.py::one"}
    remember(tests, file)
    assert remembered(file) == tests
    assert json.loads(file.read_text()) == {"t.py::one": ["a: x → y", "c: é"], "t.py::two": ["b: x → y"]}
    assert list(remembered(FILE).values()) == list(remembered().values())
