"""Many runs, one after the other: their pace, what stops them, and where they go on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws.clients import NoRegion
from flowguard.aws.dead_letter_queue import Unusable, explained, spares_none
from flowguard.aws.run_pages import cursor_of
from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.clock import ManualClock, no_pause
from flowguard.errors import RunTooBusy, SendFailed
from flowguard.operate.bulk import (
    CHANGED,
    FAILED,
    LEFT,
    MOST_IN_A_ROW,
    Bulk,
    Chooser,
    Chosen,
    End,
    FailureStreak,
    Pace,
    chosen_of,
)
from flowguard.operate.selection import Selection
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.aws.engines import same_clients
from tests.scene import START, Scene, scene


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}}, "UpdateItem")


class Pauses:
    """Moves the clock while somebody pauses, and notes for how long."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.clock.advance(seconds=seconds)


# -- the pace ---------------------------------------------------------------------------------------------------------


def test_steps_are_spread_over_time_and_the_first_begins_at_once() -> None:
    pauses = Pauses(ManualClock())
    pace = Pace(4, pauses.clock, pauses)
    for _ in range(3):
        pace.wait()
    assert pauses.seconds == [0.25, 0.25]
    pace.wait(8)
    pace.wait()
    assert pauses.seconds == [0.25, 0.25, 0.25, 2.0]


def test_time_that_was_not_used_is_not_made_up_for() -> None:
    pauses = Pauses(ManualClock())
    pace = Pace(4, pauses.clock, pauses)
    pauses.clock.advance(seconds=60)
    pace.wait()
    assert pauses.seconds == []
    pace.wait()
    assert pauses.seconds == [0.25]


def test_the_time_that_a_step_took_is_part_of_its_turn() -> None:
    pauses = Pauses(ManualClock())
    pace = Pace(4, pauses.clock, pauses)
    pace.wait()
    pauses.clock.advance(seconds=0.15)
    pace.wait()
    assert pauses.seconds == [pytest.approx(0.1)]


def test_a_clock_that_is_set_back_or_stands_makes_nobody_wait_for_longer_than_a_step_takes() -> None:
    pauses = Pauses(ManualClock())
    pace = Pace(4, pauses.clock, pauses)
    pace.wait()
    pauses.clock.advance(seconds=-3_600)
    pace.wait()
    pace.wait()
    assert pauses.seconds == [0.25, 0.25]
    standing: list[float] = []
    pace = Pace(4, ManualClock(), standing.append)
    for _ in range(4):
        pace.wait()
    assert standing == [0.25, 0.25, 0.25]


# -- which runs -------------------------------------------------------------------------------------------------------


def runs_of(at: Scene) -> RunReader:
    return RunReader.of(Settings(), same_clients())


def seen(at: Scene, object_id: str = "o1") -> SeenRun:
    run = runs_of(at).read("orders", object_id)
    assert run is not None
    return run


def chooser(at: Scene, **filters: object) -> Chooser:
    return Chooser(Selection(**filters), runs_of(at), lambda run: run.object_id != "unfit", at.clock.now())  # type: ignore[arg-type]


def test_a_run_is_read_again_and_left_where_it_is_another_one(at: Scene) -> None:
    at.deliver(at.message())
    chosen = chosen_of(seen(at))
    assert chosen == Chosen("orders", "o1", at.message().request_id, at.message().requested_at)
    assert chooser(at).again(chosen) is not None
    assert chooser(at).again(chosen._replace(object_id="nobody")) is None
    at.deliver(at.newer())
    assert chooser(at).again(chosen) is None


def test_a_run_that_passes_no_more_is_left(at: Scene) -> None:
    at.deliver(at.message())
    chosen = chosen_of(seen(at))
    at.deliver(at.second())
    assert chooser(at, stage="price-order").again(chosen) is None
    assert chooser(at, stage="close-order").again(chosen) is not None


def test_a_run_for_which_there_is_nothing_to_do_is_not_taken(at: Scene) -> None:
    at.deliver(at.order("unfit"), at.order("o2"))
    assert [chooser(at).takes(seen(at, name)) for name in ("unfit", "o2")] == [False, True]


# -- the work ---------------------------------------------------------------------------------------------------------


class Work:
    """A bulk over runs of these objects, each of which ends as its script says."""

    def __init__(self, at: Scene, *names: str, place_before: str | None = None) -> None:
        at.deliver(*(at.order(name) for name in names))
        self.chosen = [chosen_of(seen(at, name)) for name in names]
        self.failing: dict[str, BaseException] = {}
        self.done: list[str] = []
        self.told: list[tuple[str, str]] = []
        pauses = Pauses(at.clock)
        self.bulk = Bulk(
            self.act, chooser(at), Pace(10, at.clock, pauses), self.tell, lambda run: place(run.object_id), place_before
        )
        self.pauses = pauses

    def act(self, run: SeenRun) -> End:
        if run.object_id in self.failing:
            raise self.failing[run.object_id]
        self.done.append(run.object_id)
        return End("DONE", "it went well")

    def tell(self, run: Chosen, end: End) -> None:
        self.told.append((run.object_id, end.word))


def place(name: str) -> str:
    return cursor_of(f"run#orders#{name}", "run")


def test_each_run_is_done_at_the_pace_and_counted(at: Scene) -> None:
    work = Work(at, "a", "b", "c")
    work.bulk.work(work.chosen)
    assert (work.done, work.bulk.counts, work.bulk.place) == (["a", "b", "c"], {"DONE": 3}, place("c"))
    assert len(work.pauses.seconds) == 2


