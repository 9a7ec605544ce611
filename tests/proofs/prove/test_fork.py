from __future__ import annotations

import time

from tests.proofs.prove.fork import forked, grant


def _work(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


def test_a_trial_that_runs_in_circles_has_no_answer() -> None:
    assert forked(lambda: _work(60), seconds=1) is None


def test_each_part_of_a_trial_has_the_whole_time() -> None:
    def trial() -> str:
        for _ in range(3):
            grant(1)
            _work(0.6)  # 1.8 s in all
        return "ended"

    assert forked(trial, seconds=1) == ("ended",)
