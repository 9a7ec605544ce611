"""Workers that die at any call, and answers that never come."""

from __future__ import annotations

import pytest
from botocore.exceptions import EndpointConnectionError

from flowguard.events import EventType
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.scene import Scene
from tests.worker.runtime.mishaps import Died, dies_at


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["UpdateItem", "TransactWriteItems", "SendMessageBatch"])
def test_a_worker_may_die_at_any_call_and_nothing_is_lost_or_done_twice(at: Scene, operation: str, after: bool) -> None:
    with intercept(dies_at(operation, after=after)), pytest.raises(Died):
        at.deliver(at.message())
    at.clock.advance(seconds=31)
    assert at.deliver(at.message()) == [True]
    assert at.priced() == 1
    assert {m["Body"] for m in at.sent("close-order")} == {'{"total":7}'}
    assert {m["Body"] for m in at.sent("emails")} == {'{"priced":"o1"}'}


@pytest.mark.parametrize("lost", ["UpdateItem", "TransactWriteItems", "SendMessageBatch"])
def test_a_lost_answer_never_turns_success_into_failure(at: Scene, lost: str) -> None:
    def answer_lost(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == lost:
            proceed()
        return proceed()

    with intercept(answer_lost):
        assert at.deliver(at.message()) == [True]
    assert (at.priced(), at.told(EventType.FENCED), at.told(EventType.COMMITTED)) == (1, 0, 1)


@pytest.mark.parametrize("lost", ["TransactWriteItems", "UpdateItem"])
def test_a_commit_that_was_applied_but_never_answered_is_no_failure_of_the_stage(at: Scene, lost: str) -> None:
    """Even on the last attempt, which would otherwise end the run and lose its next hop."""

    def never_answered(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == lost and "if_not_exists" not in call.params.get("UpdateExpression", ""):
            raise EndpointConnectionError(endpoint_url="https://dynamodb")
        return answer

    message = at.message(retry=2) if lost == "TransactWriteItems" else at.second(retry=4)
    if lost == "UpdateItem":
        at.deliver(at.message())
    with intercept(never_answered):
        assert at.deliver(message) == [False]
    assert at.sent("dead") == []
    assert at.deliver(message) == [True]
    assert (at.told(EventType.FAILED), at.priced()) == (0, 1)
    assert len(at.sent("close-order" if lost == "TransactWriteItems" else "completed")) == 1
