"""Copies of a message whose attempt has failed: one chain of retries is left."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from flowguard.errors import Retry
from flowguard.events import EventType
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from tests.scene import OrderState, Scene, record

LEASE = 30
"""Seconds that a claim holds where no Lambda says how long it has."""
FOUR_MINUTES = SimpleNamespace(get_remaining_time_in_millis=lambda: 240_000)


def rests(seconds: int, at: Scene) -> None:
    def rest(step: Step[OrderState]) -> None:
        raise Retry("the bank is closed", after=timedelta(seconds=seconds))

    at.script.pricing = rest


def retries(at: Scene) -> int:
    return at.told(EventType.RETRIED)


@pytest.mark.parametrize("seconds", [LEASE + 2, 60, 900])
def test_a_copy_that_comes_while_its_hop_rests_begins_no_second_chain_of_retries(at: Scene, seconds: int) -> None:
    rests(seconds, at)
    first = at.message()
    for attempt in (0, 1):
        message = first._replace(retry=attempt)
        assert at.deliver(message) == [True]
        at.clock.advance(seconds=LEASE + 1)
        assert at.deliver(message) == [True]
        assert (retries(at), at.told(EventType.DUPLICATE)) == (attempt + 1, attempt + 1)
        at.clock.advance(seconds=seconds - LEASE - 1)
    at.script.pricing = lambda step: None
    assert at.deliver(first._replace(retry=2)) == [True]
    assert [attempt for *_, attempt in at.script.handled] == [1, 2, 3]
    assert at.priced() == 1


def test_a_copy_that_comes_during_a_rest_that_its_lease_outlasts_is_kept_away_without_a_write(at: Scene) -> None:
    rests(20, at)
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["UpdateItem"], "the claim"
    at.clock.advance(seconds=19)
    assert at.deliver(at.message()) == [False]
    assert (retries(at), at.told(EventType.BUSY)) == (1, 1)
    at.clock.advance(seconds=1)
    at.script.pricing = lambda step: None
    assert at.deliver(at.message(retry=1)) == [True]
    at.clock.advance(seconds=11)
    assert at.deliver(at.message()) == [True]
    assert (retries(at), at.told(EventType.DONE), at.priced()) == (1, 1, 1)


def test_a_rest_within_a_long_lease_is_noted_from_a_minute_on(at: Scene) -> None:
    for seconds, calls in ((59, 1), (60, 2)):
        rests(seconds, at)
        at.deliver(at.order(f"o{seconds}"), context=FOUR_MINUTES)
        assert len(at.calls) == calls


def test_copies_of_an_attempt_that_failed_are_no_workers_that_were_killed(at: Scene) -> None:
    """Six of them would have ended the run."""
    rests(900, at)
    for _ in range(7):
        assert at.deliver(at.message()) == [True]
        at.clock.advance(seconds=LEASE + 1)
    item = at.item()
    assert item is not None
    assert (item.status, len(at.script.handled), retries(at)) == (Status.RUNNING, 1, 1)


def test_where_the_attempt_cannot_be_counted_its_retry_is_claimed_all_the_same(at: Scene) -> None:
    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if ":back_off" in call.params.get("ExpressionAttributeValues", {}):
            raise ConnectionError
        return proceed()

    rests(900, at)
    with intercept(refuse):
        assert at.deliver(at.message()) == [True]
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=900)
    assert at.deliver(at.message(retry=1)) == [True]
    assert at.priced() == 1


def test_the_retry_of_a_first_hop_has_the_text_that_its_item_knows(at: Scene) -> None:
    """What was sent is what the claim of the counted attempt compares."""
    rests(900, at)
    with intercept(Recorder()) as calls:
        at.deliver(at.message(body='{"order_id": "o1"}'))
    [sent] = [call for call in calls.calls if call.operation == "SendMessageBatch"]
    [entry] = sent.params["Entries"]
    at.clock.advance(seconds=900)
    at.script.pricing = lambda step: None
    came = {"messageAttributes": as_records(entry["MessageAttributes"]), "body": entry["MessageBody"]}
    at.handler({"Records": [record(at.message(retry=1)) | came]})
    assert (at.priced(), at.told(EventType.DUPLICATE)) == (1, 0)


def as_records(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes that were sent, as Lambda brings them."""
    return {
        name: {"dataType": value["DataType"], "stringValue": value["StringValue"]} for name, value in attributes.items()
    }
