"""Entries of Idempotency-Key are forgotten with the object whose run they have started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading
from flowguard.aws.forgetting import NOTHING_STARTED, Forgetting
from flowguard.aws.object_traces import TraceReader
from flowguard.aws.stored_texts import StoredTexts
from flowguard.clock import no_pause
from flowguard.operate.forget_object import Forgetter, Forgotten
from tests.scene import Scene, scene
from tests.start_door import At, Died, Door


@pytest.fixture
def door() -> Iterator[Door]:
    with scene() as shop:
        shop.aws.create_queue("orders-dead-letters")
        yield Door(shop)


def forget(door: Door, object_id: str = "o1", *, really: bool = True) -> Forgotten:
    shop, clients = door.shop, Clients()

    @contextmanager
    def letters(flow: Any) -> Iterator[Reading]:
        dead = DeadLetterQueue.find(clients, "orders-dead-letters", shop.clock)
        with Reading(clients, dead, flow=flow, wait=0, clock=shop.clock) as reading:
            yield reading

    texts, table = StoredTexts(lambda: clients.s3), "flowguard"
    reader = TraceReader(clients.dynamodb, table, texts, None, "", no_pause, [shop.flow.name])
    forgetting = Forgetting(clients.dynamodb, table, texts, no_pause)
    flows: Any = {shop.flow.name: shop.flow}
    return Forgetter(reader, forgetting, letters, flows, shop.clock.now(), really).forget(shop.flow, object_id)


def results(shop: Scene) -> list[Any]:
    """The results of the entries, as they lie in the table."""
    items = shop.aws.client("dynamodb").scan(TableName="flowguard")["Items"]
    return sorted(item["result"]["S"] for item in items if item["pk"]["S"].startswith("once#"))


def ended(door: Door) -> None:
    """Two keys have started runs of two objects, which ended a while ago."""
    for key, order in (("k1", "o1"), ("k2", "o2")):
        assert door.post(key, {"order_id": order}).status == 202
    door.work()
    door.work()
    door.shop.clock.advance(seconds=31 * 60)


def test_the_entry_of_its_key_no_longer_names_the_object_and_others_stay(door: Door) -> None:
    ended(door)
    before = results(door.shop)
    assert forget(door, really=False).counts["entries of Idempotency-Key"] == 1
    assert results(door.shop) == before
    report = forget(door)
    assert (report.is_done, report.counts["entries of Idempotency-Key"]) == (True, 1)
    emptied, kept = results(door.shop)
    assert (emptied, '"o2"' in kept) == (NOTHING_STARTED, True)
    assert "entries of Idempotency-Key" not in forget(door).counts


def test_a_repeat_with_the_key_of_a_forgotten_object_starts_nothing(door: Door) -> None:
    ended(door)
    forget(door)
    started = len(door.started())
    again = door.post("k1", {"order_id": "o1"})
    assert again.status == 202
    assert len(door.started()) == started
    assert door.get(again.watch).status == 410


def test_the_entry_of_a_newer_request_that_has_not_begun_stays(door: Door) -> None:
    ended(door)
    door.post("k3", {"order_id": "o1"})
    assert forget(door).counts["entries of Idempotency-Key"] == 1
    assert sum('"o1"' in result for result in results(door.shop)) == 1


def test_the_entry_of_a_start_that_has_noted_nothing_stays_and_so_does_what_names_nobody(door: Door) -> None:
    ended(door)
    door.fault = At("UpdateItem", 2, raises=Died())
    with pytest.raises(Died):
        door.post("k3", {"order_id": "o1"})
    door.fault = None
    for place, result in enumerate(('"o"', "17", "no JSON", '["r"]')):
        key = {"pk": {"S": f"once#start/orders#odd-{place}"}, "sk": {"S": "once"}}
        entry: Any = {**key, "result": {"S": result}, "begun_at": {"N": "1"}}
        door.shop.aws.client("dynamodb").put_item(TableName="flowguard", Item=entry)
    assert forget(door).counts["entries of Idempotency-Key"] == 1


def test_an_entry_whose_object_has_a_long_id_is_found_too(door: Door) -> None:
    long = "o" * 300
    door.post("k1", {"order_id": long})
    door.work()
    door.work()
    door.shop.clock.advance(seconds=31 * 60)
    assert forget(door, long).counts["entries of Idempotency-Key"] == 1


def test_the_entry_of_a_run_that_waits_in_its_queue_stays_and_its_client_gets_the_result(door: Door) -> None:
    watch = door.post("k1", {"order_id": "o1"}).watch
    report = forget(door)
    assert "entries of Idempotency-Key" not in report.counts
    assert ("entries of Idempotency-Key", 1) in {(left.what, left.number) for left in report.left}
    door.work()
    door.work()
    assert door.post("k1", {"order_id": "o1"}).watch == watch
    assert door.get(watch).status == 200


def test_an_entry_whose_object_has_a_run_is_not_said_to_wait(door: Door) -> None:
    ended(door)
    door.post("k3", {"order_id": "o1"})
    assert "entries of Idempotency-Key" not in {left.what for left in forget(door).left}


def test_an_entry_that_was_begun_anew_meanwhile_is_not_emptied(door: Door) -> None:
    ended(door)
    (entry,) = started_by(door)
    forgetting = Forgetting(Clients().dynamodb, "flowguard", StoredTexts(lambda: Clients().s3), no_pause)
    door.shop.clock.advance(seconds=30 * 24 * 60 * 60)
    assert door.post("k1", {"order_id": "o1"}).status == 202
    before = results(door.shop)
    assert not forgetting.empty_started(entry)
    assert results(door.shop) == before
    door.work()
    door.work()
    (anew,) = started_by(door)
    assert anew.key == entry.key
    assert forgetting.empty_started(anew)
    assert not forgetting.empty_started(anew)


def started_by(door: Door) -> Any:
    reader = TraceReader(Clients().dynamodb, "flowguard", StoredTexts(lambda: Clients().s3), None, "", no_pause, [])
    return reader.read(_of(door)).started


def _of(door: Door) -> Any:
    from flowguard.aws.object_scan import Child

    return Child(door.shop.flow.name, "o1")
