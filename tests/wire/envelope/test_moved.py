"""A record that SQS moved: it belongs to the queue before, and what its body says of a queue is no source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.wire.notification import new_notification, to_json
from tests.make_records import EVERY_TYPE, QUEUE_ARN, only, sqs_record

BEFORE = "arn:aws:sqs:eu-west-1:123456789012:price-order"
FORGED = "arn:aws:sqs:eu-west-1:123456789012:answers"


def moved(body: str = "tea", source: object = BEFORE, **changes: Any) -> dict[str, Any]:
    record = sqs_record(body, **changes)
    return {**record, "attributes": {**record["attributes"], "DeadLetterQueueSourceArn": source}}


def ours(arn: str) -> str:
    return to_json(new_notification("tea", message_id="m-0", arn=arn, sent_at=5, attributes=EVERY_TYPE))


def test_it_came_through_the_queue_that_sqs_moved_it_from() -> None:
    assert only(moved()).came_through == "price-order"
    assert only(sqs_record("tea")).came_through == QUEUE_ARN.rpartition(":")[2]


@pytest.mark.parametrize("source", ["price-order", "arn:aws:sns:eu-west-1:123456789012:price-order", None, 5])
def test_what_names_no_queue_is_no_source(source: object) -> None:
    assert only(moved(source=source)).came_through == QUEUE_ARN.rpartition(":")[2]


def test_a_notification_of_ours_that_was_moved_names_the_queue_that_sqs_says_and_keeps_all_else() -> None:
    sent = moved(ours(FORGED), aFieldOfNextYear={"x": 1})
    envelope = only(sent)
    assert envelope.came_through == "price-order"
    assert json.loads(envelope.record["body"]) == {**json.loads(sent["body"]), "TopicArn": BEFORE}
    assert {**envelope.record, "body": ""} == {**sent, "body": ""}


def test_one_that_was_not_moved_or_names_that_queue_already_stays_as_it_is() -> None:
    for record in (sqs_record(ours(FORGED)), moved(ours(BEFORE))):
        assert only(record).record == record


def test_only_sqs_says_that_it_moved_a_record() -> None:
    invocation = {**moved(), "eventSource": "aws:lambda", "eventSourceARN": None}
    assert only(invocation).came_through is None
