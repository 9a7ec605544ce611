"""A function under ``@once``: called once for each key, whoever repeats, dies or is late."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from flowguard import InProgress, KeyTable, once
from flowguard.errors import (
    KeyReused,
    ResultUnsaved,
    SettingsError,
)
from flowguard.events import EventType
from flowguard.protocol.entry import EntryStatus
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.table_keys import create_table
from tests.aws.engines import on_memory, same_clients
from tests.once_world import ORDER, SECRET, Receipt, World, async_in, charge_in, once_world, raising, writes


@pytest.fixture
def world() -> Iterator[World]:
    with once_world() as found:
        yield found


# -- one call ----------------------------------------------------------------------------------------------------------


def test_a_repeat_gets_the_stored_result_and_does_not_call_again(world: World) -> None:
    charge = charge_in(world)
    with intercept(Recorder()) as calls:
        first, again = charge(ORDER), charge(ORDER)
    assert first == again == Receipt(order_id="o-1", amount=Decimal("1.10"))
    assert type(again) is Receipt
    assert world.called == ["o-1"]
    assert writes(calls) == ["UpdateItem"] * 3, "two for the call, one for the repeat, and no read"
    assert world.told() == ["claimed", "completed", "done"]
    entry = charge.read("o-1")
    assert (entry.status, entry.met) == (EntryStatus.COMPLETED, 2)
    assert [event.facts.get("met") for event in world.tally.events] == [1, None, 2]


def test_other_keys_are_other_calls(world: World) -> None:
    charge = charge_in(world)
    charge(ORDER)
    charge({"order_id": "o-2"})
    assert world.called == ["o-1", "o-2"]


def test_functions_of_other_names_do_not_share_keys(world: World) -> None:
    @once("refund", key="order_id")
    def refund(order: dict[str, Any]) -> str:
        return "refunded"

    charge_in(world)(ORDER)
    assert refund.using(world.services)(ORDER) == "refunded"


def test_it_looks_like_the_function_that_it_guards() -> None:
    @once("charge", key="order_id")
    def charge(order: dict[str, Any]) -> str:
        """Charge an order."""
        return "paid"

    assert (charge.__name__, charge.__doc__, charge.__module__) == ("charge", "Charge an order.", __name__)  # type: ignore[attr-defined]  # copied from the function


def lease_of(world: World, charge: Any, key: str = "o-1") -> int:
    """How long the call that is at work keeps others away, ms."""
    return int(charge.read(key).lease_until) - world.clock.now()


@pytest.mark.parametrize(
    ("call", "seconds"),
    [
        (lambda charge, context: charge(ORDER, context), 7),
        (lambda charge, context: charge(order=ORDER, context=context), 7),
        (lambda charge, context: charge.within(context)(ORDER), 7),
        (lambda charge, context: charge(ORDER), 60),
    ],
    ids=["given", "named", "within", "no context"],
)
def test_the_lease_ends_with_the_invocation_or_as_the_option_says(world: World, call: Any, seconds: int) -> None:
    seen: list[int] = []
    charge = charge_in(world, lambda: seen.append(lease_of(world, charge)), lease=timedelta(minutes=1))
    call(charge, world.context(7))
    assert seen == [seconds * 1_000]


@pytest.mark.parametrize("lease", [timedelta(minutes=1), timedelta(hours=12)])
def test_a_worker_whose_clock_was_a_day_fast_holds_its_key_no_longer_than_any_call_can(
    world: World, lease: timedelta
) -> None:
    charge = charge_in(world, raising(KeyboardInterrupt()), lease=lease)
    world.clock.advance(seconds=86_400)
    with pytest.raises(KeyboardInterrupt):
        charge(ORDER)
    world.clock.advance(seconds=-86_400 + (lease.seconds if lease > timedelta(hours=1) else 0))
    assert charge_in(world, lease=lease)(ORDER) is not None


def test_a_release_that_asks_for_a_shorter_lease_believes_a_longer_one_of_another(world: World) -> None:
    def met() -> None:
        with pytest.raises(InProgress):
            charge_in(world, lease=timedelta(minutes=1))(ORDER)

    charge_in(world, met, lease=timedelta(hours=12))(ORDER)
    assert world.called == ["o-1"]


def test_a_function_inside_another_one_has_its_lease_and_its_own_claim(world: World) -> None:
    seen: list[int] = []
    inner = charge_in(world, lambda: seen.append(lease_of(world, inner, world.called[-1])))

    @once("outer", key="order_id")
    def outer(order: dict[str, Any], context: Any) -> Decimal:
        return Decimal(inner(order).amount) + 1

    guarded = outer.using(world.services)
    assert guarded(ORDER, world.context(7)) == guarded(ORDER, world.context(7)) == Decimal("2.10")
    assert seen == [7_000]
    assert world.called == ["o-1"]
    seen.clear()
    inner({"order_id": "o-2"})
    assert seen == [15 * 60_000], "nothing is kept from the call before"


def test_a_lease_that_is_no_invocations_is_not_handed_on(world: World) -> None:
    seen: list[int] = []
    inner = charge_in(world, lambda: seen.append(lease_of(world, inner)))

    @once("outer", key="order_id", lease=timedelta(minutes=1))
    def outer(order: dict[str, Any]) -> None:
        inner(order)

    outer.using(world.services)(ORDER)
    assert seen == [15 * 60_000]


def test_an_invocation_whose_time_is_over_says_nothing_of_the_lease(world: World) -> None:
    seen: list[int] = []
    inner = charge_in(world, lambda: seen.append(lease_of(world, inner)))

    @once("outer", key="order_id")
    def outer(order: dict[str, Any], context: Any) -> None:
        world.clock.advance(seconds=7)
        inner(order)

    outer.using(world.services)(ORDER, world.context(7))
    assert seen == [15 * 60_000]


def test_a_call_without_any_time_left_keeps_its_key_all_the_same(world: World) -> None:
    def second() -> None:
        with pytest.raises(InProgress):
            charge(ORDER)

    charge = charge_in(world, second)
    charge(ORDER, world.context(0))
    assert world.called == ["o-1"]


def test_the_key_may_be_in_a_default(world: World) -> None:
    @once("greet", key="order_id", argument="order")
    def greet(shop: str, order: Any = ORDER) -> str:
        return shop

    guarded = greet.using(world.services)
    assert guarded("a") == guarded("b", ORDER) == "a"


def test_a_function_inside_itself_meets_its_own_key(world: World) -> None:
    charge = charge_in(world, lambda: charge(ORDER))
    with pytest.raises(InProgress):
        charge(ORDER)


def test_a_method_is_guarded_like_a_function(world: World) -> None:
    class Shop:
        name = "berlin"

        @once("sell", key="order_id")
        def sell(self, order: dict[str, Any]) -> str:
            world.called.append(order["order_id"])
            return self.name

    shop: Any = Shop()
    sell = shop.sell.using(world.services)
    assert sell(ORDER) == sell(ORDER) == "berlin"
    assert world.called == ["o-1"]


def test_the_key_may_be_in_another_argument_or_come_from_a_function(world: World) -> None:
    @once("greet", key=lambda order: order["order_id"].lower(), argument="order")
    def greet(shop: str, *, order: dict[str, Any]) -> str:
        world.called.append(order["order_id"])
        return shop

    guarded = greet.using(world.services)
    assert guarded("a", order={"order_id": "O-1"}) == guarded("b", order={"order_id": "o-1"}) == "a"
    assert world.called == ["O-1"]


# -- two calls ---------------------------------------------------------------------------------------------------------


def test_while_one_is_at_work_the_other_is_told_when_to_come_again(world: World) -> None:
    def second() -> None:
        with pytest.raises(InProgress, match=r"charge: 'o-1' is in progress elsewhere, for 30 s at most") as busy:
            charge(ORDER, world.context())
        assert busy.value.seconds == 30

    charge = charge_in(world, second)
    charge(ORDER, world.context())
    assert world.called == ["o-1"]
    assert world.told() == ["claimed", "busy", "completed"]


def test_a_call_that_died_blocks_its_key_for_its_lease_and_no_longer(world: World) -> None:
    died = charge_in(world, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        died(ORDER, world.context(30))
    charge = charge_in(world)
    world.clock.advance(ms=29_999)
    with pytest.raises(InProgress) as busy:
        charge(ORDER, world.context(30))
    assert busy.value.seconds == 1
    world.clock.advance(ms=1)
    assert charge(ORDER, world.context(30)).order_id == "o-1"
    assert world.told()[-3:] == ["abandoned", "claimed", "completed"]


def test_a_late_call_gets_the_result_of_the_faster_one(world: World) -> None:
    def overtaken() -> None:
        world.clock.advance(seconds=30)
        faster(ORDER, world.context(30))

    @once("charge", key="order_id")
    def other(order: dict[str, Any], context: Any) -> Receipt:
        return Receipt(order_id="o-1", amount=Decimal(2))

    faster = other.using(world.services)
    slow = charge_in(world, overtaken)
    assert slow(ORDER, world.context(30)).amount == Decimal(2)
    assert slow(ORDER, world.context(30)).amount == Decimal(2)
    assert world.tally.count(EventType.FENCED) == 1


def test_a_late_call_whose_key_another_one_has_says_that_its_result_is_not_stored(world: World) -> None:
    def overtaken() -> None:
        world.clock.advance(seconds=30)
        with pytest.raises(KeyboardInterrupt):
            charge_in(world, raising(KeyboardInterrupt()))(ORDER, world.context(30))

    with pytest.raises(ResultUnsaved, match="the lease was over, and another call has the key"):
        charge_in(world, overtaken)(ORDER, world.context(30))


@pytest.mark.parametrize(("amounts", "gets"), [((5, 5), "a result"), ((5, 7), "none")])
def test_a_late_call_gets_no_result_of_another_payload(world: World, amounts: tuple[int, int], gets: str) -> None:
    calls: list[int] = []

    @once("refund", key="order_id", payload="amount")
    def refund(order: dict[str, Any], context: Any) -> int:
        calls.append(order["amount"])
        if len(calls) == 1:
            world.clock.advance(seconds=30)
            with pytest.raises(ValueError, match="again"):
                guarded({**ORDER, "amount": amounts[0]}, world.context(30))
            guarded({**ORDER, "amount": amounts[1]}, world.context(30))
        if len(calls) == 2:
            raise ValueError("again")
        return len(calls)

    guarded = refund.using(world.services)
    try:
        got = f"a result, {guarded({**ORDER, 'amount': amounts[0]}, world.context(30))}"
    except ResultUnsaved as error:
        got = f"none: {error}"
    assert got.startswith(gets)
    assert calls == [amounts[0], *amounts]
    if gets == "none":
        assert "another call with another payload has the key" in got
        with pytest.raises(KeyReused):
            guarded({**ORDER, "amount": amounts[0]}, world.context(30))


@pytest.mark.parametrize("seconds", [1, 60, 86_400])
def test_a_key_whose_call_has_died_is_kept_from_another_payload(world: World, seconds: int) -> None:
    """Its effect may be made."""
    with pytest.raises(KeyboardInterrupt):
        charge_in(world, raising(KeyboardInterrupt()), payload="card")(ORDER, world.context(30))
    world.clock.advance(seconds=seconds)
    charge = charge_in(world, payload="card")
    with pytest.raises(KeyReused):
        charge({**ORDER, "card": "other"})
    if seconds > 30:
        assert charge(ORDER).order_id == "o-1"
    assert world.called == ["o-1"] * (2 if seconds > 30 else 1)


def test_a_late_failure_does_not_take_the_result_of_the_faster_one_away(world: World) -> None:
    def overtaken() -> None:
        world.clock.advance(seconds=30)
        charge_in(world)(ORDER, world.context(30))
        raise ValueError(SECRET)

    with pytest.raises(ValueError, match=SECRET):
        charge_in(world, overtaken)(ORDER, world.context(30))
    charge_in(world)(ORDER, world.context(30))
    assert world.called == ["o-1"] * 2, "the slow one and the faster one"


# -- a call that raises ------------------------------------------------------------------------------------------------


def test_after_a_call_that_raised_the_next_one_begins_at_once(world: World) -> None:
    with intercept(Recorder()) as calls, pytest.raises(ValueError, match="no"):
        charge_in(world, raising(ValueError("no")))(ORDER, world.context())
    assert writes(calls) == ["UpdateItem"] * 2, "nothing brings it back later: it is freed"
    assert charge_in(world).read("o-1").failure == "ValueError"
    assert charge_in(world)(ORDER).order_id == "o-1"
    assert world.told() == ["claimed", "raised", "claimed", "completed"]


def test_the_functions_own_error_is_raised_where_its_key_cannot_be_freed(world: World) -> None:
    charge = charge_in(world, raising(ValueError("no")))
    with intercept(Refusing(2)), pytest.raises(ValueError, match="no"):
        charge(ORDER)


class Refusing:
    """Refuses the writes from a number on, for good or not."""

    def __init__(self, first: int, error: Exception | None = None) -> None:
        self.first = first
        self.error = error or RuntimeError("DynamoDB is away")
        self.writes = 0

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self.writes += 1
        if self.writes >= self.first:
            raise self.error
        return proceed()


def test_a_result_that_the_store_does_not_take_is_said_to_be_unsaved(world: World) -> None:
    with intercept(Refusing(2)), pytest.raises(ResultUnsaved, match="RuntimeError: DynamoDB is away"):
        charge_in(world)(ORDER, world.context())
    assert world.told() == ["claimed", "unsaved"]
    with pytest.raises(InProgress):
        charge_in(world)(ORDER, world.context())


def test_a_claim_that_the_store_does_not_take_calls_nothing(world: World) -> None:
    with intercept(Refusing(1)), pytest.raises(RuntimeError):
        charge_in(world)(ORDER)
    assert world.called == []
    assert world.told() == ["broken"]


# -- async -------------------------------------------------------------------------------------------------------------


def test_an_async_function_is_awaited_and_called_once(world: World) -> None:
    charge = async_in(world)

    async def work() -> list[Any]:
        calls = (charge(ORDER), charge(ORDER), charge({"order_id": "o-2"}))
        return list(await asyncio.gather(*calls, return_exceptions=True))

    found = asyncio.run(work())
    assert sorted(type(one).__name__ for one in found) == ["InProgress", "Receipt", "Receipt"]
    assert sorted(world.called) == ["o-1", "o-2"]
    assert asyncio.run(charge(ORDER)).order_id == "o-1"


def test_an_async_function_may_be_guarded_twice(world: World) -> None:
    charge = async_in(world)
    outer: Any = once("outer", key="order_id")(charge)
    assert asyncio.run(outer.using(world.services)(ORDER)).order_id == "o-1"
    assert world.called == ["o-1"]


def test_an_async_function_that_raises_or_is_cancelled_frees_its_key(world: World) -> None:
    charge = async_in(world)
    with pytest.raises(ValueError, match="no"):
        asyncio.run(charge(ORDER | {"wrong": True}))
    assert asyncio.run(charge(ORDER)).order_id == "o-1"

    @once("slow", key="order_id")
    async def slow(order: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    async def cancelled() -> None:
        task: Any = asyncio.ensure_future(slow.using(world.services)(ORDER))
        while world.tally.count(EventType.CLAIMED) != 3:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert slow.using(world.services).read("o-1").status is EntryStatus.FAILED  # type: ignore[union-attr]  # it is there


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_table_is_that_of_the_settings_or_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_memory():
        create_table(same_clients().dynamodb, "idempotency", "id")
        create_table(same_clients().dynamodb, "ours", "pk", "sk")
        monkeypatch.setenv("FLOWGUARD_TABLE", "ours")
        tables: list[Any] = [None, KeyTable("idempotency"), "ours", "nope"]
        guards = [once("greet", key="order_id", table=table)(lambda order: "hello") for table in tables]
        for guard in guards[:3]:
            assert guard(ORDER) == "hello"
        with pytest.raises(SettingsError, match="there is no table 'nope'"):
            guards[3](ORDER)
        counts = {one: same_clients().dynamodb.scan(TableName=one)["Count"] for one in ("idempotency", "ours")}
        assert counts == {"idempotency": 1, "ours": 1}
