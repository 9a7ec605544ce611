from __future__ import annotations

import pickle
from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from flowguard.errors import EnvelopeError
from flowguard.wire.attributes import Attribute, attributes_to, read_attributes
from tests.make_records import EVERY_TYPE, any_attribute


@pytest.mark.parametrize(
    ("made", "kind", "value"),
    [
        (Attribute.string("tea ☕"), "String", "tea ☕"),
        (Attribute.number(5), "Number", "5"),
        (Attribute.number(-2.5), "Number", "-2.5"),
        (Attribute.number(1e-9), "Number", "1e-09"),
        (Attribute.number(Decimal("42.50")), "Number", "42.50"),
        (Attribute.binary(b"\x00\xff"), "Binary", "AP8="),
        (Attribute.array(["ä", 1, True, None]), "String.Array", '["ä", 1, true, null]'),
    ],
)
def test_a_sender_makes_them_from_python_values(made: Attribute, kind: str, value: str) -> None:
    assert (made.type, made.value) == (kind, value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), Decimal("-Infinity")])
def test_what_is_no_number_on_the_wire_is_refused_at_once(number: float | Decimal) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        Attribute.number(number)


def test_the_data_are_the_senders_bytes() -> None:
    assert Attribute.binary(b"\x00\xff").data == b"\x00\xff"
    assert Attribute.string("ä").data == "ä".encode()


def test_it_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(EVERY_TYPE["etag"])) == EVERY_TYPE["etag"]  # noqa: S301 - made here


# -- forms -----------------------------------------------------------------------------------------------------------


def test_each_form_names_its_parts_as_aws_does() -> None:
    etag, price = Attribute("Binary.sha", "AP8="), Attribute.number(5)
    assert etag.to_sqs_api() == etag.to_sns_api() == {"DataType": "Binary.sha", "BinaryValue": b"\x00\xff"}
    assert price.to_sqs_api() == price.to_sns_api() == {"DataType": "Number", "StringValue": "5"}
    assert etag.to_notification() == {"Type": "Binary.sha", "Value": "AP8="}
    assert etag.to_sqs_record() == {
        "binaryValue": "AP8=",
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": "Binary.sha",
    }


@given(any_attribute)
def test_every_form_is_read_back_as_it_was(attribute: Attribute) -> None:
    assert Attribute.of_sqs_record(attribute.to_sqs_record(), "m-1", "here") == attribute
    assert Attribute.of_notification(attribute.to_notification(), "m-1", "here") == attribute
    assert Attribute.of_receive_message(attribute.to_sqs_api(), "m-1", "here") == attribute


def test_bytes_are_read_from_boto3_and_base64_from_what_the_aws_cli_prints() -> None:
    from_boto3 = {"DataType": "Binary", "BinaryValue": b"\x00\xff"}
    printed = {"DataType": "Binary", "BinaryValue": "AP8="}
    expected = Attribute.binary(b"\x00\xff")
    assert Attribute.of_receive_message(from_boto3, "m-1", "here") == expected
    assert Attribute.of_receive_message(printed, "m-1", "here") == expected


def test_nulls_beside_the_value_are_no_harm() -> None:
    raw = {"stringValue": "tea", "binaryValue": None, "stringListValues": None, "dataType": "String"}
    assert Attribute.of_sqs_record(raw, "m-1", "here") == Attribute.string("tea")


def test_a_map_is_written_and_read_under_the_same_names() -> None:
    written = attributes_to(Attribute.to_sqs_record, EVERY_TYPE)
    assert read_attributes(written, Attribute.of_sqs_record, "m-1", "messageAttributes") == EVERY_TYPE
    assert read_attributes(None, Attribute.of_sqs_record, "m-1", "messageAttributes") == {}


