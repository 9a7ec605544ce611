"""A function under ``@once``: called once for each key, whoever repeats, dies or is late."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import InProgress, KeyTable, once
from flowguard.aws.ledger import ledger_of
from flowguard.clock import ManualClock
from flowguard.errors import (
    DefinitionError,
    KeyMissing,
    KeyReused,
    NotABatch,
    ResultRefused,
    ResultUnsaved,
    SettingsError,
)
from flowguard.events import EventType, Tally
from flowguard.ids import SeededIds
from flowguard.once_function import OnceServices
from flowguard.protocol.entry import EntryStatus
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.keyed import create_table
from flowguard.testing import sqs_event
from flowguard.testing.context import FakeContext
from tests.aws.engines import on_memory, same_clients

SECRET = "4111-1111"


class Receipt(BaseModel):
    order_id: str
    amount: Decimal


@dataclass
class World:
    """An empty table, a clock that stands still, and how often functions were called."""

    clock: ManualClock
    tally: Tally
    services: OnceServices
    called: list[Any] = field(default_factory=list)

    def context(self, seconds: float = 30) -> FakeContext:
        return FakeContext(clock=self.clock, timeout=timedelta(seconds=seconds))

    def told(self) -> list[str]:
        return [event.type.value for event in self.tally.events]


@pytest.fixture
def world() -> Iterator[World]:
    with on_memory() as clients:
        clock, tally = ManualClock(1_800_000_000_000), Tally()
        ledger = ledger_of(Settings(), clients)
        yield World(clock, tally, OnceServices(ledger, clock, SeededIds(), tally))


def charge_in(world: World, act: Callable[[], None] = lambda: None, **options: Any) -> Any:
    """The function of most tests."""

    @once("charge", **{"key": "order_id", **options})
    def charge(order: dict[str, Any], context: Any = None) -> Receipt:
        world.called.append(order["order_id"])
        act()
        return Receipt(order_id=order["order_id"], amount=Decimal("1.10"))

    return charge.using(world.services)


ORDER = {"order_id": "o-1", "card": SECRET}


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def writes(calls: Recorder) -> list[str]:
    return [call.operation for call in calls.calls if call.service == "dynamodb"]


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
    assert world.told() == ["claimed", "broken"]
    with pytest.raises(InProgress):
        charge_in(world)(ORDER, world.context())


def test_a_claim_that_the_store_does_not_take_calls_nothing(world: World) -> None:
    with intercept(Refusing(1)), pytest.raises(RuntimeError):
        charge_in(world)(ORDER)
    assert world.called == []
    assert world.told() == ["broken"]


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_another_payload_under_one_key_is_refused(world: World) -> None:
    charge = charge_in(world, payload=("card", "order_id"))
    charge(ORDER)
    charge(ORDER | {"sent_at": 5})
    with pytest.raises(KeyReused, match="charge: 'o-1' was completed with another payload"):
        charge(ORDER | {"card": "other"})
    assert world.called == ["o-1"]
    assert world.told()[-1] == "key_reused"


def test_a_failed_call_may_be_repeated_with_a_corrected_payload(world: World) -> None:
    with pytest.raises(ValueError, match="no"):
        charge_in(world, raising(ValueError("no")), payload="card")(ORDER)
    charge = charge_in(world, payload="card")
    charge(ORDER | {"card": "right"})
    with pytest.raises(KeyReused):
        charge(ORDER)


def test_a_call_without_a_key_is_refused_and_writes_nothing(world: World) -> None:
    with intercept(Recorder()) as calls, pytest.raises(KeyMissing, match="charge: no usable key at 'order_id'"):
        charge_in(world)({"id": SECRET})
    assert calls.calls == []
    (told,) = world.tally.events
    why = "no usable key at 'order_id': a text, a whole number or a UUID"
    assert (told.type, told.facts) == (EventType.UNREADABLE, {"function": "charge", "why": why})
    assert world.called == []


def test_a_result_that_cannot_come_back_completes_its_key_without_one(world: World) -> None:
    @once("odd", key="order_id")
    def odd(order: dict[str, Any]) -> Any:
        world.called.append(order["order_id"])
        return {"total": float("nan")}

    guarded = odd.using(world.services)
    for _ in range(2):
        with pytest.raises(ResultRefused, match=r"result.total is nan.* a repeat does not call it again"):
            guarded(ORDER)
    assert world.called == ["o-1"]
    assert world.told() == ["claimed", "completed", "broken", "done"]


def test_a_result_that_a_later_version_does_not_take_is_refused(world: World) -> None:
    @once("charge", key="order_id")
    def later(order: dict[str, Any]) -> int:
        raise NotImplementedError

    charge_in(world)(ORDER)
    with pytest.raises(ResultRefused, match="stored with a declared type, and the function declares none"):
        later.using(world.services)(ORDER)


def test_a_result_that_is_too_large_completes_its_key_without_one(world: World) -> None:
    @once("large", key="order_id")
    def large(order: dict[str, Any]) -> bytes:
        world.called.append(order["order_id"])
        return random.Random(1).randbytes(600_000)

    guarded = large.using(world.services)
    for _ in range(2):
        with pytest.raises(ResultRefused, match="the entry is too large"):
            guarded(ORDER)
    assert world.called == ["o-1"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": ""}, "its name is ''; write 1 to 128 letters"),
        ({"name": "a#b"}, "its name is 'a#b'"),
        ({"name": 5}, "its name is 5"),
        ({"key": ""}, "key is ''"),
        ({"payload": 3}, "payload is 3"),
        ({"keep": 60}, "keep is 60, which has no unit; write timedelta(seconds=60)"),
        ({"keep": timedelta(0)}, "keep is 0:00:00; write 0:01:00 or more"),
        ({"lease": timedelta(0)}, "lease is 0:00:00; write"),
        ({"lease": timedelta(days=1)}, "and 12:00:00 at most"),
        ({"table": 5}, "its table is 5; write a name, or KeyTable('idempotency')"),
        ({"table": ""}, "its table is KeyTable(name=''"),
        ({"argument": "nope"}, "argument is 'nope', and the function has order"),
    ],
)
def test_a_wrong_definition_names_each_mistake(options: dict[str, Any], problem: str) -> None:
    wrong: Any = {"name": "charge", "key": "order_id", **options}
    name = wrong.pop("name")
    with pytest.raises(DefinitionError) as refused:
        once(name, **wrong)(lambda order: order)
    assert problem in str(refused.value)


def test_what_cannot_be_guarded_is_refused() -> None:
    def generator(order: Any) -> Iterator[int]:
        yield 1

    def nothing() -> None: ...

    wrong: Any
    for wrong, problem in [
        (generator, "a generator"),
        (nothing, "takes no argument"),
        (dict, "put it onto a function"),
    ]:
        with pytest.raises(DefinitionError, match=problem):
            once("wrong", key="id")(wrong)


def test_an_annotation_that_cannot_be_read_is_refused_before_anything_is_called(world: World) -> None:
    @once("wrong", key="order_id")
    def wrong(order: dict[str, Any]) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821 - that is the point
        world.called.append(1)

    with intercept(Recorder()) as calls, pytest.raises(DefinitionError, match="name the type of its results: result="):
        wrong.using(world.services)(ORDER)
    assert (calls.calls, world.called) == ([], [])


def test_a_call_that_the_function_would_refuse_is_refused_as_python_does(world: World) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'order'"):
        charge_in(world)()


# -- async -------------------------------------------------------------------------------------------------------------


def async_in(world: World) -> Any:
    @once("charge", key="order_id")
    async def charge(order: dict[str, Any]) -> Receipt:
        world.called.append(order["order_id"])
        await asyncio.sleep(0)
        if order.get("wrong"):
            raise ValueError("no")
        return Receipt(order_id=order["order_id"], amount=Decimal(1))

    return charge.using(world.services)


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


# -- a batch -----------------------------------------------------------------------------------------------------------


def event(*orders: str, queue: str = "orders", group: str | None = None) -> dict[str, Any]:
    """The SQS event of these orders; one that begins with ``bad`` is refused by the function."""
    parts = [
        sqs_event(queue, {"order_id": order, "card": SECRET}, message_id=f"m-{place}", group=group)["Records"]
        for place, order in enumerate(orders)
    ]
    return {"Records": [record for records in parts for record in records]}


def batch_in(world: World) -> Any:
    @once("charge", key="body.order_id")
    def charge(record: dict[str, Any]) -> str:
        order = json.loads(record["body"])["order_id"]
        world.called.append(order)
        if order.startswith("bad"):
            raise ValueError(SECRET)
        if order.startswith("slow"):
            world.clock.advance(seconds=29.5)
        return str(order)

    return charge.using(world.services)


def failed(answer: dict[str, Any]) -> list[str]:
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_of_a_batch_only_what_failed_goes_back(world: World) -> None:
    charge = batch_in(world)
    assert failed(charge.batch(event("o-1", "bad", "o-2", "o-1"), world.context())) == ["m-1"]
    assert world.called == ["o-1", "bad", "o-2"]


def test_a_record_whose_key_is_at_work_elsewhere_goes_back(world: World) -> None:
    def meanwhile() -> None:
        assert failed(charge.batch(event("o-1"), world.context())) == ["m-0"]

    @once("charge", key="body.order_id")
    def slow(record: dict[str, Any]) -> None:
        meanwhile()

    charge = slow.using(world.services)
    assert failed(charge.batch(event("o-1"), world.context())) == []
    assert world.tally.count(EventType.RAISED) == 0


def test_a_record_that_raises_costs_one_write_and_its_retry_is_not_kept_waiting(world: World) -> None:
    charge = batch_in(world)
    with intercept(Recorder()) as calls:
        assert failed(charge.batch(event("bad"), world.context(30))) == ["m-0"]
    assert writes(calls) == ["UpdateItem"]
    world.clock.advance(seconds=30)  # the least that a queue may hide a record of a function of 30 s
    with intercept(Recorder()) as calls:
        assert failed(charge.batch(event("bad"), world.context(30))) == ["m-0"]
    assert writes(calls) == ["UpdateItem"]
    assert world.called == ["bad", "bad"]


def test_a_record_that_raises_is_freed_at_once_where_no_context_says_how_long_it_is_hidden(world: World) -> None:
    charge = batch_in(world)
    for _ in range(2):
        assert failed(charge.batch(event("bad"))) == ["m-0"]
    assert world.called == ["bad", "bad"]


class Careless:
    @property
    def order_id(self) -> str:
        raise ZeroDivisionError


def test_an_argument_whose_own_property_raises_is_told_by_its_own_error(world: World) -> None:
    @once("careless", key="order_id")
    def charge(order: Careless) -> None: ...

    with pytest.raises(ZeroDivisionError):
        charge.using(world.services)(Careless())


def test_on_a_fifo_queue_the_rest_of_the_group_goes_back(world: World) -> None:
    charge = batch_in(world)
    batch = event("o-1", "bad", "o-2", queue="orders.fifo", group="g")
    batch["Records"] += event("o-3", queue="orders.fifo", group="h")["Records"]
    batch["Records"][3]["messageId"] = "m-3"
    assert failed(charge.batch(batch, world.context())) == ["m-1", "m-2"]
    assert world.called == ["o-1", "bad", "o-3"]


def test_a_fifo_record_without_its_group_is_one_of_none(world: World) -> None:
    batch = event("bad", "o-1", queue="orders.fifo")
    for record in batch["Records"]:
        del record["attributes"]
    assert failed(batch_in(world).batch(batch, world.context())) == ["m-0"]


def test_on_a_fair_queue_a_group_says_nothing_of_the_order(world: World) -> None:
    assert failed(batch_in(world).batch(event("bad", "o-1", group="g"), world.context())) == ["m-0"]


def test_what_there_is_no_time_for_is_not_begun(world: World) -> None:
    charge = batch_in(world)
    assert failed(charge.batch(event("slow", "o-1", "o-2"), world.context(30))) == ["m-1", "m-2"]
    assert world.called == ["slow"]
    told = [event.facts for event in world.tally.events if event.type is EventType.RETURNED]
    assert told == [{"function": "charge", "record": "m-1"}, {"function": "charge", "record": "m-2"}]


def test_a_second_is_enough_to_begin(world: World) -> None:
    assert failed(batch_in(world).batch(event("o-1"), world.context(1))) == []


def test_an_async_function_works_a_batch_in_one_loop(world: World) -> None:
    loops = set()

    @once("charge", key="body.order_id")
    async def charge(record: dict[str, Any]) -> None:
        loops.add(asyncio.get_running_loop())
        if "bad" in record["body"]:
            raise ValueError

    assert failed(charge.using(world.services).batch(event("o-1", "bad", "o-2"), world.context())) == ["m-1"]
    assert len(loops) == 1


@pytest.mark.parametrize(
    "wrong",
    [None, {}, "x", *({"Records": [one]} for one in ({}, "x", {"messageId": 5, "body": ""}, {"messageId": "m"}))],
)
def test_what_is_no_batch_is_refused(world: World, wrong: Any) -> None:
    with pytest.raises(NotABatch, match="has no Records of SQS"):
        batch_in(world).batch(wrong)


def test_a_mistake_of_the_definition_is_that_of_the_whole_batch(world: World) -> None:
    @once("wrong", key="order_id")
    def wrong(record: dict[str, Any]) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821 - that is the point
        ...

    with pytest.raises(DefinitionError):
        wrong.using(world.services).batch(event("o-1"))


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
