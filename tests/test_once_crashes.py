"""A function under ``@once`` that dies before or after each call: the table of what the next call finds.

======================  ===============================================  ================================
died                    the next call, before the lease is over          and when it is over
======================  ===============================================  ================================
before the claim        calls the function                               the same
after the claim         :class:`InProgress`                              calls the function
after the effect        :class:`InProgress`                              calls the function once more
before the finish       :class:`InProgress`                              calls the function once more
after the finish        gets the result                                  the same
======================  ===============================================  ================================
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from flowguard import InProgress, once
from flowguard.aws.ledger import ledger_of
from flowguard.clock import ManualClock
from flowguard.events import EventType, Tally
from flowguard.names.ids import SeededIds
from flowguard.once_function import OnceServices
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.testing.context import FakeContext
from tests.aws.engines import on_memory

LEASE = timedelta(seconds=30)
ORDER = {"order_id": "o-1"}


class Died(BaseException):
    """The process is gone: nothing of it runs any more."""


class Dying:
    """Ends the process before or after its nth call of AWS. What it calls afterwards never leaves it."""

    def __init__(self, call: int, *, after: bool) -> None:
        self.left = call
        self.after = after
        self.dead = False

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self.left -= 1
        if self.dead or (self.left == 0 and not self.after):
            self.dead = True
            raise Died
        answer = proceed()
        if self.left == 0:
            self.dead = True
            raise Died
        return answer


class World(NamedTuple):
    clock: ManualClock
    tally: Tally
    effects: list[str]
    charge: Any

    def call(self) -> Any:
        return self.charge(ORDER, FakeContext(clock=self.clock, timeout=LEASE))


@pytest.fixture
def world() -> Iterator[World]:
    with on_memory() as clients:
        clock, tally, effects = ManualClock(), Tally(), list[str]()

        @once("charge", key="order_id")
        def charge(order: dict[str, str], context: Any) -> str:
            clients.dynamodb.put_item(TableName="carts", Item={"id": {"S": order["order_id"]}})
            effects.append(order["order_id"])
            return f"charge {len(effects)}"

        services = OnceServices(ledger_of(Settings(), clients), clock, SeededIds(), tally)
        yield World(clock, tally, effects, charge.using(services))


@pytest.mark.parametrize(
    ("call", "after", "blocked", "effects"),
    [
        (1, False, False, 1),
        (1, True, True, 1),
        (2, False, True, 1),
        (2, True, True, 1),
        (3, False, True, 2),
        (3, True, False, 1),
    ],
    ids=["before the claim", "after it", "before the effect", "after it, half way", "before the finish", "after it"],
)
def test_whoever_dies_the_next_call_has_the_result(
    world: World, call: int, after: bool, blocked: bool, effects: int
) -> None:
    with intercept(Dying(call, after=after)), pytest.raises(Died):
        world.call()
    if blocked:
        world.clock.advance(ms=LEASE // timedelta(milliseconds=1) - 1)
        with pytest.raises(InProgress) as busy:
            world.call()
        assert busy.value.seconds == 1, "and no longer than the lease"
        world.clock.advance(ms=1)
    result = world.call()
    assert result == world.call() == f"charge {effects}", "the same result from then on"
    assert len(world.effects) == effects
    assert world.tally.count(EventType.COMPLETED) == (0 if (call, after) == (3, True) else 1)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whoever_dies_while_its_key_is_freed_blocks_it_for_its_lease_at_most(world: World, after: bool) -> None:
    def wrong(order: dict[str, str], context: Any) -> str:
        raise ValueError

    failing = once("charge", key="order_id")(wrong).using(world.charge._guarded.services)
    with intercept(Dying(2, after=after)), pytest.raises(Died):
        failing(ORDER, FakeContext(clock=world.clock, timeout=LEASE))
    if not after:
        with pytest.raises(InProgress):
            world.call()
        world.clock.advance(seconds=30)
    assert world.call() == "charge 1"


@pytest.mark.parametrize(("call", "after"), [(1, False), (2, False), (2, True), (3, True), (4, True)])
def test_an_expired_entry_is_begun_anew_whoever_dies(world: World, call: int, after: bool) -> None:
    world.call()
    world.clock.advance(seconds=29 * 86_400)
    with intercept(Dying(call, after=after)), pytest.raises(Died):
        world.call()
    world.clock.advance(seconds=30)
    assert world.call() == world.call() == f"charge {len(world.effects)}"
    assert len(world.effects) <= 3
