from __future__ import annotations

import resource
import signal
import time
from functools import partial

import pytest

from tests.proofs.prove.fork import CPU_SECONDS, WALL_SECONDS, forked, forked_in_turn, grant


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


@pytest.mark.proof("burns the CPU time that a trial may take")
def test_a_trial_may_have_a_part_of_a_second() -> None:
    assert forked(lambda: _work(0.1), seconds=0.3) == (None,)
    assert forked(lambda: _work(60), seconds=0.3) is None


@pytest.mark.parametrize(
    ("undisturbed", "seconds", "by_the_clock"),
    [(0.005, CPU_SECONDS, WALL_SECONDS), (6, 60, 120)],
)
def test_what_takes_long_undisturbed_has_ten_times_that(undisturbed: float, seconds: float, by_the_clock: int) -> None:
    def trial() -> tuple[int, float, int]:
        grant(undisturbed=undisturbed)
        return resource.getrlimit(resource.RLIMIT_CPU)[0], signal.getitimer(signal.ITIMER_PROF)[0], signal.alarm(0)

    limits = forked(trial)
    assert limits is not None
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    assert seconds < limits[0][0] <= used + seconds + 1
    assert seconds - 0.5 < limits[0][1] <= seconds + 0.1
    assert limits[0][2] == by_the_clock
