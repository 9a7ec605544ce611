"""How long others wait while one tenant has 100,000 messages in their queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flowguard.aws.sender import queue_entry
from flowguard.client import FlowClient
from flowguard.destinations import Queue
from flowguard.protocol.outbox import Kind, Send
from tests.sim.fair_queue import Consumers, FairQueue, Run, delays
from tests.worker.test_tenant import Kept, Order, Orders

CONSUMERS = Consumers(most=100, work=200, look=5_000)
MANY = 100_000
OTHERS = 20
EVERY = 10_000
"""An order of each of the others, ms."""


def group_of(tenant: str) -> str | None:
    """The group of a tenant's request and of its next hop, as flowguard sends them."""
    sender = Kept()
    FlowClient(sender).start(Orders, Order(id="o1", customer=tenant))
    request = sender.sent[0]
    entry = queue_entry(0, request, fifo=False)
    onward = Send(Kind.NEXT, Queue("orders"), "{}", "m2", request.attributes)
    assert queue_entry(0, onward, fifo=False).get("MessageGroupId") == entry.get("MessageGroupId")
    group: str | None = entry.get("MessageGroupId")
    return group


def a_busy_day(group: Callable[[str], str | None], hops: int = 1) -> list[Run]:
    """One tenant asks for 100,000 runs at once; twenty others ask for one now and then."""
    busy = [Run(0, (group("busy"),) * hops)] * (MANY // hops)
    others = [
        Run(1_000 + number * 37 + turn * EVERY, (group(f"tenant-{number}"),) * hops)
        for number in range(OTHERS)
        for turn in range(20)
    ]
    return busy + others


def others_wait(group: Callable[[str], str | None], hops: int = 1) -> list[int]:
    """How long the others wait, in the order of their requests."""
    runs = a_busy_day(group, hops)
    waited = dict(enumerate(delays(runs, CONSUMERS)))
    return [waited[place] for place in sorted(range(MANY // hops, len(runs)), key=lambda place: runs[place].at)]


def known(group: Callable[[str], str | None]) -> Callable[[str], str | None]:
    """The same groups, each asked for once."""
    kept: dict[str, str | None] = {}
    return lambda tenant: kept[tenant] if tenant in kept else kept.setdefault(tenant, group(tenant))


@pytest.mark.slow("a hundred thousand messages")
def test_in_a_plain_queue_others_wait_for_all_that_one_tenant_has_sent() -> None:
    waited = others_wait(lambda tenant: None)
    assert max(waited) > 190_000


@pytest.mark.slow("a hundred thousand messages")
@pytest.mark.parametrize("hops", [1, 2])
def test_with_tenants_others_wait_less_than_the_stated_bound(hops: int) -> None:
    """A look of the queue and the work on one message, and after that look the work on one message for each hop."""
    waited = others_wait(known(group_of), hops)
    assert max(waited) < CONSUMERS.look + hops * CONSUMERS.work
    before_the_look = OTHERS
    assert max(waited[before_the_look:]) < hops * CONSUMERS.work


def test_without_a_backlog_nobody_waits() -> None:
    assert set(delays([Run(n * 10, ("a",)) for n in range(100)], CONSUMERS)) == {0}


def test_a_tenant_is_noisy_that_has_many_in_flight_and_a_backlog() -> None:
    queue = FairQueue()
    for number in range(40):
        queue.waiting["busy"].append((number, number))
    queue.waiting["quiet"].append((40, 40))
    for _ in range(29):
        queue.take()
    queue.look()
    assert queue.noisy == set(), "29 are too few"
    queue.take()
    queue.look()
    assert queue.noisy == {"busy"}
    assert queue.take() == ("quiet", 40)
    assert queue.take() == ("busy", 30)
    queue.waiting["busy"].clear()
    queue.look()
    assert queue.noisy == set(), "its backlog is gone"
    assert queue.take() is None


def test_a_tenant_with_its_share_is_not_noisy() -> None:
    queue = FairQueue()
    queue.in_flight.update({"a": 30, **{f"t{n}": 27 for n in range(10)}})
    queue.waiting["a"].append((0, 0))
    queue.look()
    assert queue.noisy == set()
    queue.in_flight["a"] = 31
    queue.look()
    assert queue.noisy == {"a"}


def test_of_two_noisy_tenants_the_one_with_fewer_in_flight_is_next() -> None:
    queue = FairQueue(noisy={"a", "b"})
    queue.in_flight.update({"a": 50, "b": 40})
    queue.waiting["a"].append((0, 0))
    queue.waiting["b"].append((1, 1))
    assert queue.take() == ("b", 1)