# -- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "field", "problem"),
    [
        (None, "a", "expected an object with dataType and a value, got null"),
        ("tea", "a", "expected an object with dataType and a value, got text"),
        ({"stringValue": "tea"}, "a.dataType", "missing"),
        ({"stringValue": "tea", "dataType": ""}, "a.dataType", "missing"),
        ({"stringValue": "tea", "dataType": 5}, "a.dataType", "5 is no data type"),
        ({"stringValue": "5", "dataType": "Decimal"}, "a.dataType", "'Decimal' is no data type"),
        ({"stringValue": "5", "dataType": "number"}, "a.dataType", "'number' is no data type"),
        ({"dataType": "String"}, "a.stringValue", "missing, and a String needs it"),
        ({"dataType": "String", "stringValue": 5}, "a.stringValue", "expected text, got a number"),
        ({"dataType": "String", "stringValue": b"tea"}, "a.stringValue", "expected text, got bytes"),
        ({"dataType": "Binary", "stringValue": "AP8="}, "a.binaryValue", "missing, and a Binary needs it"),
        ({"dataType": "Binary", "binaryValue": "no base64"}, "a.binaryValue", "'no base64' is not base64"),
        ({"dataType": "Binary.png", "binaryValue": "AP8"}, "a.binaryValue", "'AP8' is not base64"),
        ({"dataType": "Binary", "binaryValue": "ä==="}, "a.binaryValue", "is not base64"),
        ({"dataType": "Number", "stringValue": "cheap"}, "a.stringValue", "'cheap' is not a number"),
        ({"dataType": "Number.int", "stringValue": ""}, "a.stringValue", "'' is not a number"),
        ({"dataType": "String.Array", "stringValue": "gift"}, "a.stringValue", "'gift' is not a JSON array"),
        ({"dataType": "String.Array", "stringValue": "{}"}, "a.stringValue", "'{}' is not a JSON array"),
        ({"dataType": "String.Array", "stringValue": "[" * 100_000}, "a.stringValue", "is not a JSON array"),
    ],
)
def test_what_cannot_be_read_is_named(raw: Any, field: str, problem: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        Attribute.of_sqs_record(raw, "m-1", "a")
    assert (caught.value.record, caught.value.field) == ("m-1", field)
    assert problem in caught.value.problem


@pytest.mark.parametrize("number", ["0", "-1", "+1", "1.", ".5", "1.50", "1e5", "-1.5E-20", "9" * 38])
def test_a_number_may_be_written_in_every_way_that_sqs_takes(number: str) -> None:
    assert Attribute.of_notification({"Type": "Number", "Value": number}, "m-1", "a").value == number


@pytest.mark.parametrize("number", ["1 ", "1,5", "0x10", "NaN", "Infinity", "1e", ".", "٣", "1_000", "1\n"])
def test_a_number_is_not_whatever_python_takes_for_one(number: str) -> None:
    with pytest.raises(EnvelopeError, match="is not a number"):
        Attribute.of_notification({"Type": "Number", "Value": number}, "m-1", "a")


def test_each_form_names_its_own_fields_in_errors() -> None:
    with pytest.raises(EnvelopeError, match=r"m-1: body\.price\.Value: missing"):
        Attribute.of_notification({"Type": "Number"}, "m-1", "body.price")
    with pytest.raises(EnvelopeError, match=r"m-1: MessageAttributes\.price\.StringValue: missing"):
        Attribute.of_receive_message({"DataType": "Number"}, "m-1", "MessageAttributes.price")


def test_a_long_value_is_not_repeated_in_full() -> None:
    with pytest.raises(EnvelopeError) as caught:
        Attribute.of_notification({"Type": "Number", "Value": "x" * 10_000}, "m-1", "a")
    assert len(caught.value.problem) < 80


def test_a_long_name_is_not_repeated_in_full() -> None:
    with pytest.raises(EnvelopeError) as caught:
        read_attributes({"n" * 250_000: None}, Attribute.of_notification, "m-1", "MessageAttributes")
    assert len(caught.value.field) < 300


def test_a_map_that_is_none_is_named() -> None:
    with pytest.raises(EnvelopeError, match="messageAttributes: expected an object of attributes, got an array"):
        read_attributes([], Attribute.of_sqs_record, "m-1", "messageAttributes")


def test_large_binaries_are_read() -> None:
    raw = {"dataType": "Binary", "binaryValue": b64encode(bytes(200_000)).decode()}
    assert Attribute.of_sqs_record(raw, "m-1", "a").data == bytes(200_000)
