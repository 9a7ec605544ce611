"""Limits of functions under ``@once``: never more at work, nor more that begin, than may; a call without a place waits
outside."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard import DefinitionError, KeyTable, PerKey, once
from flowguard.aws.sender import AWSSender
from flowguard.errors import InProgress, KeyMissing, KeyReused, LimitReached, PlacesBusy, ResultUnsaved
from flowguard.events import EventType
from flowguard.protocol.entry import EntryStatus
from flowguard.protocol.places import Change, KeyPause, Places, paused
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.testing import sqs_event
from flowguard.worker.call_places import OF_CALLS, rest_of
from flowguard.worker.place_store import PlaceKey
from tests.aws.engines import on_memory
from tests.once_world import World, once_world, writes

SECRET: Final = "merchant-4711"
ONE: Final = PerKey("merchant", at_once=1)
A_MINUTE: Final = PerKey("merchant", per=timedelta(minutes=1), count=2, name="a-minute")


@pytest.fixture
def world() -> Iterator[World]:
    with once_world() as found:
        yield found


def nothing() -> None: ...


def limited(world: World, limit: Any = ONE, act: Callable[[], Any] = nothing, **options: Any) -> Any:
    @once("charge", **{"key": "order_id", "limit": limit, **options})
    def charge(order: dict[str, Any], context: Any = None) -> str:
        world.called.append(order["order_id"])
        act()
        return f"charged {order['order_id']}"

    return charge.using(world.services)


def order(number: int = 1, **more: Any) -> dict[str, Any]:
    return {"order_id": f"o-{number}", "merchant": SECRET, **more}


def places_of(world: World, limit: PerKey = ONE, merchant: str = SECRET) -> Places:
    key = PlaceKey(OF_CALLS, "charge", limit.place_of_value(merchant))
    return world.services.ledger.places().change(key, Change, "nobody").seen.places


def refused(call: Callable[[], Any]) -> LimitReached:
    with pytest.raises(LimitReached) as caught:
        call()
    return caught.value


def busy(world: World, during: Callable[[], Any], **options: Any) -> Any:
    """Do that while another call of the merchant is at work."""
    done: list[Any] = []
    limited(world, act=lambda: done.append(during()), **options)(order(99))
    return done[0]


# -- what it costs


def test_a_place_costs_one_write_before_the_function_and_one_after_its_result(world: World) -> None:
    charge = limited(world)
    charge(order(1))  # makes the item of the merchant
    with intercept(Recorder()) as calls:
        assert charge(order(2)) == "charged o-2"
    assert writes(calls) == ["UpdateItem"] * 4
    kinds = [(call.params["Key"]["sk"]["S"], "held" in call.params["UpdateExpression"]) for call in calls.calls]
    assert kinds == [("once", False), ("limit", True), ("once", False), ("limit", True)]
    assert world.told() == ["claimed", "completed"] * 2
    assert places_of(world) == Places()


def test_the_first_call_of_a_key_makes_its_item(world: World) -> None:
    with intercept(Recorder()) as calls:
        limited(world)(order(1))
    assert writes(calls) == ["UpdateItem", "UpdateItem", "PutItem", "UpdateItem", "UpdateItem"]


def test_by_time_nothing_is_given_back(world: World) -> None:
    charge = limited(world, A_MINUTE)
    charge(order(1))
    with intercept(Recorder()) as calls:
        charge(order(2))
    assert writes(calls) == ["UpdateItem"] * 3


def test_a_function_without_limits_makes_no_call_more_and_has_no_sender(world: World) -> None:
    with intercept(Recorder()) as calls:
        limited(world, None)(order(1))
    assert writes(calls) == ["UpdateItem"] * 2


# -- at work at once


def test_a_call_that_finds_no_place_calls_nothing_and_frees_its_key(world: World) -> None:
    charge = limited(world, payload="amount")

    def meanwhile() -> None:
        with intercept(Recorder()) as calls:
            error = refused(lambda: charge(order(1, amount=5)))
        assert writes(calls) == ["UpdateItem"] * 3, "the claim, the refused place, and the key is free again"
        assert (error.name, error.limit, error.seconds) == ("charge", "merchant", 0)
        assert SECRET not in str(error)
        assert "o-1" not in str(error)

    busy(world, meanwhile)
    entry = charge.read("o-1")
    assert (entry.status, entry.met, entry.owner, entry.failure) == (EntryStatus.FREE, 0, None, None)
    assert world.called == ["o-99"]
    assert world.told() == ["claimed", "claimed", "no_place", "completed"]
    [told] = [event.facts for event in world.tally.events if event.type is EventType.NO_PLACE]
    assert told == {"function": "charge", "key": "o-1", "limit": "merchant", "seconds": 0}
    assert charge(order(1, amount=500)) == "charged o-1", "another payload may come: nothing was done for the first"
    assert charge.read("o-1").met == 1
    assert world.tally.count(EventType.ABANDONED) == 0


def test_a_call_that_finds_no_place_leaves_the_key_of_one_that_died_to_its_payload(world: World) -> None:
    def dies() -> None:
        raise Died

    with pytest.raises(Died):
        limited(world, act=dies, payload="amount")(order(1, amount=5), world.context(30))
    world.clock.advance(seconds=40)
    charge = limited(world, payload="amount")
    busy(world, lambda: refused(lambda: charge(order(1, amount=5))))
    with pytest.raises(KeyReused):
        charge(order(1, amount=500))
    assert charge(order(1, amount=5)) == "charged o-1"


def test_a_failure_of_before_is_forgotten_by_a_call_that_finds_no_place(world: World) -> None:
    def wrong() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        limited(world, act=wrong)(order(1))
    assert limited(world).read("o-1").status is EntryStatus.FAILED
    busy(world, lambda: refused(lambda: limited(world)(order(1))))
    entry = limited(world).read("o-1")
    assert (entry.status, entry.met) == (EntryStatus.FREE, 1)


def test_other_keys_have_places_of_their_own_and_so_have_other_functions(world: World) -> None:
    def meanwhile() -> None:
        assert limited(world)(order(1, merchant="another")) == "charged o-1"

        @once("refund", key="order_id", limit=ONE)
        def refund(order: dict[str, Any]) -> str:
            return "refunded"

        assert refund.using(world.services)(order(1)) == "refunded"

    busy(world, meanwhile)


def test_a_repeat_takes_no_place(world: World) -> None:
    charge = limited(world)
    charge(order(1))
    with intercept(Recorder()) as calls:
        busy(world, lambda: charge(order(1)))
    assert writes(calls).count("UpdateItem") == 5
    assert world.called == ["o-1", "o-99"]


def test_so_many_are_at_work_as_may(world: World) -> None:
    three = PerKey("merchant", at_once=3)
    reached: list[int] = []

    def nested(depth: int) -> None:
        reached.append(depth)
        limited(world, three, act=lambda: nested(depth + 1))(order(depth))

    refused(lambda: nested(1))
    assert reached == [1, 2, 3, 4]
    assert places_of(world, three) == Places()


@pytest.mark.parametrize("error", [ValueError(), KeyError("x")])
def test_a_call_that_raises_gives_its_place_back(world: World, error: Exception) -> None:
    def act() -> None:
        assert len(places_of(world).held) == 1
        raise error

    with pytest.raises(type(error)):
        limited(world, act=act)(order(1))
    assert places_of(world) == Places()


def test_a_call_whose_result_is_not_stored_gives_its_place_back(world: World) -> None:
    def broken(call: ApiCall, proceed: Proceed) -> Response:
        if "completed_by" in call.params.get("UpdateExpression", ""):
            raise EndpointConnectionError(endpoint_url="x")
        return proceed()

    with intercept(broken), pytest.raises(ResultUnsaved):
        limited(world)(order(1))
    assert places_of(world) == Places()


def test_what_a_call_holds_says_nothing_of_its_key_and_lasts_as_long_as_its_lease(world: World) -> None:
    held: list[Places] = []
    limited(world, act=lambda: held.append(places_of(world)))(order(1), world.context(30))
    [(token, holder)] = held[0].held.items()
    assert "o-1" not in token
    assert holder.until == world.clock.now() + 30_000


def test_a_call_that_lasts_longer_than_its_lease_frees_no_place_of_the_one_that_came_after_it(world: World) -> None:
    def late() -> None:
        world.clock.advance(seconds=31)
        limited(world, act=lambda: both.append(places_of(world)))(order(1), world.context(30))

    both: list[Places] = []
    assert limited(world, act=late)(order(1), world.context(30)) == "charged o-1"
    assert len(both[0].held) == 1, "the later call of the key has the place of the one before it"
    assert places_of(world) == Places()


def test_a_key_that_is_paused_lets_nobody_begin(world: World) -> None:
    limited(world)(order(1))
    key = PlaceKey(OF_CALLS, "charge", ONE.place_of_value(SECRET))
    world.services.ledger.places().change(key, lambda found: paused(found, KeyPause(1, "why")), "n")
    assert refused(lambda: limited(world)(order(2))).seconds == 0


# -- by time


def test_by_time_so_many_begin_in_any_interval_and_the_next_is_told_when(world: World) -> None:
    charge = limited(world, A_MINUTE)
    charge(order(1))
    world.clock.advance(seconds=20)
    charge(order(2))
    error = refused(lambda: charge(order(3)))
    assert (error.limit, error.seconds) == ("a-minute", 42)
    assert "for 42 s at least; try again then" in str(error)
    world.clock.advance(seconds=41)
    assert refused(lambda: charge(order(3))).seconds == 1
    world.clock.advance(ms=1)
    assert charge(order(3)) == "charged o-3"
    assert refused(lambda: charge(order(4))).seconds == 20


def test_by_time_each_call_of_the_function_counts(world: World) -> None:
    def wrong() -> None:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            limited(world, A_MINUTE, act=wrong)(order(1))
    assert refused(lambda: limited(world, A_MINUTE)(order(1))).seconds == 62


class Slow:
    """The writes of places take as long as that."""

    def __init__(self, world: World, *ms: int) -> None:
        self._world = world
        self._left = list(ms)

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        where = call.params["Key"] if "Key" in call.params else call.params["Item"]
        if where["sk"]["S"] == "limit" and self._left:
            self._world.clock.advance(ms=self._left.pop(0))
        return answer


def test_a_start_whose_write_took_long_is_noted_again_ahead_by_that(world: World) -> None:
    charge, began = limited(world, A_MINUTE), world.clock.now()
    charge(order(1))
    with intercept(Slow(world, 501, 300)), intercept(Recorder()) as calls:
        charge(order(2))
    assert writes(calls) == ["UpdateItem", "UpdateItem", "PutItem", "UpdateItem"]
    ends = sorted(holder.until - began for holder in places_of(world, A_MINUTE).held.values())
    assert ends == [61_000, 501 + 501 + 61_000]


def test_a_start_whose_write_took_half_of_the_margin_is_as_it_is(world: World) -> None:
    limited(world, A_MINUTE)(order(1))
    with intercept(Slow(world, 500)), intercept(Recorder()) as calls:
        limited(world, A_MINUTE)(order(2))
    assert writes(calls) == ["UpdateItem"] * 3


def test_a_call_whose_starts_are_always_late_does_not_begin_and_gives_them_back(world: World) -> None:
    limited(world, A_MINUTE)(order(1))
    with intercept(Slow(world, *[9_000] * 4)):
        error = refused(lambda: limited(world, A_MINUTE)(order(2)))
    assert (error.limit, error.seconds) == ("a-minute", 0)
    assert world.called == ["o-1"]
    assert len(places_of(world, A_MINUTE).held) == 1


def test_a_start_is_noted_three_times_more_and_a_place_of_calls_at_work_once(world: World) -> None:
    both = (A_MINUTE, ONE)
    limited(world, both)(order(1))
    with intercept(Slow(world, 0, 600, 1_200, 1_800)), intercept(Recorder()) as calls:
        assert limited(world, both)(order(2)) == "charged o-2"
    limits = [
        str((call.params.get("Key") or call.params["Item"])["pk"]["S"]).split("#")[3]
        for call in calls.calls
        if "limit#" in str(call.params)
    ]
    assert limits == ["merchant", *["a-minute"] * 4, "merchant"], "starts are taken last, and one place is given back"


def test_a_start_is_noted_ahead_by_two_seconds_at_most(world: World) -> None:
    limited(world, A_MINUTE)(order(1))
    with intercept(Slow(world, 1_500, 1_500 + 501, 1_900)):
        limited(world, A_MINUTE)(order(2))
    latest = max(holder.until for holder in places_of(world, A_MINUTE).held.values())
    assert latest - world.clock.now() == 61_000 + 2_000 - 1_900


# -- several limits


BOTH: Final = (A_MINUTE, ONE, PerKey("region", at_once=1))


def test_of_several_limits_a_call_has_a_place_of_each_or_of_none(world: World) -> None:
    charge = limited(world, BOTH)

    def meanwhile() -> None:
        assert refused(lambda: charge(order(1, region="north", merchant="x"))).limit == "region"
        assert places_of(world, ONE, "x") == Places()
        assert refused(lambda: charge(order(1, region="south"))).limit == "merchant"

    limited(world, BOTH, act=meanwhile)(order(99, region="north"))
    assert places_of(world, BOTH[2], "south") == Places()
    assert len(places_of(world, A_MINUTE).held) == 1, "starts are taken last, and those who did not begin noted none"
    charge(order(2, region="north"))
    assert refused(lambda: charge(order(3, region="north"))).limit == "a-minute"
    assert places_of(world) == places_of(world, BOTH[2], "north") == Places()


def test_a_key_with_shards_has_a_part_of_its_places_in_each(world: World) -> None:
    split = PerKey("merchant", at_once=4, shards=2)
    names = [split.shard_of(split.place_of_value(SECRET), f"o-{number}") for number in range(12)]
    reached: list[str] = []

    def fill(number: int) -> None:
        """Hold a place with each call that finds one, while all of the later ones try."""
        if number == len(names):
            reached.append("all")
            return
        try:
            limited(world, split, act=lambda: fill(number + 1))(order(number))
        except LimitReached:
            fill(number + 1)

    fill(0)
    assert reached == ["all"]
    first = [[f"o-{number}" for number, name in enumerate(names) if name == shard][:2] for shard in set(names)]
    assert sorted(world.called) == sorted(itertools.chain(*first)), "the first two of each shard"


# -- the key of a limit


def test_the_key_of_a_limit_is_read_as_that_of_the_call_is(world: World) -> None:
    charge = limited(world, PerKey("body.merchant", at_once=1), argument="order")
    busy(world, lambda: charge(order={"order_id": "o-1", "body": json.dumps({"merchant": 4711})}))
    assert places_of(world, PerKey("body.merchant", at_once=1), "4711") == Places()
    assert world.called == ["o-99", "o-1"]


def test_a_function_names_the_key_or_leaves_a_call_unlimited(world: World) -> None:
    limit = PerKey(lambda order: order.get("house"), at_once=1, name="house")
    with intercept(Recorder()) as calls:
        limited(world, limit)(order(1))
    assert writes(calls) == ["UpdateItem"] * 2
    limited(world, limit, act=lambda: refused(lambda: limited(world, limit)(order(3, house="h"))))(order(2, house="h"))
    assert world.called == ["o-1", "o-2"]


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (PerKey("nobody", at_once=1), "no usable key at 'nobody'"),
        (PerKey(lambda order: order["none"], at_once=1, name="a"), "the key of the limit a raised KeyError"),
        (PerKey(lambda order: 7, at_once=1, name="a"), "the key of the limit a is int, and is to be text"),  # type: ignore[arg-type, return-value]
        (PerKey(lambda order: "", at_once=1, name="a"), "the key of the limit a is str, and is to be text"),
    ],
)
def test_a_call_without_a_usable_key_of_its_limit_is_unreadable(world: World, limit: PerKey, why: str) -> None:
    with intercept(Recorder()) as calls, pytest.raises(KeyMissing, match=why) as caught:
        limited(world, limit)(order(1))
    assert SECRET not in str(caught.value)
    assert writes(calls) == []
    assert world.told() == ["unreadable"]


# -- what fails on the way


def failing(error: BaseException, *, after: bool = False, of: str = "") -> Callable[[ApiCall, Proceed], Response]:
    def fail(call: ApiCall, proceed: Proceed) -> Response:
        taking = ":at_once" in call.params.get("ExpressionAttributeValues", {}) and of in str(call.params["Key"])
        if taking and after:
            proceed()
        if taking:
            raise error
        return proceed()

    return fail


@pytest.mark.parametrize("after", [False, True])
def test_where_places_cannot_be_asked_for_the_key_is_free_and_nothing_is_held(world: World, after: bool) -> None:
    limited(world)(order(1))
    down = failing(EndpointConnectionError(endpoint_url="x"), after=after)
    with intercept(down), pytest.raises(EndpointConnectionError):
        limited(world)(order(2))
    assert world.told()[-2:] == ["claimed", "broken"]
    assert limited(world).read("o-2").status is EntryStatus.FREE
    assert places_of(world) == Places()


def test_where_the_second_of_two_places_cannot_be_asked_for_the_first_is_given_back(world: World) -> None:
    both = (ONE, PerKey("region", at_once=1))
    limited(world, both)(order(1, region="north"))
    down = failing(EndpointConnectionError(endpoint_url="x"), of="region#")
    with intercept(down), pytest.raises(EndpointConnectionError):
        limited(world, both)(order(2, region="north"))
    assert places_of(world) == places_of(world, both[1], "north") == Places()


def test_a_key_that_is_asked_for_too_often_has_no_place_to_be_known(world: World) -> None:
    limited(world)(order(1))
    throttled = ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "UpdateItem")
    with intercept(failing(throttled)):
        error = refused(lambda: limited(world)(order(2)))
    assert isinstance(error.__cause__, PlacesBusy)
    assert (error.seconds, limited(world).read("o-2").status) == (0, EntryStatus.FREE)


def test_a_key_that_cannot_be_freed_is_busy_until_its_lease_is_over(world: World) -> None:
    def broken(call: ApiCall, proceed: Proceed) -> Response:
        if ":less" in call.params.get("ExpressionAttributeValues", {}):
            raise EndpointConnectionError(endpoint_url="x")
        return proceed()

    def meanwhile() -> None:
        with intercept(broken):
            refused(lambda: limited(world)(order(1), world.context(30)))
        with pytest.raises(InProgress):
            limited(world)(order(1), world.context(30))

    busy(world, meanwhile)
    world.clock.advance(seconds=30)
    assert limited(world)(order(1)) == "charged o-1"


def test_a_place_that_cannot_be_given_back_lapses_with_its_lease(world: World) -> None:
    def broken(call: ApiCall, proceed: Proceed) -> Response:
        if "REMOVE held" in call.params.get("UpdateExpression", ""):
            raise EndpointConnectionError(endpoint_url="x")
        return proceed()

    with intercept(broken):
        assert limited(world)(order(1), world.context(30)) == "charged o-1"
    world.clock.advance(seconds=35)
    assert refused(lambda: limited(world)(order(2))).seconds == 0
    world.clock.advance(ms=1)
    assert limited(world)(order(2)) == "charged o-2"


def giving_back(call: ApiCall) -> bool:
    return "REMOVE held" in call.params.get("UpdateExpression", "")


@pytest.mark.parametrize("how", ["an outage", "it dies", "a retry between"])
def test_the_next_call_of_a_key_takes_the_place_of_one_that_raised(world: World, how: str) -> None:
    """Its key is free before its place is, for a moment or until its lease is over."""
    three, answers = PerKey("merchant", at_once=3), [0]

    def hook(call: ApiCall, proceed: Proceed) -> Response:
        if not giving_back(call) or answers[0]:
            return proceed()
        answers[0] = 1
        if how == "a retry between":
            limited(world, three, act=lambda: held.append(places_of(world, three)))(order(1))
            return proceed()
        raise Died if how == "it dies" else EndpointConnectionError(endpoint_url="x")

    def wrong() -> None:
        raise ValueError("no")

    held: list[Places] = []
    with intercept(hook), pytest.raises(Died if how == "it dies" else ValueError):
        limited(world, three, act=wrong)(order(1))
    assert len(places_of(world, three).held) == (how != "a retry between")
    if how != "a retry between":
        limited(world, three, act=lambda: held.append(places_of(world, three)))(order(1))
    assert (len(held[0].held), world.called) == (1, ["o-1", "o-1"])
    assert places_of(world, three) == Places()


def test_the_next_call_takes_a_place_that_a_call_without_another_one_could_not_give_back(world: World) -> None:
    both = (PerKey("region", at_once=2), ONE)

    def down(call: ApiCall, proceed: Proceed) -> Response:
        if giving_back(call):
            raise EndpointConnectionError(endpoint_url="x")
        return proceed()

    def meanwhile() -> None:
        with intercept(down):
            assert refused(lambda: limited(world, both)(order(1, region="r"))).limit == "merchant"

    busy(world, meanwhile)
    assert len(places_of(world, both[0], "r").held) == 1
    limited(world, act=lambda: refused(lambda: limited(world, both)(order(1, region="r"))))(order(98))
    assert places_of(world, both[0], "r") == Places(), "it was taken over, and given back"
    assert limited(world, both)(order(1, region="r")) == "charged o-1"


def test_a_call_that_gave_all_back_is_not_said_to_hold_a_place(world: World) -> None:
    charge = limited(world)
    busy(world, lambda: refused(lambda: charge(order(1))))
    assert charge.read("o-1").ended is None

    def wrong() -> None:
        raise ValueError("no")

    for limit in (None, A_MINUTE):
        with pytest.raises(ValueError, match="no"):
            limited(world, limit, act=wrong)(order(1))
        assert charge.read("o-1").ended is None, "a start is not given back"


def test_a_call_that_was_held_up_takes_no_place_of_the_one_that_has_its_key_by_now(world: World) -> None:
    three, late = PerKey("merchant", at_once=3), [True]
    limited(world, three)(order(2))

    def hook(call: ApiCall, proceed: Proceed) -> Response:
        if ":at_once" not in call.params.get("ExpressionAttributeValues", {}) or not late:
            return proceed()
        late.clear()
        world.clock.advance(seconds=31)
        refusals: list[ClientError] = []

        def meanwhile() -> None:
            with pytest.raises(ClientError) as caught:
                proceed()
            refusals.append(caught.value)

        limited(world, three, act=meanwhile)(order(1))
        raise refusals[0]

    with intercept(hook):
        refused(lambda: limited(world, three)(order(1), world.context(30)))
    assert world.called == ["o-2", "o-1"]


class Died(BaseException):
    """The process is gone."""


class Dying:
    """Ends the process before or after its nth call of AWS. What it calls afterwards never leaves it."""

    def __init__(self, call: int, *, after: bool) -> None:
        self._left = call
        self._after = after
        self._dead = False

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self._left -= 1
        if self._dead or (self._left == 0 and not self._after):
            self._dead = True
            raise Died
        answer = proceed()
        if self._left == 0:
            self._dead = True
            raise Died
        return answer


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_whoever_dies_at_any_call_loses_no_place_for_longer_than_its_lease(
    world: World, call: int, after: bool
) -> None:
    """The next call of its key has its place at once when that may begin. Any other finds it 5 s later."""
    charge = limited(world)
    charge(order(0))
    with intercept(Dying(call, after=after)), pytest.raises(Died):
        charge(order(1), world.context(30))
    holds = (call, after) in ((2, True), (3, False), (3, True), (4, False))
    assert len(places_of(world).held) == holds
    if holds:
        assert refused(lambda: charge(order(2))).limit == "merchant"
    world.clock.advance(seconds=30)
    assert charge(order(1), world.context(30)) == "charged o-1"
    if (call, after) in ((3, True), (4, False)):  # its result was stored, so nobody takes its place over
        assert refused(lambda: charge(order(2))).limit == "merchant"
        world.clock.advance(seconds=6)
    assert charge(order(2)) == "charged o-2"
    assert places_of(world) == Places()


# -- async functions


def test_an_async_function_gives_its_place_back_when_it_ends_raises_or_is_cancelled(world: World) -> None:
    held: list[int] = []

    @once("charge", key="order_id", limit=ONE)
    async def charge(order: dict[str, Any]) -> str:
        held.append(len(places_of(world).held))
        if order["how"] == "raises":
            raise ValueError("no")
        if order["how"] == "waits":
            await asyncio.Event().wait()
        return "charged"

    guarded = charge.using(world.services)

    async def all_of_them() -> None:
        assert await guarded(order(1, how="ends")) == "charged"
        with pytest.raises(ValueError, match="no"):
            await guarded(order(2, how="raises"))
        task = asyncio.create_task(guarded(order(3, how="waits")))
        while len(held) < 3:
            await asyncio.sleep(0)
        with pytest.raises(LimitReached):
            await guarded(order(4, how="ends"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(all_of_them())
    assert held == [1, 1, 1]
    assert places_of(world) == Places()


def is_give_back(call: ApiCall) -> bool:
    return "REMOVE held" in call.params.get("UpdateExpression", "")


@pytest.mark.parametrize(("late", "began"), [((1_500,), True), ((1_500, 100), True), ((9_000,) * 4, False)])
def test_an_async_function_whose_event_loop_comes_late_notes_its_start_anew(
    world: World, monkeypatch: pytest.MonkeyPatch, late: tuple[int, ...], began: bool
) -> None:
    """Others hold the loop up after the start is written. So the function would begin later than it says."""
    left, to_thread, begun = list(late), asyncio.to_thread, list[int]()

    async def held_up(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        answer = await to_thread(call, *args, **kwargs)
        if call.__name__ == "_take" and left:
            world.clock.advance(ms=left.pop(0))
        return answer

    @once("charge", key="order_id", limit=(ONE, A_MINUTE))
    async def charge(order: dict[str, Any]) -> str:
        begun.append(world.clock.now())
        return "charged"

    monkeypatch.setattr(asyncio, "to_thread", held_up)
    if not began:
        error = refused(lambda: asyncio.run(charge.using(world.services)(order(1))))
        assert (error.limit, begun, world.told()) == ("a-minute", [], ["claimed", "no_place"])
        assert (places_of(world, A_MINUTE), places_of(world)) == (Places(), Places())
        return
    with intercept(Recorder()) as calls:
        asyncio.run(charge.using(world.services)(order(1)))
    assert [str(call.params).count("#merchant#") for call in calls.calls if is_give_back(call)] == [1], "of one place"
    assert left == []
    [start] = places_of(world, A_MINUTE).held.values()
    assert begun[0] + 61_000 - A_MINUTE.margin // 2 <= start.until <= begun[0] + 61_000 + 2_000
    assert places_of(world) == Places()


# -- a batch


class Hides:
    """A sender that says which record was hidden, and for how long."""

    def __init__(self) -> None:
        self.hidden: list[tuple[str, str, int]] = []

    def hide(self, arn: str, receipt_handle: str, seconds: int) -> None:
        self.hidden.append((arn, receipt_handle, seconds))


def test_only_a_function_with_limits_hides_records(world: World) -> None:
    for limit in (ONE, None):

        @once("charge", key="order_id", limit=limit)
        def charge(order: dict[str, Any]) -> None: ...

        assert isinstance(charge._guarded.services.sender, AWSSender) is (limit is not None)


def test_a_record_is_hidden_by_a_call_of_sqs() -> None:
    with on_memory() as clients, intercept(Recorder()) as calls:
        clients.sqs.create_queue(QueueName="orders")
        sender = AWSSender(clients)
        sender.hide("arn:aws:sqs:us-east-1:123456789012:orders", "handle", 61)
        sender.hide("arn:aws:sqs:us-east-1:123456789012:orders", "handle", 50_000)
    hidden = [call.params for call in calls.calls if call.operation == "ChangeMessageVisibility"]
    assert [(one["ReceiptHandle"], one["VisibilityTimeout"]) for one in hidden] == [("handle", 61), ("handle", 42_000)]


def records(*numbers: int, received: int = 1) -> dict[str, Any]:
    parts = [sqs_event("orders", order(number), message_id=f"m-{number}")["Records"] for number in numbers]
    found = [record for part in parts for record in part]
    for record in found:
        record["attributes"]["ApproximateReceiveCount"] = str(received)
        record["receiptHandle"] = f"handle of {record['messageId']}"
    return {"Records": found}


def batch_of(world: World, limit: PerKey, sender: Any) -> Any:
    @once("charge", key="body.order_id", limit=limit)
    def charge(record: dict[str, Any]) -> None:
        number = json.loads(record["body"])["order_id"]
        world.called.append(number)
        if number == "o-13":
            raise ValueError

    return charge.using(world.services._replace(sender=sender))


OF_BODY: Final = PerKey("body.merchant", per=timedelta(minutes=1), count=2)


def test_a_record_without_a_place_goes_back_and_is_hidden_for_as_long_as_none_is_free(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_of, "__defaults__", (lambda: 0,))
    sender = Hides()
    answer = batch_of(world, OF_BODY, sender).batch(records(13, 1, 2, 3), world.context())
    assert [failure["itemIdentifier"] for failure in answer["batchItemFailures"]] == ["m-13", "m-2", "m-3"]
    arn = records(2)["Records"][0]["eventSourceARN"]
    assert sender.hidden == [(arn, "handle of m-2", 62), (arn, "handle of m-3", 62)]
    assert world.called == ["o-13", "o-1"]


@pytest.mark.parametrize("wrong", [{"receiptHandle": None}, {"eventSourceARN": 5}])
def test_a_record_that_cannot_be_named_comes_at_the_pace_of_its_queue(world: World, wrong: Any) -> None:
    sender, event = Hides(), records(1, 2, 3)
    event["Records"][2] |= wrong
    answer = batch_of(world, OF_BODY, sender).batch(event, world.context())
    assert len(answer["batchItemFailures"]) == 1
    assert batch_of(world, OF_BODY, None).batch(records(3), world.context()) == answer
    assert sender.hidden == []


def test_what_another_function_found_no_place_for_hides_no_record_of_this_one(world: World) -> None:
    """Its key is not free before its lease is over."""
    sender = Hides()

    @once("outer", key="body.order_id", limit=PerKey("body.merchant", at_once=1))
    def outer(record: dict[str, Any]) -> None:
        raise LimitReached("charge", "merchant", 5)

    guarded = outer.using(world.services._replace(sender=sender))  # type: ignore[arg-type]  # it hides, and nothing else
    assert len(guarded.batch(records(1), world.context())["batchItemFailures"]) == 1
    assert sender.hidden == []


@pytest.mark.parametrize(
    ("received", "seconds", "draw", "rest"),
    [
        ("1", 0, 0, 10),
        ("2", 0, 0, 15),
        ("3", 0, 0, 22),
        ("1", 61, 0, 61),
        ("1", 61, 1, 66),
        ("12", 0, 0, 865),
        ("13", 0, 0, 900),
        ("13", 0, 1, 1_350),
        ("100000", 0, 0, 900),
        ("0", 0, 0, 10),
        ("x", 0, 0, 10),
        (None, 0, 0, 10),
    ],
)
def test_a_record_is_hidden_longer_at_each_receive_within_bounds(
    received: str | None, seconds: int, draw: float, rest: int
) -> None:
    record = {"attributes": {"ApproximateReceiveCount": received}}
    assert rest_of(record, seconds, lambda: draw) == rest


def test_a_record_without_attributes_is_one_that_came_once() -> None:
    assert rest_of({}, 0, lambda: 0) == 10


def test_a_hundred_receives_last_about_a_day() -> None:
    rests = [rest_of({"attributes": {"ApproximateReceiveCount": str(at)}}, 0, lambda: 0) for at in range(1, 101)]
    assert 22 * 3_600 < sum(rests) < 24 * 3_600


# -- mistakes of a definition


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("merchant", r"limit is .'merchant',.; write PerKey\('body.customer', at_once=3\)"),
        (tuple(PerKey("a", at_once=1, name=f"n{place}") for place in range(4)), "limit has 4 of at most 3"),
        ((ONE, PerKey("merchant", at_once=2)), "limit: two are named 'merchant'; give one of them another name"),
        (PerKey("merchant", at_once=0), "limit: at_once is 0; it is a whole number from 1 to 100"),
        (PerKey("body..merchant", at_once=1), "limit: its key is 'body..merchant'; write the names"),
        (PerKey("merchant"), "limit: it has no measure"),
        (PerKey(lambda order: "a", at_once=1), "limit: its name is .*; give it a name= of 1 to 64"),
    ],
)
def test_a_mistake_of_a_limit_is_one_of_its_function(world: World, limit: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        limited(world, limit)


@pytest.mark.parametrize(
    ("table", "is_refused"),
    [
        (KeyTable("idempotency"), True),
        (KeyTable("keys", "pk", "sk", "expires"), True),
        (KeyTable("keys", "pk", None, "ttl"), True),
        (KeyTable("keys", "pk", "sk", "ttl"), False),
        ("keys", False),
    ],
)
def test_a_table_with_other_names_takes_no_limit(world: World, table: Any, is_refused: bool) -> None:
    limited(world, None, table=table)
    if not is_refused:
        limited(world, table=table)
        return
    with pytest.raises(DefinitionError, match="its places are beside its keys, and its table has other names"):
        limited(world, table=table)


def test_a_path_may_lead_into_lists_and_headers(world: World) -> None:
    limits = (PerKey("Records.0.body.merchant", at_once=1), PerKey("headers.X-Merchant", at_once=1))
    assert limited(world, limits).rule.limits == limits


# -- what is loaded


@pytest.mark.slow("starts a process")
def test_a_function_without_limits_loads_nothing_of_them() -> None:
    code = (
        "import sys\nfrom flowguard import once\n\n\n@once('charge', key='id'{})\ndef charge(order): ...\n"
        "print(*[name for name in sys.modules if name in {}])"
    )
    late = ("flowguard.limit", "flowguard.worker.call_places", "flowguard.protocol.places", "flowguard.aws.sender")
    assert all(map(find_spec, late))
    plain = subprocess.run([sys.executable, "-c", code.format("", late)], capture_output=True, text=True, check=True)
    assert plain.stdout.split() == []
