"""A message of SNS: through a queue, as raw delivery, or in a call of the function."""

from __future__ import annotations

import json

import pytest

from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Source
from tests.make_records import EVERY_TYPE, TOPIC_ARN, only, sns_notification, sqs_record


@pytest.mark.parametrize("indent", [None, 2])
def test_a_message_through_sns_stays_as_it_is(indent: int | None) -> None:
    record = sqs_record(json.dumps(sns_notification("tea", EVERY_TYPE, Subject="Cart"), indent=indent))
    envelope = only({"Records": [record]})
    assert envelope.record is record
    assert envelope.source is Source.SNS_SQS
    assert (envelope.message, envelope.attributes, envelope.subject) == ("tea", EVERY_TYPE, "Cart")
    assert (envelope.sns_message_id, envelope.topic_arn) == ("n-1", TOPIC_ARN)
    assert envelope.published_at == 1767323045601


def test_raw_delivery_reads_as_a_direct_message() -> None:
    envelope = only(sqs_record("tea", {"tags": Attribute.array(["gift"])}))
    assert envelope.source is Source.SQS
    assert envelope.attributes == {"tags": Attribute("String.Array", '["gift"]')}


def test_a_function_that_sns_calls_itself_gets_the_same_shape() -> None:
    sns = sns_notification("tea", EVERY_TYPE, Subject=None)
    envelope = only({"Records": [{"EventSource": "aws:sns", "EventSubscriptionArn": f"{TOPIC_ARN}:s", "Sns": sns}]})
    assert envelope.source is Source.SNS_LAMBDA
    assert (envelope.message, envelope.attributes, envelope.subject) == ("tea", EVERY_TYPE, None)
    assert (envelope.message_id, envelope.sns_message_id) == ("n-1", "n-1")
    assert json.loads(envelope.record["body"]) == sns
    again = only(envelope.record)
    assert (again.record, again.source) == (envelope.record, Source.SNS_LAMBDA)
