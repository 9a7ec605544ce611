"""Limits with many functions at once: no place is given twice, and whoever waits has its turn, whatever dies."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import pytest

from flowguard.events import EventType
from flowguard.limit import PerKey
from flowguard.protocol.conflict import OnConflict
from tests.worker.crowd import Crowd, Trouble
from tests.worker.limited import Order, all_end, crowd_of, dies_at, flow_of, out_for_an_hour, sometimes_fails

TROUBLES: Final = {
    "none": Trouble(),
    "functions are killed": Trouble(killed=0.01),
    "calls are refused": Trouble(refused=0.03),
    "messages come twice": Trouble(delivered_twice=0.2),
    "all of it": Trouble(0.01, 0.02, 0.1),
}
PLACES: Final = {1: PerKey("customer", at_once=1), 3: PerKey("customer", at_once=3)}


def begin(crowd: Crowd, runs: int, *, keys: int = 1, within: int = 1_000) -> None:
    """So many orders of so many customers."""
    for number in range(runs):
        crowd.start(Order(order_id=f"o{number}", customer=f"c{number % keys}"), crowd.draw.randint(0, within))


@pytest.mark.parametrize(("at_once", "seed"), [(1, 0), (3, 1)])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_place_is_given_twice_and_each_run_ends(trouble: str, at_once: int, seed: int) -> None:
    flow = flow_of(PLACES[at_once], sometimes_fails(0.05))
    with crowd_of(flow, slots=8, seed=seed, trouble=TROUBLES[trouble]) as crowd:
        begin(crowd, 30, keys=2)
        crowd.run()
        assert max(crowd.most.values()) == at_once
        all_end(crowd, 30)


@pytest.mark.parametrize(("seed", "on_conflict"), list(enumerate(OnConflict)))
def test_two_limits_of_one_stage_are_kept_both(on_conflict: OnConflict, seed: int) -> None:
    limits = (PerKey("customer", at_once=1), PerKey("gateway", at_once=2))
    flow = flow_of(limits, sometimes_fails(0.05), on_conflict=on_conflict)
    with crowd_of(flow, slots=8, seed=seed, trouble=TROUBLES["all of it"]) as crowd:
        begin(crowd, 20, keys=3)
        crowd.run()
        assert set(crowd.most.values()) == {1}
        all_end(crowd, 20)


def test_records_of_one_event_that_share_a_key_take_their_turns() -> None:
    """Those of a stage with limits share no calls: a commit that waits for others would hold its place."""
    with crowd_of(flow_of(), batch=10) as crowd:
        begin(crowd, 10, within=0)
        crowd.run()
        assert crowd.told(EventType.IN_LINE) == 0
        all_end(crowd, 10)


def test_where_nothing_fails_those_of_a_key_begin_in_the_order_of_their_arrival() -> None:
    with crowd_of(flow_of(), slots=8) as crowd:
        for number in range(20):
            crowd.start(Order(order_id=f"o{number:02}"), number * 100)
        crowd.run()
        begun = [object_id for _, object_id, _ in crowd.handled]
        assert begun == sorted(begun)


def test_where_nothing_fails_a_place_is_taken_as_soon_as_it_is_free() -> None:
    with crowd_of(flow_of(), slots=8) as crowd:
        begin(crowd, 30)
        crowd.run()
        starts = [at for at, _, _ in crowd.handled]
        assert max(after - before for before, after in pairwise(starts)) < 1_000, (
            "the work takes 200 ms, a look seconds"
        )


@pytest.mark.parametrize("seed", [0, 10])
def test_those_who_find_the_line_full_join_it_when_they_look(seed: int) -> None:
    """They look after 15 s at most, and a look takes some calls."""
    with crowd_of(flow_of(), slots=12, seed=seed) as crowd:
        begin(crowd, 70)
        crowd.run()
        all_end(crowd, 70)
        starts = [at for at, _, _ in crowd.handled]
        assert max(after - before for before, after in pairwise(starts)) < 16_000


def test_a_seed_has_one_course() -> None:
    """Whatever is drawn is handed in, so that what has failed once can be seen again."""
    courses = []
    for _ in range(2):
        with crowd_of(flow_of(), slots=12) as crowd:
            begin(crowd, 20)
            crowd.run()
            courses.append(crowd.handled)
    assert courses[0] == courses[1]


# -- a death at each call --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("number", range(33))
def test_a_function_may_die_at_any_call(number: int, place: str) -> None:
    """Three runs meet: one has the place, the others stand in line, look and are called."""
    die, calls = dies_at(number)
    struck: Any = {place: die}
    with crowd_of(flow_of(), slots=3, **struck) as crowd:
        begin(crowd, 3, within=100)
        crowd.run()
        assert len(calls) > number, "there are fewer calls"
        assert max(crowd.most.values()) == 1
        all_end(crowd, 3)


@pytest.mark.parametrize("number", range(0, 40, 3))
def test_an_outage_of_an_hour_loses_nobody(number: int) -> None:
    """From some call on each call fails. A handler that was at work is cut off with its function.

    A lease of two minutes lets each message come thirty times in that hour, and not a hundred times.
    """
    with crowd_of(flow_of(), slots=3, lease=120_000, before=out_for_an_hour(number)) as crowd:
        begin(crowd, 3, within=100)
        crowd.run()
        assert max(crowd.most.values()) == 1
        all_end(crowd, 3)
