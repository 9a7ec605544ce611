from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.errors import EnvelopeError
from flowguard.wire.notification import (
    LAST_MOMENT,
    UNKNOWN_FUNCTION,
    UNKNOWN_QUEUE,
    arn_service,
    check_notification,
    find_notification,
    from_timestamp,
    is_ours,
    new_notification,
    to_json,
    to_timestamp,
)
from tests.make_records import EVERY_TYPE, FUNCTION_ARN, QUEUE_ARN, TOPIC_ARN, sns_notification, without

WHOLE = sns_notification("two packs of tea", EVERY_TYPE)


@pytest.mark.parametrize("indent", [None, 2])
def test_one_of_sns_is_found_in_whatever_layout(indent: int | None) -> None:
    assert find_notification(f"\n {json.dumps(WHOLE, indent=indent)} \n", "m-1") == WHOLE


def test_one_without_attributes_and_signature_is_whole() -> None:
    least = without(WHOLE, "MessageAttributes", "Signature", "SignatureVersion", "SigningCertURL", "UnsubscribeURL")
    assert find_notification(json.dumps(least), "m-1") == least


@pytest.mark.parametrize("arn", [QUEUE_ARN, FUNCTION_ARN, UNKNOWN_QUEUE, UNKNOWN_FUNCTION])
def test_one_of_ours_is_found_and_known_as_ours(arn: str) -> None:
    ours = new_notification("tea", message_id="m-1", arn=arn, sent_at=1767323045678, attributes=EVERY_TYPE)
    assert find_notification(to_json(ours), "m-1") == ours
    assert is_ours(ours)
    assert not is_ours(WHOLE)


@pytest.mark.parametrize("certificate", ["SigningCertURL", "SigningCertUrl"])
def test_one_that_is_signed_and_says_no_type_is_broken_and_not_none(certificate: str) -> None:
    signed = without(WHOLE, "Type", "SigningCertURL") | {certificate: "https://sns.eu-west-1.amazonaws.com/x.pem"}
    with pytest.raises(EnvelopeError, match=r"body\.Type: missing"):
        find_notification(json.dumps(signed), "m-1")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        (["Notification"], "Sns: expected a notification"),
        (WHOLE | {"Type": "Reminder"}, r"Sns\.Type: expected Notification"),
        (WHOLE | {"TopicArn": "arn:aws:s3:::carts"}, r"Sns\.TopicArn: .* is not the ARN of a topic"),
    ],
)
def test_what_an_event_of_sns_brings_is_checked_whole(fields: Any, wrong: str) -> None:
    with pytest.raises(EnvelopeError, match=wrong):
        check_notification(fields, "m-1", "Sns")


def test_a_topic_that_is_written_otherwise_than_sns_does_makes_none() -> None:
    escaped = json.dumps(WHOLE).replace('"TopicArn"', '"Topic\\u0041rn"')
    assert json.loads(escaped) == WHOLE
    assert find_notification(escaped, "m-1") is None


# -- what only looks like one ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lookalike",
    [
        {"Type": "Notification", "Message": "your cart is waiting"},
        {"Type": "Notification", "Message": "hi", "MessageId": "n-1", "Timestamp": "2026-01-02T03:04:05.678Z"},
        {"Message": "hi", "TopicArn": TOPIC_ARN, "MessageId": "n-1"},
        WHOLE | {"Type": "Reminder"},
        WHOLE | {"Type": "SubscriptionConfirmation"},
        WHOLE | {"TopicArn": "cart-events"},
        WHOLE | {"TopicArn": "arn:aws:s3:::carts"},
        WHOLE | {"TopicArn": ["arn:aws:sns:eu-west-1:123456789012:cart-events"]},
        WHOLE | {"MessageId": 5},
        [WHOLE],
        "TopicArn",
        {"cart": WHOLE},
        without(WHOLE, "Type", "Signature"),
        without(WHOLE, "Type", "SigningCertURL"),
    ],
)
def test_a_users_own_json_is_none(lookalike: Any) -> None:
    assert find_notification(json.dumps(lookalike), "m-1") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two packs of tea",
        '"TopicArn"',
        '{"TopicArn": ',
        '{"cart_id": "cart-1001", "TopicArn": "arn:aws:sns:eu-west-1:123456789012:cart-events", "lines": [',
        '{"Type": "Notification", "MessageId": "n-1", "TopicArn": "not an arn", "Mess',
        '{"Type": "Reminder", "MessageId": "n-1", "TopicArn": "arn:aws:sns:eu-west-1:123456789012:c", "Mess',
        f"see {json.dumps(WHOLE)}",
        '{"TopicArn": ' + "[" * 100_000,
    ],
)
def test_text_that_merely_looks_like_json_is_none(text: str) -> None:
    assert find_notification(text, "m-1") is None