def test_without_a_run_nothing_is_done_and_the_place_stays(at: Scene) -> None:
    work = Work(at, place_before="there")
    work.bulk.work([])
    assert (work.bulk.counts, work.bulk.place) == ({}, "there")


def test_one_that_has_changed_is_left_and_gone_past(at: Scene) -> None:
    work = Work(at, "a", "b")
    at.deliver(at.order("b", request_id="later", requested_at=START))
    work.bulk.work(work.chosen)
    assert work.told == [("a", "DONE"), ("b", LEFT)]
    assert work.bulk.place == place("b")


@pytest.mark.parametrize("error", [RunTooBusy("orders", 8), SendFailed({"q": "gone"}), refused("InternalServerError")])
def test_one_that_fails_is_told_and_the_others_are_done(at: Scene, error: Exception) -> None:
    work = Work(at, "a", "b", "c")
    work.failing["b"] = error
    work.bulk.work(work.chosen)
    assert work.told == [("a", "DONE"), ("b", FAILED), ("c", "DONE")]
    assert (work.bulk.counts, work.bulk.place) == ({"DONE": 2, "FAILED": 1}, place("c"))


def test_it_goes_on_behind_those_that_have_failed_and_knows_the_place_before_them(at: Scene) -> None:
    work = Work(at, *"abc", place_before="there")
    assert work.bulk.before_failures == "there"
    work.failing = {name: refused("InternalServerError") for name in "bc"}
    work.bulk.work(work.chosen)
    assert (work.bulk.place, work.bulk.before_failures, work.bulk.streak.length) == (place("c"), place("a"), 2)


def test_as_many_in_a_row_as_are_asked_for_end_it(at: Scene) -> None:
    work = Work(at, *"abcd")
    work.bulk.streak = FailureStreak(2)
    work.failing = {name: refused("InternalServerError") for name in "abcd"}
    with pytest.raises(Unusable, match="2 runs in a row"):
        work.bulk.work(work.chosen)
    assert work.bulk.place == place("b")


@pytest.mark.parametrize(("per_second", "at_once"), [(0.01, 1), (1, 1), (2.9, 2), (20, 20)])
def test_as_many_steps_begin_at_once_as_a_second_has(per_second: float, at_once: int) -> None:
    assert Pace(per_second, ManualClock(), no_pause).at_once == at_once


def test_what_nobody_expects_is_raised(at: Scene) -> None:
    work = Work(at, "a", "b")
    work.failing["a"] = ValueError("a fault of ours")
    with pytest.raises(ValueError, match="a fault of ours"):
        work.bulk.work(work.chosen)


def test_expired_credentials_end_it_where_it_can_go_on(at: Scene) -> None:
    work = Work(at, "a", "b", "c")
    work.failing["b"] = refused("ExpiredTokenException")
    with pytest.raises(Unusable, match="sign in again"):
        work.bulk.work(work.chosen)
    assert (work.done, work.bulk.place, work.told) == (["a"], place("a"), [("a", "DONE")])


def test_many_in_a_row_have_one_cause_and_end_it(at: Scene) -> None:
    names = [f"o{number:02}" for number in range(2 * MOST_IN_A_ROW + 1)]
    work = Work(at, *names)
    others = names[1 : MOST_IN_A_ROW + 1]
    work.failing = {name: refused("InternalServerError") for name in names if name not in (names[0], others[-1])}
    with pytest.raises(Unusable, match="10 runs in a row: the last one said: orders of o20: InternalServerError"):
        work.bulk.work(work.chosen)
    assert work.done == [names[0], others[-1]]
    assert work.bulk.place == place(names[-1])
    assert work.bulk.before_failures == place(others[-1])
    assert work.told[-1] == (names[-1], FAILED)
    assert work.bulk.counts[FAILED] == 2 * MOST_IN_A_ROW - 1


def test_ctrl_c_leaves_the_place_of_the_last_that_is_done(at: Scene) -> None:
    work = Work(at, "a", "b", "c")
    work.failing["b"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        work.bulk.work(work.chosen)
    assert work.bulk.place == place("a")
    assert work.bulk.in_hand == work.chosen[1]


def test_ctrl_c_while_the_next_one_is_read_leaves_none_in_hand(at: Scene) -> None:
    work = Work(at, "a", "b")
    reads: list[str] = []

    def stop(call: ApiCall, proceed: Proceed) -> Response:
        reads.extend([call.operation] if call.operation == "GetItem" else [])
        if len(reads) == 2:
            raise KeyboardInterrupt
        return proceed()

    with intercept(stop), pytest.raises(KeyboardInterrupt):
        work.bulk.work(work.chosen)
    assert (work.done, work.bulk.in_hand) == (["a"], None)


# -- what no other run would be spared ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "everywhere"),
    [
        (refused("ExpiredTokenException"), True),
        (refused("AccessDeniedException"), True),
        (refused("ResourceNotFoundException"), True),
        (refused("ValidationException"), False),
        (EndpointConnectionError(endpoint_url="http://nowhere"), True),
        (NoRegion("AWS", "no region"), True),
    ],
)
def test_which_errors_every_other_call_would_meet(cause: Exception, everywhere: bool) -> None:
    with pytest.raises(Unusable) as raised, explained("a run"):
        raise cause
    assert spares_none(raised.value) is everywhere


def test_an_item_that_cannot_be_read_is_alone_with_that() -> None:
    assert not spares_none(Unusable("orders of o1", "it is no run"))
    assert CHANGED
