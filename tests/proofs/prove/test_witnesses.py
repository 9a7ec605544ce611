"""What is called noticed is noticed by a test that fails on the mutant, whatever is remembered of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.proofs.prove import __main__ as prove
from tests.proofs.prove import witnesses as asked
from tests.proofs.prove.elsewhere import Elsewhere
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.mutants import Mutants
from tests.proofs.prove.noticing import Seen
from tests.proofs.prove.remembered import FILE, LONG, noticing, remember, remember_noticing, remembered
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


class Reported:
    """Stands for tests of which some fail, each so often."""

    def __init__(self, **failures: int) -> None:
        self.failures = failures

    def files(self) -> list[str]:
        return list(self.failures)

    def known(self, tests: Iterable[str]) -> list[str]:
        return [test for test in tests if test in self.failures]

    def watch(self, tests: Sequence[str]) -> list[Seen]:
        return [Seen(test, self._fails(test), frozenset({1}), 0.1) for test in tests]

    def _fails(self, test: str) -> bool:
        self.failures[test] -= 1
        return self.failures[test] >= 0

    def first_failing(self, tests: Mapping[str, float]) -> str | None:
        return next(iter(tests), None)


@contextmanager
def in_this_process(jobs: int) -> Iterator[Any]:
    class Pool:
        def map(self, function: Any, *arguments: Any, chunksize: int = 1) -> list[Any]:
            return [function(*each) for each in zip(*arguments, strict=True)]

    yield Pool()


def test_what_an_unsteady_test_notices_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "pool", in_this_process)
    monkeypatch.setattr(asked, "_probed", True)
    monkeypatch.setattr(asked, "remembered", dict)
    given: list[Mapping[str, float]] = []

    def none_fails(group: Mapping[int, Mapping[str, float]]) -> dict[int, Answer]:
        given.extend(group.values())
        return dict.fromkeys(group, Answer(None, 0.1))

    monkeypatch.setattr(asked, "_ask_group", none_fails)
    mutants = Mutants((MODULE,))
    witnesses = Witnesses(mutants, 1)
    where = Elsewhere("", ("steady", "unsteady", "broken"), "a plan")
    witnesses._ask(Reported(steady=0, unsteady=1, broken=2), {1: where})  # type: ignore[arg-type]  # it stands for one
    assert (witnesses.failing, witnesses.unsteady) == (["broken"], ["unsteady"])
    assert [set(tests) for tests in given] == [{"steady"}]


@pytest.mark.parametrize(
    ("remembered_of_it", "notices", "runs"),
    [
        (["one"], "one", [{"one"}]),
        (["one"], "two", [{"one"}, {"one", "two"}]),
        (["gone"], "two", [{"one", "two"}]),
        (["elsewhere"], "two", [{"one", "two"}]),
        ([], "two", [{"one", "two"}]),
    ],
    ids=["noticed again", "noticed no more", "gone", "named no more", "new"],
)
def test_who_noticed_before_is_asked_first_and_then_all_are(
    monkeypatch: pytest.MonkeyPatch, remembered_of_it: list[str], notices: str, runs: list[set[str]]
) -> None:
    mutants = Mutants((MODULE,))
    monkeypatch.setattr(asked, "pool", in_this_process)
    monkeypatch.setattr(asked, "_probed", True)
    monkeypatch.setattr(asked, "remembered", dict)
    monkeypatch.setattr(asked, "noticing", lambda: {mutants.by_number(1).function: remembered_of_it})
    given: list[set[str]] = []

    def one_fails(group: Mapping[int, Mapping[str, float]]) -> dict[int, Answer]:
        given.extend(map(set, group.values()))
        return {number: Answer(notices if notices in tests else None, 0.1) for number, tests in group.items()}

    monkeypatch.setattr(asked, "_ask_group", one_fails)
    witnesses = Witnesses(mutants, 1)
    tests: Any = Reported(one=0, two=0, elsewhere=0)
    witnesses._ask(tests, {1: Elsewhere("", ("one", "two"), "a plan")})
    assert given == runs
    assert witnesses.noticed == {1: notices}
    assert witnesses.noticed_by_function() == {mutants.by_number(1).function: [notices]}


class InTurn:
    """Stands for tests: what the first of them that fails is, each time that they are run in one process."""

    def __init__(self, *failing: str | None) -> None:
        self.failing = iter(failing)

    def first_failing(self, tests: Mapping[str, float]) -> str | None:
        test = next(self.failing)
        assert test is None or test in tests
        return test


@pytest.mark.parametrize(
    ("failing", "test"),
    [(("quick", None), "quick"), (("quick", "quick"), None), ((None,), None), (("slow",), None)],
    ids=["noticed", "fails without it too", "unnoticed", "takes too long to be run again"],
)
def test_a_test_notices_beside_others_what_it_passes_without(
    monkeypatch: pytest.MonkeyPatch, failing: Sequence[str | None], test: str | None
) -> None:
    mutants = Mutants((MODULE,))
    monkeypatch.setattr(asked, "_mutants", mutants, raising=False)
    monkeypatch.setattr(asked, "_before", {}, raising=False)
    monkeypatch.setattr(asked, "_tests", InTurn(*failing), raising=False)
    answer = asked._noticed(1, {"quick": asked.QUICK, "slow": 2 * asked.QUICK})
    assert (answer and answer.test) == test


def test_who_is_not_noticed_for_certain_beside_others_is_asked_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third is not certain, the fourth ends its process, the fifth has no quick test."""
    asked_together: list[list[int]] = []

    def in_turn(trials: Sequence[Any], is_last: Callable[[Answer | None], bool]) -> list[Answer | None]:
        numbers = [trial.args[0] for trial in trials]
        asked_together.append(numbers)
        answers: list[Answer | None] = []
        for number in numbers:
            if number == 4:
                return answers
            answers.append(None if number == 3 else Answer("quick", 0.01))
            if is_last(answers[-1]):
                break
        return answers

    monkeypatch.setattr(asked, "_mutants", Mutants((MODULE,)), raising=False)
    monkeypatch.setattr(asked, "_before", {}, raising=False)
    monkeypatch.setattr(asked, "_warm", lambda: None)
    monkeypatch.setattr(asked, "forked_in_turn", in_turn)
    monkeypatch.setattr(asked, "_alone", lambda number, tests: Answer(f"alone {number}", 0.1))
    quick, slow = {"quick": asked.QUICK}, {"slow": 2 * asked.QUICK}
    answers = asked._ask_group({1: quick, 2: quick, 3: quick, 4: quick, 5: slow, 6: quick})
    assert [one.test for one in answers.values()] == ["quick", "quick", "alone 3", "alone 4", "alone 5", "quick"]
    assert asked_together == [[1, 2, 3, 4, 6], [4, 6], [6]]


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


def test_the_tests_of_a_function_are_read_as_they_were_written(tmp_path: Path) -> None:
    file, tests = tmp_path / "table.json", {"b.f": ["t.py::two", "t.py::one"], "a.f": ["t.py::one"]}
    remember_noticing(tests, file)
    assert {name: set(known) for name, known in noticing(file).items()} == {n: set(t) for n, t in tests.items()}
    assert json.loads(file.read_text()) == {"t.py::one": ["a.f", "b.f"], "t.py::two": ["b.f"]}


def test_what_was_found_out_of_some_functions_is_added_to_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants = Mutants((MODULE,)).all
    this, other = sorted({one.function for one in mutants})[:2]
    monkeypatch.setattr(prove, "noticing", lambda: {this: ["old"], other: ["kept"], "gone.f": ["old"]})
    new = {this: ["new"]}
    assert prove._with_new(mutants, new, only="retry") == {this: ["new", "old"], other: ["kept"]}
    assert prove._with_new(mutants, new, only="") == new
