"""The state that a run left: handed to the first stage of the next, until that has committed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.errors import Reject
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.step import Step
from tests.scene import OrderState, Scene, scene
from tests.worker.runtime.mishaps import Died, boom, die

Seen = list[OrderState | None]


def watching(at: Scene) -> Seen:
    """Note what each call of the first stage is handed."""
    seen: Seen = []
    at.script.pricing = lambda step: seen.append(step.superseded)
    return seen


def test_the_first_run_of_an_object_has_none(at: Scene) -> None:
    seen = watching(at)
    at.deliver(at.message())
    assert seen == [None]


def test_a_run_that_takes_over_is_handed_what_the_old_run_committed_in_the_same_two_calls(at: Scene) -> None:
    seen = watching(at)
    at.deliver(at.message())
    at.deliver(at.newer())
    assert seen == [None, OrderState(total=7)]
    assert at.calls == ["UpdateItem", "TransactWriteItems"]


def test_its_own_state_begins_anew(at: Scene) -> None:
    states: list[int] = []
    at.script.pricing = lambda step: states.append(step.state.total)
    at.deliver(at.message())
    at.deliver(at.newer())
    assert states == [0, 0]


def test_an_attempt_that_dies_loses_nothing_of_it(at: Scene) -> None:
    at.deliver(at.message())
    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.newer())
    at.clock.advance(seconds=31)
    seen = watching(at)
    at.deliver(at.newer())
    assert seen == [OrderState(total=7)]


def test_a_third_run_is_handed_the_state_of_the_last_that_committed(at: Scene) -> None:
    at.deliver(at.message())
    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.newer())
    seen = watching(at)
    at.deliver(at.newer(request_id=RequestId("run-3"), requested_at=at.clock.now()))
    assert seen == [OrderState(total=7)]


def test_the_state_of_a_run_that_had_ended_is_handed_over_too(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    seen = watching(at)
    at.deliver(at.newer())
    assert seen == [OrderState(total=7)]


def test_later_hops_have_none_and_their_own_state(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.newer())
    seen: Seen = []
    at.script.closing = lambda step: seen.extend([step.superseded, step.state])
    at.deliver(at.second(request_id=at.newer().request_id, requested_at=at.newer().requested_at))
    assert seen == [None, OrderState(total=7)]


def test_a_run_that_fails_at_its_first_stage_leaves_it_for_its_redrive(at: Scene) -> None:
    def rejects(step: Step[OrderState]) -> None:
        raise Reject("sold out")

    at.deliver(at.message())
    at.script.pricing = rejects
    at.deliver(at.newer())
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    seen = watching(at)
    at.deliver(at.newer(redrive=1))
    assert seen == [OrderState(total=7)]


def test_a_retry_has_it_too(at: Scene) -> None:
    at.deliver(at.message())
    at.script.pricing = boom
    at.deliver(at.newer())
    seen = watching(at)
    at.deliver(at.newer(retry=1))
    assert seen == [OrderState(total=7)]


def spoil(at: Scene, state: Any) -> None:
    at.aws.client("dynamodb").update_item(
        TableName="flowguard",
        Key={"pk": {"S": "run#orders#o1"}, "sk": {"S": "run"}},
        UpdateExpression="SET #s = :s",
        ExpressionAttributeNames={"#s": "state"},
        ExpressionAttributeValues={":s": state},
    )


GONE = {"M": {"bucket": {"S": "texts"}, "key": {"S": "gone"}}}


@pytest.mark.usefixtures("denied_for_minutes")
def test_a_state_of_another_release_parks_the_message_of_the_stage_that_asks_for_it() -> None:
    with scene() as at:
        at.deliver(at.message())
        spoil(at, {"S": '{"total":"secret"}'})
        watching(at)
        at.receives = 3
        newer = at.newer()
        assert at.deliver(newer) == [True]
        [letter] = at.sent("dead")
        [kind, text, _] = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])["error"]
        assert (kind, "the state of the run before is no OrderState: total" in text) == ("OtherRelease", True)
        assert ("secret" in text, at.told(EventType.FAILED), at.told(EventType.PARKED)) == (False, 0, 1)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (GONE, "the text at s3://texts/gone is gone"),
    ],
)
def test_a_state_that_cannot_be_read_is_an_error_of_the_stage_that_asks_for_it(state: Any, error: str) -> None:
    """It lies in S3 if it is long, and is not read where nobody asks."""
    with scene(settings=Settings(bucket="texts")) as at:
        at.aws.client("s3").create_bucket(Bucket="texts")
        at.deliver(at.message())
        spoil(at, state)
        at.deliver(at.newer())
        assert (at.priced(), at.told(EventType.FAILED)) == (2, 0)
        spoil(at, state)
        watching(at)
        at.deliver(at.newer(request_id=RequestId("run-3"), requested_at=at.clock.now()))
        item = at.item()
        assert item is not None
        assert error in str(item.error)
        assert "secret" not in str(item.error)