# -- what is one, but broken -----------------------------------------------------------------------------------------


def cut_texts() -> list[str]:
    """A notification cut everywhere between the end of its TopicArn and its own end."""
    text = json.dumps(sns_notification('{"cart_id": "cart-1001"}', EVERY_TYPE, Subject='a "quoted" word'), indent=2)
    known = text.index(TOPIC_ARN) + len(TOPIC_ARN) + len('",')
    return [text[:end] for end in range(known, len(text))]


def test_one_cut_anywhere_after_its_topic_is_an_error() -> None:
    for text in cut_texts():
        with pytest.raises(EnvelopeError, match="m-1: body: begins as a notification"):
            find_notification(text, "m-1")


def test_one_of_a_fifo_topic_cut_off_is_an_error() -> None:
    fields = {"Type": "Notification", "MessageId": "n-1", "SequenceNumber": "1", "TopicArn": TOPIC_ARN + ".fifo"}
    with pytest.raises(EnvelopeError, match="begins as a notification"):
        find_notification(json.dumps(fields)[:-1] + ', "Message": "te', "m-1")


@pytest.mark.parametrize(
    ("broken", "field", "problem"),
    [
        (without(WHOLE, "Message"), "body.Message", "missing in this notification"),
        (without(WHOLE, "Timestamp"), "body.Timestamp", "missing in this notification"),
        (without(WHOLE, "Type"), "body.Type", "missing in this notification"),
        (WHOLE | {"Message": {"cart_id": "cart-1001"}}, "body.Message", "expected text, got an object"),
        (WHOLE | {"MessageId": ""}, "body.MessageId", "is empty"),
        (WHOLE | {"Timestamp": "yesterday"}, "body.Timestamp", "'yesterday' is not a time"),
        (WHOLE | {"Timestamp": "2026-01-02T03:04:05"}, "body.Timestamp", "is not a time"),
        (WHOLE | {"Subject": 5}, "body.Subject", "expected text, got a number"),
    ],
)
def test_one_that_lacks_a_part_is_an_error_that_names_it(broken: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        find_notification(json.dumps(broken), "m-1")
    assert (caught.value.record, caught.value.field) == ("m-1", field)
    assert problem in caught.value.problem


# -- its parts -------------------------------------------------------------------------------------------------------


@given(st.integers(min_value=0, max_value=LAST_MOMENT))
def test_a_time_survives_being_written(ms: int) -> None:
    assert from_timestamp(to_timestamp(ms)) == ms


def test_a_time_is_written_as_sns_writes_it() -> None:
    assert to_timestamp(1767323045678) == "2026-01-02T03:04:05.678Z"
    assert from_timestamp("2026-01-02T04:04:05.678+01:00") == 1767323045678


@pytest.mark.parametrize(
    ("arn", "service"),
    [
        (QUEUE_ARN, "sqs"),
        ("arn:aws-cn:sns:cn-north-1:123456789012:carts.fifo", "sns"),
        (FUNCTION_ARN + ":live", "lambda"),
        ("arn:aws:sqs:eu-west-1:123456789012:", None),
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/carts", None),
        ("", None),
        (None, None),
    ],
)
def test_an_arn_says_whose_it_is(arn: object, service: str | None) -> None:
    assert arn_service(arn) == service


def test_json_is_short_and_keeps_unicode_as_it_is() -> None:
    assert to_json({"note": "Müller ☕", "n": [1, 2]}) == '{"note":"Müller ☕","n":[1,2]}'


@pytest.mark.parametrize("refused", ["\ud83d", "\ufffe", "\uffff"])
def test_json_escapes_what_sqs_would_refuse(refused: str) -> None:
    text = to_json({"note": f"ä{refused}"})
    assert text.isascii()
    assert json.loads(text) == {"note": f"ä{refused}"}
