"""Limits whose key is split into shards: each has its part of the places, all together never more than there are."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard.limit import PerKey, shards_of
from flowguard.protocol.places import KeyPause, resumed
from flowguard.sim.calls import ApiCall
from flowguard.worker.place_store import PlaceKey
from tests.operate.test_key_pauses import WHY, pauses_of
from tests.worker.crowd import HOUR, START, Crowd, throttled
from tests.worker.limited import Order, all_end, crowd_of, flow_of, key_of, places_of, sometimes_fails
from tests.worker.test_limits_of_many import TROUBLES

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
SIX: Final = PerKey("customer", at_once=6, shards=4)


def begin(crowd: Crowd, runs: int, within: int = SECOND) -> None:
    for number in range(runs):
        crowd.start(Order(order_id=f"o{number}"), crowd.draw.randint(0, within))


def keys(shards: int) -> list[PlaceKey]:
    return [key_of()._replace(place=place) for place in shards_of(key_of().place, shards)]


def shard_of(limit: PerKey, object_id: str) -> str:
    return limit.shard_of(key_of().place, object_id)


@pytest.mark.parametrize("trouble", ["none", "all of it"])
def test_never_more_are_at_work_than_all_shards_have_places_and_each_run_ends(trouble: str) -> None:
    with crowd_of(flow_of(SIX, sometimes_fails(0.05)), slots=10, trouble=TROUBLES[trouble]) as crowd:
        begin(crowd, 30)
        crowd.run()
        assert 3 < crowd.most["c1"] <= 6
        all_end(crowd, 30)


def test_no_shard_has_more_at_work_than_its_part_and_all_attempts_of_a_hop_are_in_one() -> None:
    at_work: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def does(order: Order, step: Any, crowd: Crowd) -> None:
        shard = shard_of(SIX, order.order_id)
        at_work[shard] += 1
        most[shard] = max(most[shard], at_work[shard])
        try:
            sometimes_fails(0.2)(order, step, crowd)
        finally:
            at_work[shard] -= 1

    with crowd_of(flow_of(SIX, does), slots=10) as crowd:
        begin(crowd, 40)
        crowd.run()
        assert [most[key.place] for key in keys(4)] == [2, 2, 1, 1]
        assert len(crowd.items("limit#")) == 4
        all_end(crowd, 40)


def test_by_time_no_more_begin_in_an_interval_than_all_shards_let() -> None:
    limit = PerKey("customer", per=timedelta(minutes=1), count=6, shards=2)
    with crowd_of(flow_of(limit), slots=6) as crowd:
        begin(crowd, 20)
        crowd.run()
        starts = [(at, shard_of(limit, order)) for at, order, _ in crowd.handled]
        for shard in {shard for _, shard in starts}:
            mine = sorted(at for at, of in starts if of == shard)
            assert all(later - at >= MINUTE for at, later in zip(mine, mine[3:], strict=False))
        all_end(crowd, 20)


@pytest.mark.parametrize(
    ("before", "after", "most"), [((4, 1), (4, 4), 7), ((4, 2), (4, 4), 6), ((4, 4), (4, 2), 6), ((4, 4), (4, 1), 7)]
)
def test_while_a_deployment_changes_the_number_of_shards_their_items_count_for_both(
    before: tuple[int, int], after: tuple[int, int], most: int
) -> None:
    """At most the larger part of each item is at work: less than both numbers together."""
    old, new = (PerKey("customer", at_once=at_once, shards=shards) for at_once, shards in (before, after))
    places = shards_of("customer#d1", max(old.shards, new.shards))
    parts = [
        [limit.most_of(place) if number < limit.shards else 0 for limit in (old, new)]
        for number, place in enumerate(places)
    ]
    assert sum(map(max, parts)) == most
    with crowd_of(flow_of(old, lambda order, step, crowd: crowd.pass_time(5 * SECOND)), slots=12) as crowd:
        begin(crowd, 30)
        crowd.at(6 * SECOND, lambda: crowd.serve(flow_of(new)))
        crowd.run()
        assert crowd.most["c1"] <= most
        all_end(crowd, 30)


# -- paused


def test_a_pause_is_one_of_all_shards_and_says_how_many_wait_in_all() -> None:
    def does(order: Order, step: Any, crowd: Crowd) -> None:
        crowd.pass_time(5 * SECOND)

    with crowd_of(flow_of(SIX, does), slots=10) as crowd:
        begin(crowd, 20)
        crowd.run(3 * SECOND)
        paused = pauses_of(crowd).pause(key_of(), WHY, crowd.now(), 4)
        there = [places_of(crowd, key) for key in keys(4)]
        assert [places.pause for places in there] == [KeyPause(crowd.now(), WHY)] * 4
        assert paused.at_work == sum(len(places.held) for places in there) == 6
        assert paused.in_line == sum(len(places.line) for places in there) == 14
        assert paused.pause.shards == 4
        crowd.run(HOUR)
        assert len(crowd.handled) == 6
        assert pauses_of(crowd).resume(key_of(), 4) == paused.pause
        assert [places_of(crowd, key).pause for key in keys(4)] == [None] * 4
        crowd.run(8 * HOUR)
        all_end(crowd, 20)


def test_a_resume_ends_the_pause_of_all_shards_that_there_were_and_are() -> None:
    with crowd_of(flow_of(SIX)) as crowd:
        pauses = pauses_of(crowd)
        paused = pauses.pause(key_of(), WHY, crowd.now(), 3)
        assert pauses.of(key_of()) == paused.pause
        assert pauses.resume(key_of(), 1) == paused.pause
        assert [places_of(crowd, key).pause for key in keys(4)] == [None] * 4
        pauses.pause(key_of(), WHY, crowd.now(), 2)
        more = pauses.pause(key_of(), "again", crowd.now(), 4)
        assert (more.is_new, more.pause.why, more.pause.shards) == (False, WHY, 4)
        assert [places_of(crowd, key).pause for key in keys(4)] == [KeyPause(START, WHY)] * 4
        places = crowd.services.store.places
        places.change(keys(4)[3], resumed, "n1")
        assert pauses.pause(key_of(), "again", crowd.now(), 2).pause == more.pause, "it has had more, and keeps them"
        assert [places_of(crowd, key).pause for key in keys(4)] == [KeyPause(START, WHY)] * 4
        pauses.resume(key_of(), 2)
        assert [places_of(crowd, key).pause for key in keys(4)] == [None] * 4


def test_a_key_without_a_row_is_resumed_in_the_shards_of_the_code() -> None:
    with crowd_of(flow_of(SIX)) as crowd:
        pauses = pauses_of(crowd)
        pauses.pause(keys(4)[2], WHY, START)
        crowd.aws.client("dynamodb").delete_item(
            TableName="flowguard", Key={"pk": {"S": "pause"}, "sk": {"S": "#".join(keys(4)[2])}}
        )
        ended = pauses.resume(key_of(), 4)
        assert ended is not None
        assert ended.why == WHY
        assert places_of(crowd, keys(4)[2]).pause is None


# -- how many begin in a second

BUSIEST: Final = 100
"""Writes of one item in 100 ms: DynamoDB takes a thousand of a partition in a second."""


def begun_within(limit: PerKey, ms: int) -> int:
    """How many of 1,300 hops of a key begin in so many ms. All come at once; an item takes what DynamoDB lets it."""
    taken: Counter[tuple[str, int]] = Counter()

    def before(call: ApiCall) -> None:
        key: Any = call.params.get("Key") or call.params.get("Item") or {}
        if call.operation not in ("UpdateItem", "PutItem") or not key["pk"]["S"].startswith("limit#"):
            return
        cell = (key["pk"]["S"], crowd.now() // 100)
        if taken[cell] == BUSIEST:
            raise throttled(call)
        taken[cell] += 1

    with crowd_of(flow_of(limit, lambda *_: None), slots=100, before=before) as crowd:
        begin(crowd, 1_300, within=0)
        crowd.run(ms)
        return len(crowd.handled)


@pytest.mark.slow("begins a thousand hops")
def test_a_key_with_shards_begins_more_than_a_thousand_in_a_second() -> None:
    """Decision 0138 has the figure: all 1,300 within 0.7 s, which is what a hundred functions can."""
    assert begun_within(PerKey("customer", at_once=800, shards=8), SECOND) > 1_000


@pytest.mark.slow("begins hundreds of hops")
def test_a_key_without_shards_begins_less_than_half_of_that() -> None:
    """Each hop writes the item twice. What is refused for that stands in line, whose writes are refused as well."""
    assert begun_within(PerKey("customer", at_once=100), SECOND) < 500
