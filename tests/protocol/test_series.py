"""When a request asks again at a later time, decision by decision."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import Refused, RunItem
from flowguard.protocol.series import later_in_series
from flowguard.verdicts import Verdict
from flowguard.wire.message import Message
from tests.protocol.run_items import run_item

SERIES = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders:shardId-0"
NEXT, LAST = RequestId(f"{SERIES};place=001.2"), RequestId(f"{SERIES};place=001.1")


def item(request_id: RequestId, requested_at: int = 500, hop: int = 1, **more: Any) -> RunItem:
    return run_item(request_id=request_id, requested_at=requested_at, hop=hop, **more)


def message(request_id: RequestId = NEXT, requested_at: int = 500, hop: int = 1) -> Message:
    return Message("flow", "stage-1", 1, ObjectId("object"), request_id, requested_at, "{}", hop=hop)


def asked_again(verdict: Verdict, stored: RunItem | None, asking: Message) -> int | None:
    again = later_in_series(asking, Refused(verdict, stored))
    assert again is None or again == asking._replace(requested_at=again.requested_at)
    return None if again is None else again.requested_at


def test_what_is_newer_by_its_place_asks_right_behind_what_is_there() -> None:
    assert asked_again(Verdict.STALE, item(LAST), message()) == 501
    assert asked_again(Verdict.STALE, item(LAST), message(requested_at=499)) == 501


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.STALE])
def test_no_other_verdict_is_asked_again(verdict: Verdict) -> None:
    assert asked_again(verdict, item(LAST), message()) is None


def test_a_copy_gets_the_time_that_its_request_was_given() -> None:
    assert asked_again(Verdict.DUPLICATE, item(NEXT, 501), message()) == 501


@pytest.mark.parametrize(
    ("stored", "asking"),
    [
        (item(NEXT), message()),  # of the same time: it would be asked again for ever
        (item(NEXT, 499), message()),
        (item(NEXT, 501, hop=2), message()),  # the run has gone on
        (item(LAST, 501), message()),  # another request
        (item(RequestId("m"), 501), message(RequestId("m"))),  # its sender says which of its times counts
        (None, message()),
    ],
)
def test_any_other_duplicate_is_one(stored: RunItem | None, asking: Message) -> None:
    assert asked_again(Verdict.DUPLICATE, stored, asking) is None


def test_so_does_a_letter_that_is_sent_back_to_what_has_ended() -> None:
    sent_back = message()._replace(redrive=1)
    assert asked_again(Verdict.DONE, item(NEXT, 501), sent_back) == 501
    assert asked_again(Verdict.DONE, item(NEXT, 501), message()) is None, "a copy costs one call"
    assert asked_again(Verdict.DONE, item(NEXT, 501, redrive=1), sent_back) is None
    assert asked_again(Verdict.DONE, item(NEXT, 500), sent_back) is None, "else for ever"
