"""After how many seconds a record is seen again that stays in its queue."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flowguard.errors import Retry
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.wire.message import Message
from tests.scene import OrderState, Scene, record
from tests.worker.runtime.mishaps import boom, refuses


def pauses(at: Scene, message: Message) -> list[int]:
    """The seconds after which SQS is asked to show the record again."""
    asked: list[int] = []

    def note(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "ChangeMessageVisibilityBatch":
            return proceed()
        asked.extend(entry["VisibilityTimeout"] for entry in call.params["Entries"])
        return {"Successful": [], "Failed": []}

    with intercept(note):
        assert at.deliver(message) == [False]
    return asked


@pytest.mark.parametrize(("receives", "shortest", "longest"), [(1, 5, 10), (10, 26, 52), (30, 989, 1978)])
def test_a_record_whose_message_its_queue_throttles_comes_again_after_a_pause_that_grows(
    at: Scene, receives: int, shortest: int, longest: int
) -> None:
    at.receives = receives
    with intercept(refuses("emails", "RequestThrottled", 400)):
        [pause] = pauses(at, at.message())
    assert shortest <= pause <= longest


def test_one_whose_message_its_queue_denies_comes_again_in_minutes_for_a_deployment_may_allow_it(at: Scene) -> None:
    with intercept(refuses("emails")):
        [pause] = pauses(at, at.message())
    assert 100 <= pause <= 200


def test_so_does_one_whose_retry_is_denied(at: Scene) -> None:
    at.script.pricing = boom
    with intercept(refuses("price-order")):
        [pause] = pauses(at, at.message())
    assert 100 <= pause <= 200


def test_so_does_one_that_takes_a_run_over_whose_message_is_denied(at: Scene) -> None:
    with intercept(refuses("emails")):
        at.deliver(at.message())
        [pause] = pauses(at, at.newer())
    assert 100 <= pause <= 200


def test_one_that_takes_a_run_over_whose_message_is_throttled_comes_again_soon(at: Scene) -> None:
    with intercept(refuses("emails", "RequestThrottled", 400)):
        at.deliver(at.message())
        [pause] = pauses(at, at.newer())
    assert 5 <= pause <= 10


def test_a_hop_that_comes_before_its_time_comes_again_after_a_pause(at: Scene) -> None:
    at.deliver(at.message())
    [pause] = pauses(at, at.second(hop=3))
    assert 5 <= pause <= 10


@pytest.mark.parametrize(
    ("seconds", "queue", "is_noted"),
    [
        (30, "price-order", False),
        (31, "price-order", True),
        (0, "price-order.fifo", True),
        (60, "price-order.fifo", True),
    ],
)
def test_a_rest_that_outlasts_the_lease_is_noted_and_any_that_is_written_in_any_case(
    at: Scene, seconds: int, is_noted: bool, queue: str
) -> None:
    def rest(step: Step[OrderState]) -> None:
        raise Retry(after=timedelta(seconds=seconds))

    at.script.pricing = rest
    came = record(at.message())
    with intercept(Recorder()) as calls:
        at.handler({"Records": [{**came, "eventSourceARN": came["eventSourceARN"].replace("price-order", queue)}]})
    item = at.item()
    assert item is not None
    assert (item.back_off is not None) is is_noted
    assert calls.count("dynamodb") == (2 if is_noted else 1), "the claim, and the note or the release"


def test_a_record_rests_once_its_attempt_is_counted(at: Scene) -> None:
    """Where the count fails the record comes again as soon as it would have."""
    at.script.pricing = boom
    came = record(at.message())
    operations: list[str] = []

    def note(call: ApiCall, proceed: Proceed) -> Response:
        operations.append(call.operation)
        return proceed()

    with intercept(note):
        at.handler({"Records": [{**came, "eventSourceARN": came["eventSourceARN"].replace("price-order", "p.fifo")}]})
    assert operations[-2:] == ["UpdateItem", "GetQueueUrl"], "there is no such queue to let it rest in"
