"""What a function under ``@once`` refuses: other payloads, missing keys, results that cannot be kept, bad options."""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard import once
from flowguard.errors import (
    DefinitionError,
    KeyMissing,
    KeyReused,
    ResultRefused,
)
from flowguard.events import EventType
from flowguard.sim.calls import Recorder, intercept
from tests.once_world import ORDER, SECRET, World, charge_in, once_world, raising


@pytest.fixture
def world() -> Iterator[World]:
    with once_world() as found:
        yield found


def test_another_payload_under_one_key_is_refused(world: World) -> None:
    charge = charge_in(world, payload=("card", "order_id"))
    charge(ORDER)
    charge(ORDER | {"sent_at": 5})
    with pytest.raises(KeyReused, match="charge: 'o-1' was used with another payload"):
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
    why = "no usable key at 'order_id': it is a text, a whole number or a UUID, and there is nothing"
    assert (told.type, told.facts) == (EventType.UNREADABLE, {"function": "charge", "why": why})
    assert world.called == []


def wrapped(function: Any) -> Any:
    """A plain wrapper, as those that log or measure are."""

    @functools.wraps(function)
    def wrapper(order: Any) -> Any:
        return function(order)

    wrapper.__annotations__ = {}  # what is annotated as a generator is refused before its key is claimed
    return wrapper


async def coroutine(order: Any) -> str:
    return "awaited"


def generator(order: Any) -> Iterator[str]:
    yield "next"


async def async_generator(order: Any) -> AsyncIterator[str]:
    yield "anext"


LATE: Final[list[Any]] = []


def kept(late: Any) -> Any:
    """What a test closes at its end: nobody awaits it."""
    LATE.append(late)
    return late


@pytest.fixture
def closing() -> Iterator[None]:
    yield
    while LATE:
        late = LATE.pop()
        if not inspect.isasyncgen(late):
            late.close()


async def nested(order: Any) -> Any:
    return kept(coroutine(order))


@pytest.mark.parametrize("function", [coroutine, generator, async_generator])
@pytest.mark.filterwarnings("error")
def test_what_a_wrapper_returns_before_it_has_begun_uses_no_key(function: Any, world: World) -> None:
    guarded = once("late", key="order_id")(wrapped(function)).using(world.services)
    with pytest.raises(DefinitionError, match="of which nothing has run; put @once below the wrapper"):
        guarded(ORDER)
    assert world.told()[-1] == "raised"

    @once("late", key="order_id")
    def mended(order: Any) -> str:
        return "made"

    assert mended.using(world.services)(ORDER) == "made", "by the release that mends it"


@pytest.mark.usefixtures("closing")
@pytest.mark.parametrize("function", [coroutine, generator, async_generator])
def test_what_a_function_returns_that_may_have_done_something_keeps_its_key(function: Any, world: World) -> None:
    @once("charge", key="order_id")
    def charged(order: dict[str, Any]) -> Any:
        world.called.append(order["order_id"])
        return kept(function(order))

    guarded = charged.using(world.services)
    for _ in range(2):
        with pytest.raises(ResultRefused):
            guarded(ORDER)
    assert world.called == ["o-1"]


@pytest.mark.usefixtures("closing")
def test_what_an_async_function_returns_keeps_its_key_too(world: World) -> None:
    guarded = once("late", key="order_id")(nested).using(world.services)
    for _ in range(2):
        with pytest.raises(ResultRefused):
            asyncio.run(guarded(ORDER))


def test_a_wrapper_that_awaits_by_itself_is_as_good_as_any_function(world: World) -> None:
    @once("late", key="order_id")
    @functools.wraps(coroutine)
    def waits(order: Any) -> Any:
        return asyncio.run(coroutine(order))

    assert waits.using(world.services)(ORDER) == "awaited"


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
