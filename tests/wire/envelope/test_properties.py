"""What holds for every record and every payload."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import BadRecord, Envelope, normalize, resend
from tests.make_records import (
    any_attributes,
    any_body,
    any_json,
    good_records,
    notifications,
    only,
    sqs_record,
    without,
)
from tests.wire.envelope.resent import received


@pytest.mark.slow("tries generated texts")
@given(good_records)
def test_normalising_twice_changes_nothing(record: dict[str, Any]) -> None:
    once = only(record)
    twice = only(once.record)
    assert json.dumps(twice.record) == json.dumps(once.record)
    assert (twice.message, twice.attributes, twice.source) == (once.message, once.attributes, once.source)
    assert normalize(json.loads(json.dumps({"Records": [once.record]}))) == [twice]


@given(any_json)
def test_a_payload_normalised_twice_changes_nothing(payload: object) -> None:
    once = only(payload)
    assert json.dumps(only(once.record).record) == json.dumps(once.record)


@given(any_body, any_attributes)
def test_nothing_of_a_direct_message_is_lost(body: str, attributes: dict[str, Attribute]) -> None:
    notification = json.loads(only(sqs_record(body, attributes)).record["body"])
    assert notification["Message"] == body
    assert notification["MessageAttributes"] == attributes_to(Attribute.to_notification, attributes)


@pytest.mark.slow("tries generated texts")
@given(good_records, any_attributes)
def test_a_retry_keeps_every_attribute_its_type_and_bytes(record: dict[str, Any], extras: dict[str, Attribute]) -> None:
    first = only(record)
    second = only(received(resend(first, extras)))
    assert (second.message, second.attributes) == (first.message, {**first.attributes, **extras})
    third = only(received(resend(second, {})))
    assert (third.message, third.attributes, third.extras()) == (second.message, second.attributes, second.extras())


@pytest.mark.slow("tries generated texts")
@given(st.lists(good_records | any_json, max_size=5))
def test_one_record_never_changes_another(records: list[Any]) -> None:
    anchor = sqs_record("tea")
    found = normalize({"Records": [anchor, *records]})
    assert len(found) == len(records) + 1
    for record, each in zip(records, found[1:], strict=True):
        (alone,) = normalize([anchor, record])[1:]
        assert type(each) is type(alone)
        assert not isinstance(each, Envelope) or each == alone


@pytest.mark.slow("tries generated texts")
@given(good_records)
def test_the_event_is_left_as_it_was(record: dict[str, Any]) -> None:
    before = copy.deepcopy(record)
    only(record).record["a new field"] = 1
    record.pop("a new field", None)
    assert record == before


def spoiled(value: Any) -> st.SearchStrategy[Any]:
    """The value with one part of it, at any depth, replaced by any JSON or left out."""
    if not isinstance(value, dict) or not value:
        return any_json
    return any_json | st.sampled_from(sorted(value)).flatmap(
        lambda name: spoiled(value[name]).map(lambda part: {**value, name: part}) | st.just(without(value, name))
    )


SNS_CALLS = notifications.map(lambda sns: {"EventSource": "aws:sns", "Sns": sns})
PRINTED = st.builds(
    lambda body, attributes: {
        "MessageId": "m-1",
        "ReceiptHandle": "h",
        "Body": body,
        "MessageAttributes": attributes_to(Attribute.to_sqs_api, attributes),
    },
    any_body,
    any_attributes,
)
SPOILED = st.one_of(
    (good_records | SNS_CALLS | PRINTED).flatmap(spoiled),
    notifications.flatmap(spoiled).map(json.dumps).map(sqs_record),
    notifications.flatmap(spoiled),
)


@pytest.mark.slow("tries generated texts")
@given(SPOILED)
def test_whatever_is_spoiled_is_an_envelope_or_a_bad_record(event: Any) -> None:
    for each in (*normalize(event), *normalize({"Records": [sqs_record("tea"), event]})):
        if isinstance(each, BadRecord):
            assert str(each.error)
        else:
            assert only(each.record).record == each.record
            assert readable(each)


def readable(envelope: Envelope) -> list[Any]:
    names = [name for name, value in vars(Envelope).items() if isinstance(value, property)]
    return [envelope.extras(), *(getattr(envelope, name) for name in names)]


@given(st.text('{}[]":,\\ TopicArnNotification', max_size=60).map(lambda text: f'{{"TopicArn"{text}'))
def test_text_that_is_almost_json_is_never_a_crash(body: str) -> None:
    assert len(normalize({"Records": [sqs_record(body)]})) == 1
