"""Limits as stages say them: what names a key, and the mistakes of a definition."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import (
    DefinitionError,
    Done,
    Flow,
    Outcome,
    PauseAfter,
    PerKey,
    Queue,
    Reject,
    Retry,
    Stage,
    Step,
    Topic,
)
from flowguard.errors import OtherRelease, RunFailed
from flowguard.limit import shards_of
from flowguard.protocol.breaker import Rule
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.places import LONGEST_WINDOW
from flowguard.retry import RetryPolicy
from flowguard.worker.leases import keeps_lease, why_leased


class Inner(BaseModel):
    name: str | None = None


class Order(BaseModel):
    order_id: str
    customer: str = "c1"
    number: int = 7
    inner: Inner = Inner()


async def later(order: Order) -> str:
    """A key that cannot be read at once."""
    return order.customer


def of_nothing() -> str:
    """A key that reads no payload."""
    return "a"


def stage(limit: Any, **options: Any) -> type[Stage[Any]]:
    class Charge(Stage[Order], name="charge", limit=limit, **options):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    return Charge


@pytest.mark.parametrize("key", ["customer", "number", "inner.name"])
def test_a_field_names_the_key_and_no_value_stands_in_its_name(key: str) -> None:
    order = Order(order_id="o1", inner=Inner(name="c1"))
    place = PerKey(key, at_once=1).place_of(order)
    assert place is not None
    assert place.startswith(f"{key}#")
    assert len(place) == len(key) + 1 + 32


def test_equal_values_have_one_key_and_others_have_others() -> None:
    limit = PerKey("customer", at_once=1)
    one, same, other = (limit.place_of(Order(order_id=name, customer=name[0])) for name in ("a1", "a2", "b1"))
    assert one == same != other


def test_a_function_names_the_key_or_leaves_a_payload_unlimited() -> None:
    limit = PerKey(lambda order: order.inner.name, at_once=1, name="inner")
    assert limit.place_of(Order(order_id="o1")) is None
    place = limit.place_of(Order(order_id="o1", inner=Inner(name="\ud800")))
    assert place is not None
    assert place.startswith("inner#")


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (PerKey("inner.name", at_once=1), "the payload has no usable 'inner.name' to limit by"),
        (PerKey(lambda order: order.none, at_once=1, name="a"), "the key of the limit a raised AttributeError"),
        (PerKey(lambda order: order.number, at_once=1, name="a"), "the key of the limit a is int, and is to be text"),
        (PerKey(lambda order: "", at_once=1, name="a"), "the key of the limit a is str, and is to be text"),
    ],
)
def test_a_key_that_cannot_be_used_says_so_and_quotes_nothing(limit: PerKey, why: str) -> None:
    with pytest.raises(RunFailed, match=why) as raised:
        limit.place_of(Order(order_id="secret", customer="secret"))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (PerKey("customer", at_once=0), "at_once is 0; it is a whole number from 1 to 100"),
        (PerKey("customer", at_once=101), "at_once is 101"),
        (PerKey("customer", at_once=True), "at_once is True"),
        (PerKey("nobody", at_once=1), "its key is 'nobody', but Order has no 'nobody'"),
        (PerKey(7, at_once=1), r"its key is 7; write a field \('customer'\), or a function"),  # type: ignore[arg-type]
        (PerKey(lambda order: "a", at_once=1), "its name is .*; give it a name= of 1 to 64"),
        (PerKey(of_nothing, at_once=1, name="a"), "its key cannot be called with the payload alone"),  # type: ignore[arg-type]  # as an untyped caller may
        (PerKey(later, at_once=1, name="a"), "its key is an async function; write a plain one"),  # type: ignore[arg-type]  # as an untyped caller may
        (PerKey("customer", at_once=1, name="a b"), "its name is 'a b'; give it a name= of 1 to 64"),
        (PerKey("customer", at_once=1, name="n" * 65), "its name is 'n+ …; give it a name="),
        ("customer", r"limit is .'customer',.; write PerKey\('customer', at_once=3\)"),
        ((PerKey("customer", at_once=1), PerKey("customer", at_once=2)), "two are named 'customer'"),
        (tuple(PerKey("customer", at_once=1, name=f"n{place}") for place in range(4)), "limit has 4 of at most 3"),
    ],
)
def test_a_mistake_of_a_limit_is_one_of_its_stage(limit: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        stage(limit)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (PerKey("customer"), "it has no measure; say at_once=, or per= and count="),
        (PerKey("customer", timedelta(minutes=1), 2), "its name is 2; write per= and count= by their names"),  # type: ignore[arg-type]
        (PerKey("customer", per=timedelta(seconds=1), count=2.5), "count is 2.5; it is a whole number"),  # type: ignore[arg-type]
        (PerKey("customer", per=timedelta(seconds=1)), "count is None; it is a whole number from 1 to 100"),
        (PerKey("customer", count=3), "per is None; it is a timedelta from 0:00:01 to 0:15:00"),
        (PerKey("customer", per=timedelta(seconds=1), count=101), "count is 101; it is a whole number from 1 to 100"),
        (
            PerKey("customer", per=timedelta(milliseconds=999), count=1),
            "per is 0:00:00.999000; it is a timedelta from",
        ),
        (
            PerKey("customer", per=timedelta(minutes=15, milliseconds=1), count=1),
            "for 1,000 an hour say 100 in 6 minutes",
        ),
        (PerKey("customer", per=60, count=1), "per is 60; it is a timedelta"),  # type: ignore[arg-type]  # as an untyped caller may
        (PerKey("customer", at_once=3, count=1), "it has at_once beside per and count; make two limits of it"),
        (PerKey("customer", at_once=3, per=timedelta(seconds=1)), "it has at_once beside per and count"),
        (
            (PerKey("customer", at_once=1), PerKey("customer", per=timedelta(seconds=1), count=1)),
            "two are named 'customer'",
        ),
    ],
)
def test_a_mistake_of_a_limit_by_time_is_one_of_its_stage(limit: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        stage(limit)


@pytest.mark.parametrize(
    ("per", "window"),
    [
        (timedelta(seconds=1), 1_200),
        (timedelta(milliseconds=2_010), 2_010 + 201),
        (timedelta(milliseconds=9_999), 9_999 + 999),
        (timedelta(seconds=10), 11_000),
        (timedelta(minutes=15), 901_000),
    ],
)
def test_a_start_counts_for_a_tenth_longer_and_for_200_ms_to_a_second(per: timedelta, window: int) -> None:
    limit = PerKey("customer", per=per, count=100)
    assert stage(limit).limits == (limit,)
    assert (limit.window, limit.most) == (window, 100)
    assert limit.margin == window - per // timedelta(milliseconds=1)
    assert limit.window <= LONGEST_WINDOW


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (PerKey("customer", at_once=9, shards=0), "shards is 0; it is a whole number from 1 to 64"),
        (PerKey("customer", at_once=99, shards=65), "shards is 65"),
        (PerKey("customer", at_once=9, shards=2.0), "shards is 2.0"),  # type: ignore[arg-type]  # as an untyped caller may
        (
            PerKey("customer", at_once=7, shards=8),
            "at_once is 7; it is a whole number from 8 to 800, 1 to 100 for each",
        ),
        (PerKey("customer", at_once=801, shards=8), "at_once is 801; it is a whole number from 8 to 800"),
        (
            PerKey("customer", per=timedelta(minutes=1), count=801, shards=8),
            "count is 801; it is a whole number from 8",
        ),
    ],
)
def test_a_mistake_of_shards_is_one_of_its_stage(limit: PerKey, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        stage(limit)


@pytest.mark.parametrize(("at_once", "shards"), [(8, 8), (11, 8), (800, 8), (6_400, 64), (5, 1), (100, 1)])
def test_the_parts_of_all_shards_are_the_number_and_differ_by_one_at_most(at_once: int, shards: int) -> None:
    limit = PerKey("customer", at_once=at_once, shards=shards)
    assert stage(limit).limits == (limit,)
    parts = [limit.most_of(place) for place in shards_of("customer#d1", shards)]
    assert (len(parts), sum(parts), limit.most) == (shards, at_once, at_once)
    assert max(parts) - min(parts) <= 1
    assert parts == sorted(parts, reverse=True)


def test_an_object_has_one_shard_and_all_shards_have_objects() -> None:
    limit, plain = PerKey("customer", at_once=8, shards=4), PerKey("customer", at_once=8)
    order = Order(order_id="o1")
    names = [limit.place_of(order, f"o{number}") for number in range(200)]
    assert names == [limit.place_of(Order(order_id="another"), f"o{number}") for number in range(200)]
    base = plain.place_of(order, "o7")
    assert base is not None
    assert base == plain.place_of(order)
    assert set(names) == set(shards_of(base, 4)) == {base, f"{base}~1", f"{base}~2", f"{base}~3"}
    assert min(names.count(name) for name in set(names)) > 30
    assert limit.place_of(order, "\ud800") in names
    free = PerKey(lambda _: None, at_once=8, shards=4, name="free")
    assert free.place_of(order, "o1") is None


def test_a_limit_of_hops_at_work_has_no_window() -> None:
    limit = PerKey("customer", at_once=7)
    assert (limit.window, limit.margin, limit.most) == (0, 0, 7)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(DefinitionError) as raised:
        stage(PerKey(7, at_once=0, name="n"))  # type: ignore[arg-type]  # it is none
    assert "at_once is 0" in str(raised.value)
    assert "its key is 7" in str(raised.value)


@pytest.mark.parametrize("at_once", [1, 100])
def test_as_many_as_one_and_a_hundred_may_be_at_once(at_once: int) -> None:
    assert stage(PerKey("customer", at_once=at_once)).limits == (PerKey("customer", at_once=at_once),)


def test_three_limits_are_taken_and_the_longest_name() -> None:
    limits = tuple(PerKey("customer", at_once=1, name="n" * 63 + str(place)) for place in range(3))
    assert stage(limits).limits == limits


def test_a_stage_without_a_lease_has_no_limit_and_one_that_leaves_it_to_its_code_keeps_it() -> None:
    with pytest.raises(DefinitionError, match="a place is taken under a lease, and the stage has lease=False"):
        stage(PerKey("customer", at_once=1), lease=False)
    auto = stage(PerKey("customer", at_once=1), lease="auto")

    class Orders(Flow, name="orders", object_id="order_id"):
        stages = (auto,)

    assert keeps_lease(Orders, auto)
    assert why_leased(Orders, auto) == "a place of its limits is taken under a lease"


def test_records_of_a_stage_with_limits_are_not_handled_in_threads() -> None:
    with pytest.raises(DefinitionError, match="its records are handled one after the other; leave parallel out"):
        stage(PerKey("customer", at_once=1), parallel=2)


@pytest.mark.parametrize("inbox", [Queue("orders.fifo"), Topic("arn:aws:sns:eu-west-1:123456789012:orders.fifo")])
def test_a_fifo_inbox_takes_no_limit(inbox: Any) -> None:
    with pytest.raises(DefinitionError, match=r"stage 'charge' has a limit, and its inbox .* is FIFO"):

        class Orders(Flow, name="orders", object_id="order_id", inbox=inbox):
            stages = (stage(PerKey("customer", at_once=1)),)


@pytest.mark.parametrize(
    ("on_conflict", "after", "is_refused"),
    [
        (OnConflict.IGNORE, timedelta(minutes=5) - timedelta(milliseconds=1), True),
        (OnConflict.ATTACH, timedelta(seconds=1), True),
        (OnConflict.IGNORE, timedelta(minutes=5), False),
        (OnConflict.SUPERSEDE, timedelta(seconds=1), False),
    ],
)
def test_a_run_that_waits_for_a_place_is_not_to_be_taken_for_abandoned(
    on_conflict: OnConflict, after: timedelta, *, is_refused: bool
) -> None:
    def define(limit: PerKey | None) -> None:
        class Orders(
            Flow,
            name="orders",
            object_id="order_id",
            on_conflict=on_conflict,
            abandoned_after=after,
        ):
            stages = (stage(limit, retry=RetryPolicy(attempts=1)),)

    define(None)
    if not is_refused:
        define(PerKey("customer", at_once=1))
        return
    with pytest.raises(DefinitionError, match="would be taken for abandoned; raise abandoned_after to 0:05:00 or more"):
        define(PerKey("customer", at_once=1))


def test_a_flow_has_no_limit_of_its_own() -> None:
    with pytest.raises(DefinitionError, match=r"it has a limit, which stages have: .* a limit= of its own"):

        class Orders(Flow, name="orders", object_id="order_id", limit=PerKey("customer", at_once=1)):
            stages = (stage(None),)


def test_an_abandoned_after_that_is_no_span_is_a_problem_of_its_own() -> None:
    wrong: Any = 60
    with pytest.raises(DefinitionError) as raised:

        class Orders(Flow, name="orders", object_id="order_id", on_conflict=OnConflict.IGNORE, abandoned_after=wrong):
            stages = (stage(PerKey("customer", at_once=1)),)

    assert "abandoned_after" in str(raised.value)
    assert "waits for a place" not in str(raised.value)


def test_a_limit_is_inherited_and_may_be_taken_away() -> None:
    class Base(Stage[Order], limit=PerKey("customer", at_once=1), abstract=True):
        pass

    class Charge(Base, name="charge"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    class Free(Base, name="free", limit=()):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    assert (len(Charge.limits), Free.limits) == (1, ())


# -- keys that pause themselves


class GatewayAway(Exception):
    """The gateway does not answer, whoever asks."""


class GatewaySlow(Retry):
    """It is to be asked later."""


class OrderBad(Reject):
    """The order can never be paid."""


MINUTE = timedelta(minutes=1)
AWAY = PauseAfter(5, errors=(GatewayAway, GatewaySlow), within=MINUTE, rest=5 * MINUTE)


def pausing(**changes: Any) -> PerKey:
    return PerKey("customer", at_once=2, pause_after=AWAY._replace(**changes))


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (pausing(failures=0), "pause_after: failures is 0; it is a whole number from 1 to 100"),
        (pausing(failures=101), "failures is 101"),
        (pausing(failures=True), "failures is True"),
        (
            pausing(errors=()),
            r"pause_after: errors is \(\); write a tuple of classes of your own: errors=\(G",
        ),
        (pausing(errors=GatewayAway), "errors is <class .*; write a tuple"),
        (pausing(errors=[GatewayAway]), "errors is .*; write a tuple"),
        (pausing(errors=("GatewayAway",)), "errors has 'GatewayAway', which is no class of errors"),
        (pausing(errors=(int,)), "errors has <class 'int'>, which is no class of errors"),
        (pausing(errors=(KeyboardInterrupt,)), "errors has .*KeyboardInterrupt.*, which is no class of errors"),
        (pausing(errors=(BaseException,)), "errors has .*BaseException.*, which is no class of errors"),
        (pausing(errors=(GatewayAway, Exception)), "errors has Exception, which may be of one message; write a class"),
        (
            pausing(errors=(Retry,)),
            "errors has Retry, which may be of one message; write a class that says",
        ),
        (pausing(errors=(Reject,)), "errors has Reject, which is of one message: others would wait for nothing"),
        (pausing(errors=(OtherRelease,)), "errors has OtherRelease, which is of one message"),
        (pausing(errors=(OrderBad,)), "errors has OrderBad, which is of one message"),
        (
            pausing(within=timedelta(milliseconds=999)),
            "within is 0:00:00.999000; it is a timedelta from 0:00:01 to 1",
        ),
        (pausing(within=timedelta(hours=1, milliseconds=1)), "within is 1:00:00.001000; it is"),
        (pausing(within=60), "within is 60; it is a timedelta"),
        (pausing(rest="soon"), "rest is 'soon'; it is a timedelta"),
        (pausing(rest=timedelta(0)), "pause_after: rest is 0:00:00; it is a timedelta from 0:00:01 to 0:15:00"),
        (pausing(rest=timedelta(minutes=15, milliseconds=1)), "rest is 0:15:00.001000; it is"),
        (PerKey("customer", at_once=2, pause_after=5), r"pause_after is 5; write PauseAfter\(5, errors="),  # type: ignore[arg-type]
        (PerKey("customer", at_once=2, pause_after=PauseAfter), r"pause_after is .*; write PauseAfter\(5, errors="),  # type: ignore[arg-type]
        (
            PerKey("customer", per=MINUTE, count=2, pause_after=AWAY),
            "it has pause_after without at_once: a start by time is never given back",
        ),
        (PerKey("customer", at_once=4, shards="2", pause_after=AWAY), "shards is '2'"),  # type: ignore[arg-type]
        (
            PerKey("customer", at_once=4, shards=2, pause_after=AWAY),
            "it has pause_after beside shards, each of which would be paused alone; leave one of the two out",
        ),
    ],
)
def test_a_mistake_of_how_a_key_pauses_itself_is_one_of_its_stage(limit: PerKey, why: str) -> None:
    with pytest.raises(DefinitionError, match=f"limit: .*{why}"):
        stage(limit)


def test_a_number_without_shards_is_told_without_them() -> None:
    [why] = PerKey("customer", at_once=101).call_problems()
    assert why == "at_once is 101; it is a whole number from 1 to 100"


def test_a_function_under_once_has_no_key_that_pauses_itself() -> None:
    assert PerKey("customer", at_once=4).call_problems() == []
    [why] = pausing().call_problems()
    assert why == "it has pause_after, which is for stages: nobody stands in line here; leave it out"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"failures": 1, "within": timedelta(seconds=1), "rest": timedelta(seconds=1)},
        {"failures": 100, "within": timedelta(hours=1), "rest": timedelta(minutes=15)},
    ],
)
def test_a_key_may_pause_itself_within_these_bounds(changes: dict[str, Any]) -> None:
    assert stage(pausing(**changes)).limits[0].pause_after is not None


def test_what_counts_is_an_error_of_these_classes_or_below() -> None:
    class Below(GatewayAway):
        """It is away in some way."""

    for kind in (GatewayAway, Below, GatewaySlow):
        assert AWAY.counts((kind,))
        assert AWAY.counts((ExceptionGroup, ValueError, kind))
    assert not AWAY.counts(())
    assert not AWAY.counts((Retry, KeyboardInterrupt))


def test_how_a_key_pauses_itself_is_given_to_decisions_in_ms() -> None:
    assert AWAY.rule == Rule(5, 60_000, 300_000, "5 GatewayAway or GatewaySlow within 0:01:00")
