"""Streams in an exploration: a shard's records come in order, and one that fails holds up those behind it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.destinations import Queue
from flowguard.sim.recording import read_recording
from flowguard.sim.shards import delivered_again, shard_of
from flowguard.streams import KinesisStream, TableStream
from flowguard.testing import dynamodb_event, kinesis_event
from flowguard.testing.explorer import Report, View, explore, replay
from flowguard.wire.envelope import BadRecord

SINGLES: dict[str, Any] = {"bound": 0, "walks": 0, "tables": {"prices": "sku"}}
SOON = RetryPolicy(attempts=3, backoff=Fixed(1))
AT = 1_767_225_600_000


class Price(BaseModel):
    sku: str
    price: int


class Keys(BaseModel):
    sku: str


class Keep(Stage[Price], name="keep", then="tell", retry=SOON):
    def handle(self, price: Price, step: Step) -> Outcome:
        step.put("prices", {"sku": price.sku, "price": price.price})
        return Tell.message(price)


class Tell(Stage[Price], name="tell", retry=SOON):
    def handle(self, price: Price, step: Step) -> Outcome:
        step.send("prices-told", {"sku": price.sku})
        return Done()


class KeepPrices(Flow, name="keep-prices", object_id="sku", streams=(KinesisStream("prices"),)):
    stages = (Keep, Tell)


class Approved(BaseModel):
    approved: Any


class Announce(Stage[Price], name="announce", then="keep-announced"):
    def handle(self, price: Price, step: Step) -> Outcome:
        step.send("prices-announced", {"sku": price.sku})
        asked = step.ask("approvals", {"ref": step.answer_id("approved")})
        return KeepAnnounced.when_all(approved=asked, within=timedelta(minutes=5))


class KeepAnnounced(Stage[Approved], name="keep-announced"):
    def handle(self, approved: Approved, step: Step) -> Outcome:
        return Done()


class AnnouncePrices(Flow, name="announce-prices", object_id="sku", streams=(KinesisStream("prices"),)):
    stages = (Announce, KeepAnnounced)


class Change(BaseModel):
    keys: Keys
    new: Price


class KeepChange(Stage[Change], name="keep-change", retry=SOON):
    def handle(self, change: Change, step: Step) -> Outcome:
        step.put("prices", {"sku": change.new.sku, "price": change.new.price})
        return Done()


class KeepChanges(Flow, name="keep-changes", object_id="keys.sku", streams=(TableStream("shop"),)):
    stages = (KeepChange,)


def kinesis(place: int, price: int, sku: str = "tea", at: int = AT) -> Any:
    sequence = f"4959033827149025660855969253836157109592157598913658{place:04}"
    return kinesis_event("prices", Price(sku=sku, price=price), sequence=sequence, arrived_at=at)


def changed(place: int, price: int, sku: str = "tea") -> Any:
    image = {"sku": {"S": sku}, "price": {"N": str(price)}}
    about = {"sequence": f"44215845000000000174504390{place:02}", "event_id": f"{place:032x}", "changed_at": AT}
    return dynamodb_event("shop", {"sku": {"S": sku}}, image, **about)  # type: ignore[arg-type]


def newest_is_kept(view: View) -> bool:
    (item,) = view.table("prices")
    return bool(item["price"] == 3)


def explored(flow: Any, messages: list[Any], **about: Any) -> Report:
    """What is refused for good is left out: where nobody may write, no price is kept."""
    return explore(flow, messages, invariants=[newest_is_kept], for_good=False, **{**SINGLES, **about})


@pytest.mark.slow("explores flows")
@pytest.mark.parametrize("batch", [1, 3])
def test_records_of_one_time_in_a_shard_end_with_the_newest_whatever_happens(batch: int) -> None:
    report = explored(KeepPrices, [kinesis(place, place) for place in (1, 2, 3)], batch=batch)
    assert report.ok, str(report)


@pytest.mark.slow("explores flows")
def test_changes_of_one_second_end_with_the_newest_whatever_happens() -> None:
    report = explored(KeepChanges, [changed(place, place) for place in (1, 2, 3)])
    assert report.ok, str(report)


class KeepBehind(Stage[Change], name="keep-behind", retry=RetryPolicy(attempts=1)):
    """Takes milk only behind tea, as no two items of a table come."""

    def handle(self, change: Change, step: Step) -> Outcome:
        client = boto3.client("dynamodb")
        tea = client.get_item(TableName="prices", Key={"sku": {"S": "tea"}}, ConsistentRead=True)
        if change.keys.sku == "milk" and "Item" not in tea:
            raise LookupError("no tea yet")
        client.put_item(TableName="prices", Item={"sku": {"S": change.keys.sku}})
        return Done()


class KeepBehinds(Flow, name="keep-behinds", object_id="keys.sku", streams=(TableStream("shop"),)):
    stages = (KeepBehind,)


@pytest.mark.slow("explores flows")
def test_changes_of_two_items_come_in_any_order_and_those_of_one_in_theirs() -> None:
    two = explore(KeepBehinds, [changed(1, 1), changed(2, 2, "milk")], for_good=False, **SINGLES)
    assert "2 undisturbed orders" in str(two)
    assert "2 different ends" in str(two)
    same = explore(KeepBehinds, [changed(1, 1), changed(2, 2)], for_good=False, **SINGLES)
    assert "1 undisturbed orders" in str(same)


def test_a_batch_has_changes_of_several_items_each_in_their_order() -> None:
    messages = [changed(1, 1), changed(2, 2, "milk"), changed(3, 3)]
    trace = str(replay(KeepChanges, messages, "none", tables={"prices": "sku"}, batch=3))
    assert ["  w1  " in line for line in trace.splitlines() if "keep-change, hop 1" in line] == [True] * 3, trace


class KeepUnasked(Stage[Price], name="keep-unasked", retry=SOON):
    """Writes beside the commit, with no condition: an older record that comes once more takes the price back."""

    inbox = Queue("keep-unasked")

    def handle(self, price: Price, step: Step) -> Outcome:
        boto3.client("dynamodb").put_item(
            TableName="prices", Item={"sku": {"S": price.sku}, "price": {"N": str(price.price)}}
        )
        return Done()


class KeepUnaskedPrices(Flow, name="keep-unasked-prices", object_id="sku", streams=(KinesisStream("prices"),)):
    stages = (KeepUnasked,)


@pytest.mark.slow("explores flows")
def test_a_held_worker_that_writes_unasked_takes_a_price_back() -> None:
    report = explored(KeepUnaskedPrices, [kinesis(place, place) for place in (2, 3)])
    assert not report.ok
    assert "put_item" in str(report)


def test_what_is_refused_for_good_is_given_up_for_its_age_and_what_is_behind_it_goes_on() -> None:
    trace = str(replay(KeepPrices, [kinesis(1, 1), kinesis(2, 2, sku="milk")], "f1", tables={"prices": "sku"}))
    received = [line.split() for line in trace.splitlines() if "keep, hop 1" in line]
    behind = next(place for place, words in enumerate(received) if place and "receive" not in words)
    assert received[behind - 1][received[behind - 1].index("receive") + 1] == "21"
    assert "receive 22" not in trace, "its mapping gives it up once it would be older than 12 hours"
    assert float(received[behind][0]) < 12 * 60 * 60


@pytest.mark.slow("explores flows")
def test_records_are_sound_where_something_is_refused_for_good() -> None:
    messages = [kinesis(1, 1), kinesis(2, 2, sku="milk")]
    report = explore(KeepPrices, messages, **SINGLES)
    assert report.ok, str(report)


def told(schedule: str, messages: list[Any], **about: Any) -> list[str]:
    """Return which records were delivered, in their order, by the lines of the report."""
    trace = replay(KeepPrices, messages, schedule, tables={"prices": "sku"}, **about)
    assert trace.ok, str(trace)
    return [words[1] for line in str(trace).splitlines() if "keep, hop 1" in line and (words := line.split("  w"))]


def test_a_record_whose_worker_dies_holds_up_those_behind_it() -> None:
    messages = [kinesis(1, 1), kinesis(2, 2, sku="milk")]
    assert [line[0] for line in told("d2", messages)] == ["1", "2", "3"]
    trace = str(replay(KeepPrices, messages, "d2", tables={"prices": "sku"}))
    assert trace.index("receive 2") < trace.index("30.020 s  w3  keep, hop 1"), trace


def test_a_batch_comes_again_from_the_record_that_failed_on() -> None:
    messages = [kinesis(place, place, sku=f"s{place}") for place in (1, 2, 3)]
    trace = str(replay(KeepPrices, messages, "e3", tables={"prices": "sku"}, batch=3))
    assert trace.count("receive 2") == 2, trace


def envelopes(count: int) -> list[Any]:
    records = [record for place in range(1, count + 1) for record in read_recording(kinesis(place, place))]
    return [record.envelope for record in records if not isinstance(record, BadRecord)]


def test_a_checkpoint_is_before_the_first_record_that_is_named() -> None:
    records = envelopes(3)
    names = [record.message_id for record in records]
    assert [delivered_again(records, listed) for listed in ([], names[2:], names[1:], [names[2], names[0]])] == [
        3,
        2,
        1,
        0,
    ]
    assert delivered_again(records, ["no such number"]) == 0


def test_two_shards_do_not_wait_for_each_other() -> None:
    (first,), (second,) = (
        envelopes(1),
        [
            record.envelope
            for record in read_recording(
                kinesis_event("prices", Price(sku="tea", price=1), shard="shardId-000000000001")
            )
            if not isinstance(record, BadRecord)
        ],
    )
    assert shard_of(first) != shard_of(second)


def test_a_process_that_is_killed_forgets_what_it_has_sent() -> None:
    """Its record comes to another one, which sends once more under the same id."""
    sends = "SendMessageBatch prices-announced"
    for schedule, times in (("none", 1), ("x1", 1), ("a5", 2)):
        trace = replay(AnnouncePrices, [kinesis(1, 3)], schedule, answers={"approved": True})
        assert sum(sends in line for line in trace.timeline) == times, (schedule, trace.timeline)
