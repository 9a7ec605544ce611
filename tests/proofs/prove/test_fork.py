from __future__ import annotations

import time
from functools import partial

import pytest

from tests.proofs.prove.fork import forked, forked_in_turn, grant


def _work(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


@pytest.mark.proof("burns the CPU time that a trial may take")
def test_a_trial_that_runs_in_circles_has_no_answer() -> None:
    assert forked(lambda: _work(60), seconds=1) is None


@pytest.mark.proof("burns the CPU time that a trial may take")
def test_each_part_of_a_trial_has_the_whole_time() -> None:
    def trial() -> str:
        for _ in range(3):
            grant(1)
            _work(0.6)  # 1.8 s in all
        return "ended"

    assert forked(trial, seconds=1) == ("ended",)


@pytest.mark.proof("burns the CPU time that a trial may take")
def test_trials_that_share_a_process_end_with_the_last_answer_or_the_endless_one() -> None:
    kept: list[int] = []

    def trial(number: int) -> list[int]:
        if number == 3:
            _work(60)
        kept.append(number)
        return [*kept]

    trials = [partial(trial, number) for number in range(5)]
    assert forked_in_turn(trials, lambda one: len(one) == 2, seconds=1) == [[0], [0, 1]]
    assert forked_in_turn(trials, lambda _: False, seconds=1) == [[0], [0, 1], [0, 1, 2]]
    assert kept == []
