"""Each code of AWS's refusals at each call: what is final ends by name, what passes costs nothing, and denials wait."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.faults import FINAL, FOR_MINUTES
from flowguard.events import EventType
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.scene import Scene
from tests.worker.runtime.mishaps import boom

pytestmark = pytest.mark.usefixtures("denied_for_minutes")

PASSING = (
    "ACodeThatNobodyHasSeen",
    "ExpiredTokenException",
    "LimitExceededException",
    "OverLimit",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestThrottled",
    "ResourceConflictException",
    "ServiceQuotaExceededException",
    "TransactionInProgressException",
)
RUN_TABLE, COMMIT, SIDE, NEXT, RETRY = "claim", "commit", "emails", "close-order", "price-order"


def refuses(where: str, code: str, status: int = 400) -> Any:
    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        to = str(call.params.get("QueueUrl", "")).rpartition("/")[2] if call.operation == "SendMessageBatch" else ""
        claims = "if_not_exists" in str(call.params.get("UpdateExpression", ""))
        if (where in (SIDE, NEXT, RETRY) and to == where) or {
            RUN_TABLE: claims,
            COMMIT: call.operation == "TransactWriteItems",
        }.get(where, False):
            response: Any = {
                "Error": {"Code": code, "Message": "no"},
                "ResponseMetadata": {"HTTPStatusCode": status},
            }
            raise ClientError(response, call.operation)
        return proceed()

    return interceptor


def status(at: Scene) -> Status | None:
    item = at.item()
    return None if item is None else item.status


@pytest.mark.parametrize("where", [RUN_TABLE, COMMIT, SIDE, NEXT, RETRY])
@pytest.mark.parametrize("code", [*PASSING, *sorted(FOR_MINUTES)])
def test_what_passes_costs_nothing_wherever_it_is_said(at: Scene, where: str, code: str) -> None:
    at.script.pricing = boom if where == RETRY else lambda step: None
    with intercept(refuses(where, code)):
        for _ in range(4):
            assert at.deliver(at.message()) == [False]
            at.clock.advance(seconds=31)
    at.script.pricing = lambda step: None
    assert at.deliver(at.message()) == [True]
    assert (at.priced(), at.told(EventType.FAILED), at.told(EventType.PARKED), at.sent("dead")) == (1, 0, 0, [])
    assert len(at.sent("emails")) == 1 or where == NEXT
    assert len(at.sent("close-order")) == 1


@pytest.mark.parametrize("code", sorted(FINAL | FOR_MINUTES))
@pytest.mark.parametrize("where", [SIDE, NEXT])
def test_a_message_that_is_refused_for_good_is_parked_denials_after_minutes(at: Scene, where: str, code: str) -> None:
    at.receives = 12 if code in FOR_MINUTES else 1
    with intercept(refuses(where, code)):
        assert at.deliver(at.message()) == [True]
    assert (at.told(EventType.PARKED), len(at.sent("dead")), at.priced()) == (1, 1, 1)


@pytest.mark.parametrize("code", sorted(FINAL | FOR_MINUTES))
@pytest.mark.parametrize("where", [COMMIT, RETRY])
def test_a_write_or_a_retry_that_is_refused_for_good_ends_the_run(at: Scene, where: str, code: str) -> None:
    at.receives = 12 if code in FOR_MINUTES else 1
    at.script.pricing = boom if where == RETRY else lambda step: None
    with intercept(refuses(where, code)):
        assert at.deliver(at.message()) == [True]
    assert (status(at), len(at.sent("dead")), at.priced()) == (Status.FAILED, 1, 0)


@pytest.mark.parametrize("code", sorted(FINAL | FOR_MINUTES))
def test_a_run_table_that_refuses_ends_no_run(at: Scene, code: str) -> None:
    at.receives = 99
    with intercept(refuses(RUN_TABLE, code)):
        assert at.deliver(at.message()) == [False]
    assert (at.item(), at.sent("dead")) == (None, [])


def test_a_record_that_went_back_a_day_after_it_was_sent_waits_twice(at: Scene) -> None:
    since = at.clock.now() - 86_400_000
    with intercept(refuses(SIDE, "AccessDenied")):
        for receives, is_acked in ((1, False), (2, False), (3, True)):
            at.receives = receives
            assert at.deliver(at.message(since=since)) == [is_acked]
            at.clock.advance(seconds=31)
    assert at.told(EventType.PARKED) == 1
