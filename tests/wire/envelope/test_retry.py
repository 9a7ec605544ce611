"""A message that flowguard sends once more: the original, with attributes beside it."""

from __future__ import annotations

import json

import pytest

from flowguard.errors import EnvelopeError
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Source, resend
from tests.make_records import EVERY_TYPE, only, sns_notification, sqs_record
from tests.wire.envelope.resent import RETRIED, received


def test_a_retry_is_the_untouched_original_with_extras_beside_it() -> None:
    first = only(sqs_record("tea", EVERY_TYPE))
    retry = only(received(resend(first, RETRIED)))
    assert (retry.message, retry.attributes) == ("tea", EVERY_TYPE | RETRIED)
    assert retry.extras() == RETRIED
    assert retry.record["body"] == first.record["body"]
    assert (retry.message_id, retry.source, retry.sns_message_id) == ("m-2", Source.SQS, None)


def test_a_retry_of_a_message_of_sns_keeps_its_very_text() -> None:
    body = json.dumps(sns_notification("tea", EVERY_TYPE), indent=2)
    retry = only(received(resend(only(sqs_record(body)), RETRIED)))
    assert retry.record["body"] == body
    assert (retry.sns_message_id, retry.published_at) == ("n-1", 1767323045601)


def test_an_extra_wins_over_the_senders_attribute_of_that_name() -> None:
    first = only(sqs_record("tea", {"retry": Attribute.string("never"), "shop": Attribute.string("berlin")}))
    retry = only(received(resend(first, RETRIED)))
    assert retry.attributes == RETRIED | {"shop": Attribute.string("berlin")}


def test_extras_of_earlier_retries_stay_unless_said_anew() -> None:
    second = only(received(resend(only(sqs_record("tea")), RETRIED)))
    assert resend(second, {"retry": Attribute.number(2)})[1] == RETRIED | {"retry": Attribute.number(2)}


def test_as_many_extras_as_sqs_takes_go_along() -> None:
    first = only(sqs_record("tea"))
    extras = {f"extra-{number}": Attribute.number(number) for number in range(10)}
    assert resend(first, extras)[1] == extras


def test_more_extras_than_sqs_takes_are_refused_by_name() -> None:
    extras = {f"extra-{number}": Attribute.number(number) for number in range(9)}
    retry = only(received(resend(only(sqs_record("tea")), RETRIED)))
    with pytest.raises(EnvelopeError, match=r"m-2: messageAttributes: SQS takes 10, .* 11: uniquerequestid, .*extra-8"):
        resend(retry, extras)
