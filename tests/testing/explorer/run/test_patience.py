"""When an invocation is given up: by the CPU that it takes, or since it does nothing, on any machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowguard.testing.explorer.run.patience import LEAST, LOOK, Patience


def looks(of_cpu: float, patience: float = 2.0, most: int = 100) -> Iterator[str | None]:
    """What is said at each look where the process takes so much CPU between two of them."""
    moments = iter([number * of_cpu for number in range(most + 1)])
    watched = Patience(patience, lambda: next(moments))
    yield from (watched.is_over() for _ in range(most))


@pytest.mark.parametrize(("share", "most"), [(1.0, 20), (0.1, 200), (0.02, 1_000)])
def test_however_busy_the_machine_is_it_is_given_up_after_so_much_cpu_and_not_before(share: float, most: int) -> None:
    said = list(looks(LOOK * share, most=most + 2))
    [first, *_] = [number for number, why in enumerate(said, 1) if why is not None]
    assert most <= first <= most + 1, "floats add up to a little less"
    assert said[first - 1] == "it did not end within 2 s of CPU time"


def test_one_that_does_nothing_is_given_up_after_as_many_looks() -> None:
    said = list(looks(0.0, most=20))
    assert said[:19] == [None] * 19
    assert said[19] == "it did not end, and did nothing for 2 s"


def test_one_that_does_a_little_now_and_then_is_not_taken_for_one_that_does_nothing() -> None:
    moments = iter([0.0, *(number // 19 * LEAST for number in range(1, 100))])
    watched = Patience(2.0, lambda: next(moments))
    assert [watched.is_over() for _ in range(99)] == [None] * 99
