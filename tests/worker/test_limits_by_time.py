"""Limits by time: never more handlers begin in any interval than may, and who waits is called for its moment."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, Final

import pytest
from botocore.exceptions import EndpointConnectionError

from flowguard.errors import Retry
from flowguard.events import EventType
from flowguard.limit import PerKey
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Recorder, intercept
from flowguard.sim.table_keys import create_table
from flowguard.step import Step
from tests.worker.crowd import Crowd
from tests.worker.limited import Order, all_end, crowd_of, dies_at, flow_of, key_of, occupy, out_for_an_hour, places_of
from tests.worker.runtime.mishaps import refuses_writes
from tests.worker.test_limits_of_many import TROUBLES

SECOND: Final = 1_000
MINUTE: Final = 60_000
A_MINUTE: Final = timedelta(minutes=1)
WINDOW: Final = 61_000
"""For how long a start of a limit by the minute counts: its margin is a second."""


def by_minute(count: int, key: str = "customer") -> PerKey:
    return PerKey(key, per=A_MINUTE, count=count)


def begin(crowd: Crowd, runs: int, *, apart: int = 0) -> None:
    for number in range(runs):
        crowd.start(Order(order_id=f"o{number}"), number * apart)


def starts(crowd: Crowd) -> list[int]:
    return sorted(at for at, _, _ in crowd.handled)


def shortest(crowd: Crowd, count: int) -> int:
    """The shortest time in which one more than so many handlers began."""
    begun = starts(crowd)
    return min((later - at for at, later in zip(begun, begun[count:], strict=False)), default=WINDOW)


def fails_once(order: Order, step: Step, crowd: Crowd) -> None:
    crowd.pass_time(200)
    if [name for _, name, _ in crowd.handled].count(order.order_id) == 1:
        raise Retry(after=timedelta(seconds=1))


@pytest.mark.parametrize("count", [1, 3])
def test_who_finds_no_place_begins_as_soon_as_one_is_free(count: int) -> None:
    """No place is given back, so nobody calls whoever is next. It was called before, for its moment."""
    with crowd_of(flow_of(by_minute(count)), slots=4) as crowd:
        begin(crowd, 3 * count, apart=100)
        crowd.run()
        at = starts(crowd)
        assert at[count - 1] < SECOND
        assert shortest(crowd, count) >= WINDOW
        assert at[-1] < 2 * (WINDOW + 2 * SECOND)
        assert (crowd.told(EventType.CALLED), crowd.told(EventType.RETRIED)) == (2 * count, 0)
        assert set(crowd.receives.values()) == {1}
        all_end(crowd, 3 * count)


def test_a_start_costs_one_write_and_none_after_its_commit() -> None:
    """The first of a key, in a day, makes its item as well."""
    with crowd_of(flow_of(by_minute(9))) as crowd:
        for number, place in enumerate((["UpdateItem", "PutItem"], ["UpdateItem"])):
            with intercept(calls := Recorder()):
                crowd.send(Order(order_id=f"o{number}"))
                crowd.run()
            made = [call.operation for call in calls.calls if call.service == "dynamodb"]
            assert made == ["UpdateItem", *place, "UpdateItem"]
        assert len(places_of(crowd).held) == 2


def test_starts_that_count_no_more_are_removed_with_the_next_one() -> None:
    with crowd_of(flow_of(by_minute(2))) as crowd:
        begin(crowd, 3, apart=2 * WINDOW)
        crowd.run()
        assert crowd.told(EventType.IN_LINE) == 0
        assert len(places_of(crowd).held) == 1


def test_those_in_line_begin_in_the_order_of_their_arrival() -> None:
    with crowd_of(flow_of(by_minute(2)), slots=8) as crowd:
        begin(crowd, 12, apart=100)
        crowd.run()
        assert [name for _, name, _ in crowd.handled] == [f"o{number}" for number in range(12)]


def test_a_newcomer_passes_nobody_who_was_called_for_that_moment() -> None:
    with crowd_of(flow_of(by_minute(1)), slots=2) as crowd:
        begin(crowd, 2, apart=100)
        crowd.start(Order(order_id="o2"), WINDOW + 50)
        crowd.run()
        assert [name for _, name, _ in crowd.handled] == ["o0", "o1", "o2"]
        all_end(crowd, 3)


def test_an_attempt_that_is_tried_again_counts_again() -> None:
    """Its handler is called again, and asks the gateway again."""
    with crowd_of(flow_of(by_minute(1), fails_once)) as crowd:
        begin(crowd, 1)
        crowd.run()
        assert len(crowd.handled) == 2
        assert shortest(crowd, 1) >= WINDOW
        all_end(crowd, 1)


def test_a_handler_that_is_called_again_by_its_writes_counts_again() -> None:
    """Under the same claim: it waits for a place with its look, and begins as the same attempt."""

    def optional(order: Order, step: Step, crowd: Crowd) -> None:
        crowd.pass_time(200)
        if len(crowd.handled) == 1:
            step.put("stock", {"sku": order.order_id}, condition="attribute_exists(sku)", else_go_on="sold")

    with crowd_of(flow_of(by_minute(1), optional)) as crowd:
        create_table(crowd.aws.client("dynamodb"), "stock", "sku")
        begin(crowd, 1)
        crowd.run()
        assert len(crowd.handled) == 2
        assert shortest(crowd, 1) >= WINDOW
        assert crowd.told(EventType.RETRIED) == 0
        all_end(crowd, 1)


def test_a_lost_call_costs_one_turn_and_its_look_comes_later() -> None:
    def loses(call: ApiCall) -> None:
        if call.operation == "SendMessageBatch" and not lost and any_call(call):
            lost.append(1)
            raise EndpointConnectionError(endpoint_url="https://sqs")

    lost: list[int] = []
    with crowd_of(flow_of(by_minute(1)), slots=2, before=loses) as crowd:
        begin(crowd, 2)
        crowd.run()
        assert lost
        assert WINDOW + 20 * SECOND <= starts(crowd)[1] < 3 * MINUTE
        all_end(crowd, 2)


def any_call(call: ApiCall) -> bool:
    """Whether one of the messages calls its hop: its turn has no number."""
    return any(",0]" in str(entry["MessageAttributes"]) for entry in call.params["Entries"])


def test_both_kinds_of_limits_hold_on_one_stage() -> None:
    limits = (by_minute(4), PerKey("gateway", at_once=1))
    with crowd_of(flow_of(limits), slots=8) as crowd:
        begin(crowd, 10)
        crowd.run()
        assert max(crowd.most.values()) == 1
        assert shortest(crowd, 4) >= WINDOW
        all_end(crowd, 10)


def test_a_start_that_found_no_place_of_another_limit_does_not_count() -> None:
    limits = (by_minute(3), PerKey("gateway", at_once=1))
    with crowd_of(flow_of(limits, lambda order, step, crowd: crowd.pass_time(5 * SECOND)), slots=8) as crowd:
        begin(crowd, 3)
        crowd.run()
        assert starts(crowd)[-1] < 12 * SECOND
        all_end(crowd, 3)


@pytest.mark.parametrize(("count", "seed"), [(1, 0), (4, 1)])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_never_more_begin_than_may_and_each_run_ends(trouble: str, count: int, seed: int) -> None:
    per = timedelta(seconds=20)
    flow = flow_of(PerKey("customer", per=per, count=count))
    with crowd_of(flow, slots=8, seed=seed, trouble=TROUBLES[trouble]) as crowd:
        begin(crowd, 20, apart=50)
        crowd.run()
        assert shortest(crowd, count) >= per // timedelta(milliseconds=1)
        all_end(crowd, 20)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("number", range(25))
def test_a_function_may_die_at_any_call(number: int, place: str) -> None:
    """Three runs meet at one start a minute. A start whose worker died counts, too."""
    die, calls = dies_at(number)
    struck: Any = {place: die}
    with crowd_of(flow_of(by_minute(1)), slots=3, **struck) as crowd:
        begin(crowd, 3, apart=30)
        crowd.run()
        assert len(calls) > number, "there are fewer calls"
        assert shortest(crowd, 1) >= MINUTE
        all_end(crowd, 3)


@pytest.mark.parametrize("number", range(0, 24, 3))
def test_an_outage_of_an_hour_loses_nobody(number: int) -> None:
    with crowd_of(flow_of(by_minute(1)), slots=3, lease=120_000, before=out_for_an_hour(number)) as crowd:
        begin(crowd, 3, apart=30)
        crowd.run()
        assert shortest(crowd, 1) >= MINUTE
        all_end(crowd, 3)


@pytest.mark.parametrize(("ms", "writes"), [(400, 2), (700, 3)])
def test_a_start_that_was_written_late_is_noted_again(ms: int, writes: int) -> None:
    """The handler begins after the write: its start counts from then, or half a margin before.

    One that is noted again is noted ahead, for this write may take as long.
    """

    def is_slow(call: ApiCall) -> None:
        if is_start(call) and len(slow) < 2:
            slow.append(1)
            crowd.pass_time(ms)

    slow: list[int] = []
    with crowd_of(flow_of(by_minute(5)), after=is_slow) as crowd, intercept(calls := Recorder()):
        begin(crowd, 1)
        crowd.run()
        [holder] = places_of(crowd).held.values()
        assert starts(crowd)[0] + crowd.start_ms - (holder.until - WINDOW) <= 500
        assert len([call for call in calls.calls if is_start(call)]) == writes
        all_end(crowd, 1)


@pytest.mark.parametrize(("limits", "ms"), [(1, 60), (3, 20), (1, 1_200), (3, 300)])
def test_whose_writes_take_long_begins_with_its_first_message(limits: int, ms: int) -> None:
    """The shortest window, and starts of three limits: each is late by the writes of all."""
    names = ("first", "second", "third")[:limits]
    by_second = tuple(PerKey("customer", per=timedelta(seconds=1), count=5, name=name) for name in names)

    def is_slow(call: ApiCall) -> None:
        crowd.pass_time(ms)

    with crowd_of(flow_of(by_second), slots=3, after=is_slow) as crowd:
        begin(crowd, 6, apart=5)
        crowd.run()
        assert crowd.told(EventType.CALLED) <= 1
        assert starts(crowd)[2] < 5 * SECOND
        assert shortest(crowd, 5) >= SECOND
        all_end(crowd, 6)


def test_starts_are_noted_again_in_one_pass_and_no_other_place() -> None:
    """One that is noted ahead of the others would make those late, and be noted further ahead."""

    def is_slow(call: ApiCall) -> None:
        if is_start(call) and (limit_of(call), call.operation) == ("order_id", "PutItem") and not slow:
            slow.append(1)
            crowd.pass_time(700)

    slow: list[int] = []
    limits = (by_minute(5), by_minute(5, "order_id"), PerKey("gateway", at_once=1))
    with crowd_of(flow_of(limits), after=is_slow) as crowd, intercept(calls := Recorder()):
        begin(crowd, 1)
        crowd.run()
        assert Counter(map(limit_of, filter(is_start, calls.calls))) == {"customer": 3, "order_id": 3, "gateway": 3}
        assert "GetItem" not in [call.operation for call in calls.calls]
        holders = [
            holder for key in ("customer", "order_id") for holder in places_of(crowd, key_of(name=key)).held.values()
        ]
        noted = [holder.until - WINDOW - crowd.start_ms - starts(crowd)[0] for holder in holders]
        assert all(500 < ahead < 900 for ahead in noted)


def test_a_start_is_noted_further_ahead_while_its_writes_take_longer() -> None:
    def is_slow(call: ApiCall) -> None:
        if is_start(call):
            crowd.pass_time(delays.pop(0) if delays else 1_200)

    delays = [600]
    with crowd_of(flow_of(by_minute(5)), after=is_slow) as crowd:
        begin(crowd, 1)
        crowd.run()
        assert crowd.told(EventType.IN_LINE) == 0
        all_end(crowd, 1)


@pytest.mark.parametrize("since", [0, 30 * SECOND])
def test_a_start_that_is_always_written_late_waits_for_its_look(since: int) -> None:
    """Nobody may say when its handler begins. It gives back what it has noted, and calls nobody for it again.

    Since a moment all writes are slow. Of two that wait then the second is called, by its call or by the first one.
    """

    def is_slow(call: ApiCall) -> None:
        if is_start(call) and since <= crowd.now_ms - crowd.start_ms < 5 * MINUTE:
            late.append(crowd.now_ms)
            crowd.pass_time(3 * SECOND)

    late: list[int] = []
    with crowd_of(flow_of(by_minute(1)), slots=2, lease=60_000, after=is_slow) as crowd:
        begin(crowd, 2, apart=100)
        crowd.run()
        assert len(starts(crowd)) == 2
        assert starts(crowd)[-1] >= 5 * MINUTE
        assert len(late) < 100
        assert crowd.told(EventType.CALLED) <= 5
        assert shortest(crowd, 1) >= MINUTE
        all_end(crowd, 2)


def test_a_start_that_was_written_late_is_looked_for_soon_whatever_its_window() -> None:
    """It stands in no line, so nobody calls it when the window opens."""

    def is_slow(call: ApiCall) -> None:
        if is_start(call) and crowd.now_ms - crowd.start_ms < 20 * SECOND:
            crowd.pass_time(3 * SECOND)

    with crowd_of(flow_of(PerKey("customer", per=timedelta(minutes=15), count=1)), after=is_slow) as crowd:
        begin(crowd, 1)
        crowd.run()
        assert crowd.told(EventType.IN_LINE) == 1
        assert starts(crowd)[0] < MINUTE
        all_end(crowd, 1)


def test_a_start_is_noted_after_the_places_of_hops_at_work_are_taken() -> None:
    """Also of a hop that stands in line for the start: a place that is not free would make it late."""
    gateway = key_of(name="gateway")
    with crowd_of(flow_of((by_minute(1), PerKey("gateway", at_once=1))), slots=2) as crowd:
        begin(crowd, 2, apart=100)
        crowd.at(50 * SECOND, lambda: occupy(crowd, gateway))
        crowd.run(60 * SECOND)
        with intercept(calls := Recorder()):
            crowd.run(65 * SECOND)
        assert len(starts(crowd)) == 1
        written = [call.operation for call in calls.calls if is_start(call) and limit_of(call) == "customer"]
        assert written == ["PutItem"], "it leaves the line, and gives no start back"
        crowd.run()
        all_end(crowd, 2)


def test_a_deployment_of_a_shorter_time_lets_no_more_begin_in_the_longer_one() -> None:
    """Starts of the code before count as long as it has noted them."""
    with crowd_of(flow_of(by_minute(8)), slots=4) as crowd:
        begin(crowd, 8, apart=100)
        crowd.at(3 * SECOND, lambda: crowd.serve(flow_of(PerKey("customer", per=timedelta(seconds=15), count=2))))
        for number in range(8, 12):
            crowd.start(Order(order_id=f"o{number}"), 3_500 + number * 100)
        crowd.run()
        assert WINDOW <= starts(crowd)[8] < WINDOW + 3 * SECOND
        all_end(crowd, 12)


def test_a_deployment_of_a_limit_of_hops_at_work_stops_nobody_and_loses_no_start() -> None:
    """Who waits for a start is called with the next hop. Back by time, the starts before count."""
    by_time = flow_of(PerKey("customer", per=timedelta(minutes=15), count=3))
    with crowd_of(by_time, slots=4) as crowd:
        begin(crowd, 6, apart=100)
        crowd.at(5 * SECOND, lambda: crowd.serve(flow_of()))
        crowd.start(Order(order_id="o6"), 6 * SECOND)
        crowd.at(20 * SECOND, lambda: crowd.serve(by_time))
        crowd.start(Order(order_id="o7"), 21 * SECOND)
        crowd.run()
        at = starts(crowd)
        assert at[6] < 15 * SECOND
        assert at[7] >= 15 * MINUTE
        all_end(crowd, 8)


def test_a_stage_whose_table_is_denied_for_good_does_not_wait_for_ever() -> None:
    """Each look is another message, so no receive says how often it came. It says since when it comes."""

    def writes(order: Order, step: Step, crowd: Crowd) -> None:
        crowd.pass_time(200)
        step.put("stock", {"sku": order.order_id})

    flow = flow_of(by_minute(1), writes)
    with crowd_of(flow, slots=2) as crowd, intercept(refuses_writes("AccessDeniedException")):
        create_table(crowd.aws.client("dynamodb"), "stock", "sku")
        begin(crowd, 2, apart=100)
        crowd.run()
        assert {crowd.item(name).status for name in ("o0", "o1")} == {Status.FAILED}
        assert starts(crowd)[-1] > 3 * MINUTE, "it lasts for minutes first"
        assert crowd.waiting == []


def limit_of(call: ApiCall) -> str:
    key: Any = call.params.get("Key") or call.params["Item"]
    return str(key["pk"]["S"].split("#")[3])


COSTS: Final = {
    "50 a minute": (100, 1_200, 100, 1.01, 119),
    "86 a minute": (172, 698, 100, 1.04, 120),
    "300 at once": (300, 0, 100, 4.22, 163),
    "200 at once, of 20": (200, 0, 20, 5.6, 625),
    "60 at once, of one": (60, 0, 1, 7.77, 3_603),
}
"""Hops, ms between them, ``count``; writes of the key's item for each, and when the last one begins (s)."""


@pytest.mark.slow("runs hundreds of hops")
@pytest.mark.parametrize("load", COSTS)
def test_what_a_load_costs(load: str) -> None:
    """The guide and decision 0127 have these figures."""
    runs, apart, count, writes, last = COSTS[load]
    with crowd_of(flow_of(by_minute(count)), slots=8) as crowd, intercept(calls := Recorder()):
        begin(crowd, runs, apart=apart)
        crowd.run()
        made = len([call for call in calls.calls if is_start(call)])
        assert made / runs == pytest.approx(writes, rel=0.15)
        assert starts(crowd)[-1] / SECOND == pytest.approx(last, rel=0.15)
        assert shortest(crowd, count) >= MINUTE
        all_end(crowd, runs)


def is_start(call: ApiCall) -> bool:
    key: Any = call.params.get("Key") or call.params.get("Item") or {}
    return call.operation in ("UpdateItem", "PutItem") and key["pk"]["S"].startswith("limit#")
