"""The letters of many runs in one queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flowguard.aws.dead_letter_queue import Reading
from flowguard.aws.redriver import Outcome, Redriver
from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.clock import ManualClock, no_pause
from flowguard.names.ids import RequestId
from flowguard.operate.bulk import FAILED, LEFT, Chosen, Pace
from flowguard.operate.many_letters import NO_LETTER, ManyLetters, can_be_retried
from flowguard.protocol.run import Cancellation, Status
from flowguard.settings import Settings
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redrive import Fate, Judgement
from tests.aws.engines import same_clients
from tests.scene import Orders, Scene, scene

A, B = (Chosen("orders", name, RequestId("r1"), 1) for name in "ab")


def letter(name: str, verdict: Fate | None = Fate.REDRIVEN, request: str = "r1", **more: Any) -> Letter:
    about = SimpleNamespace(flow="orders", object_id=name, request_id=request)
    return cast(Letter, SimpleNamespace(**{"message": about, "unsent": None, "verdict": verdict, **more}))


class Queue:
    """A queue of these pages, whose letters get the verdicts that they have."""

    def __init__(self, *pages: Sequence[Letter]) -> None:
        self.left = list(pages)
        self.redriven: list[int] = []
        self.most = 0

    def pages(self, most: int, ready: Callable[[], None]) -> Iterator[Sequence[Letter]]:
        self.most = most
        while self.left:
            ready()
            yield self.left.pop(0)

    def redrive(self, letters: Sequence[Any]) -> list[Outcome]:
        self.redriven.append(len(letters))
        return [
            Outcome(each, None, failed="no signature")
            if each.verdict is None
            else Outcome(each, Judgement(each.verdict, "why"))
            for each in letters
        ]


def ends(queue: Queue, *chosen: Chosen) -> list[tuple[str, str]]:
    pace = Pace(1, ManualClock(), no_pause)
    letters = ManyLetters(chosen, cast(Reading, queue), cast(Redriver, queue), pace)
    return [(run.object_id, end.word) for run, end in letters.ends()]


def test_each_letter_of_the_runs_has_its_end_and_no_other_is_touched() -> None:
    others = [letter("c"), letter("a", request="r2"), letter("a", unsent=object()), letter("x", message=None)]
    queue = Queue([*others, letter("a")], others, [letter("b")])
    assert ends(queue, A, B) == [("a", "REDRIVEN"), ("b", "REDRIVEN")]
    assert queue.redriven == [1, 0, 1]


def test_it_waits_before_letters_are_received_and_never_while_they_are_hidden() -> None:
    """A letter that waits longer than its queue hides it comes into sight, and another operator sends it too."""
    clock, waited = ManualClock(), list[tuple[int, float]]()
    queue = Queue([letter("a")], [letter("b")])

    def pause(seconds: float) -> None:
        waited.append((len(queue.left), seconds))
        clock.advance(seconds=seconds)

    letters = ManyLetters((A, B), cast(Reading, queue), cast(Redriver, queue), Pace(0.001, clock, pause))
    assert len(list(letters.ends())) == 2
    assert (queue.most, waited) == (1, [(1, 1_000.0)]), "the second page was not received yet"


def test_a_quick_pace_takes_ten_letters_at_once() -> None:
    queue = Queue([letter("a")])
    list(ManyLetters((A,), cast(Reading, queue), cast(Redriver, queue), Pace(50, ManualClock(), no_pause)).ends())
    assert queue.most == 10


def test_it_knows_of_how_many_no_outcome_was_told_yet() -> None:
    queue = Queue([letter("a"), letter("b")])
    letters = ManyLetters((A, B), cast(Reading, queue), cast(Redriver, queue), Pace(50, ManualClock(), no_pause))
    assert [letters.in_hand for _ in letters.ends()] == [1, 0]


def test_what_ends_the_sending_leaves_the_page_in_hand() -> None:
    queue = Queue([letter("a"), letter("c")])

    def interrupted(letters: Sequence[Any]) -> list[Outcome]:
        raise KeyboardInterrupt

    redriver = SimpleNamespace(redrive=interrupted)
    letters = ManyLetters((A, B), cast(Reading, queue), cast(Redriver, redriver), Pace(50, ManualClock(), no_pause))
    with pytest.raises(KeyboardInterrupt):
        next(letters.ends())
    assert letters.in_hand == 1


def test_a_run_without_a_letter_is_left() -> None:
    queue = Queue([letter("a")], [letter("c")])
    assert ends(queue, A, B) == [("a", "REDRIVEN"), ("b", LEFT)]
    assert NO_LETTER == "the queue shows no letter of it"


@pytest.mark.parametrize("verdict", [Fate.SUPERSEDED, None])
def test_a_letter_that_was_not_sent_back_is_not_the_last_one(verdict: Fate | None) -> None:
    queue = Queue([letter("a", verdict)], [letter("a")], [letter("c")])
    word = FAILED if verdict is None else verdict.value
    assert ends(queue, A) == [("a", word), ("a", "REDRIVEN")]
    assert len(queue.left) == 1, "the rest is not read"


def seen(at: Scene) -> SeenRun:
    at.deliver(at.message())
    run = RunReader.of(Settings(), same_clients()).read("orders", "o1")
    assert run is not None
    return run


def test_a_run_can_be_retried_that_has_failed_or_is_parked() -> None:
    with scene() as at:
        run = seen(at)
        failed = run._replace(item=run.item._replace(status=Status.FAILED))
        cancellation = Cancellation(run.item.request_id, run.item.requested_at, "sold out")
        cancelled = failed._replace(item=failed.item._replace(cancellation=cancellation))
        fits = can_be_retried(Orders, at.clock.now())
        assert [fits(each) for each in (run, failed, cancelled)] == [False, True, False]
        assert can_be_retried(Orders, at.clock.now() + 600_000)(run), "its message may be parked"
