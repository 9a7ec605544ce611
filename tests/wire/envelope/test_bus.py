"""An event of EventBridge is unwrapped however it comes, and kept whole for whoever sends it again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.testing import bus_event, sns_event, sns_to_sqs_event, sqs_event
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, Source, normalize, resend, resend_alone
from flowguard.wire.message import PLACE, REQUEST_ID
from tests.make_records import only

DETAIL = {"order_id": "o1", "price": 4.20}
EVENT = bus_event(DETAIL, source="shop", detail_type="Order placed", resources=("arn:aws:s3:::bucket",))
WAYS = {
    Source.SQS: sqs_event("orders", EVENT),
    Source.SNS_SQS: sns_to_sqs_event("orders", EVENT, subject="placed"),
    Source.SNS_LAMBDA: sns_event("placed", EVENT),
    Source.INVOCATION: EVENT,
}
every_way = pytest.mark.parametrize(("source", "came"), WAYS.items(), ids=lambda value: str(value)[:10])


@every_way
def test_its_detail_is_the_message_and_the_rest_is_at_hand(source: Source, came: Any) -> None:
    found = only(came)
    assert (found.source, json.loads(found.message)) == (source, DETAIL)
    assert found.event is not None
    assert (found.event.id, found.own_id) == (EVENT["id"], EVENT["id"])
    assert (found.event.source, found.event.detail_type, found.event.time) == (
        "shop",
        "Order placed",
        1_767_225_600_000,
    )
    assert (found.event.account, found.event.region) == ("123456789012", "eu-west-1")
    assert found.event.resources == ("arn:aws:s3:::bucket",)
    assert (found.attributes, found.extras()) == ({}, {})


@every_way
def test_its_record_keeps_the_whole_event_and_normalising_again_changes_nothing(source: Source, came: Any) -> None:
    found = only(came)
    assert json.loads(json.loads(found.record["body"])["Message"]) == EVENT
    again = only(found.record)
    assert (again.record, again.message, again.event) == (found.record, found.message, found.event)


@pytest.mark.parametrize("place", ['{"retry":1,"event":true}', '{"retry":1,"\\u0065vent":true}'])
@every_way
def test_its_retry_is_unwrapped_too(source: Source, came: Any, place: str) -> None:
    first = only(came)
    extras = {REQUEST_ID: Attribute.string("r-1"), PLACE: Attribute.string(place)}
    body, attributes = resend(first, extras)
    for retry in (
        only(sqs_event("orders", body, attributes=attributes)),
        only(sqs_event("orders", resend_alone(first, extras))),
    ):
        assert (retry.message, retry.event, retry.attributes) == (first.message, first.event, extras)


@pytest.mark.parametrize("place", ['{"hop":1,"version":1}', "{}", "no json", '{"event":1}', '{"event":false}'])
def test_what_flowguard_sent_as_a_payload_stays_one(place: str) -> None:
    for came in (
        sqs_event("orders", EVENT, attributes={PLACE: place}),
        sns_to_sqs_event("orders", EVENT, attributes={PLACE: place}),
    ):
        found = only(came)
        assert (found.event, json.loads(found.message)) == (None, EVENT)


LOOKALIKES: list[dict[str, Any]] = [
    {name: value for name, value in EVENT.items() if name != "resources"},
    {**EVENT, "version": "1"},
    {**EVENT, "detail": "text"},
    {"event": EVENT},
    {"Records": [{"eventSource": "aws:s3", "s3": {"bucket": {"name": "b"}, "object": {"key": "detail-type"}}}]},
]


@pytest.mark.parametrize("payload", LOOKALIKES)
def test_what_merely_looks_like_one_is_left_as_it_is(payload: dict[str, Any]) -> None:
    found = only(sqs_event("orders", payload))
    assert (found.event, json.loads(found.message)) == (None, payload)


def test_the_id_that_a_flow_gave_its_event_goes_along() -> None:
    own = {**DETAIL, "flowguard": {"uniquerequestid": "r-1.1.0", "requestedat": "7"}}
    found = only(sqs_event("orders", bus_event(own), attributes={"shop": "berlin"}))
    wanted = {
        "uniquerequestid": Attribute.string("r-1.1.0"),
        "requestedat": Attribute.string("7"),
        "shop": Attribute.string("berlin"),
    }
    assert found.attributes == wanted == only(found.record).attributes
    given = only(sqs_event("orders", bus_event(own), attributes={REQUEST_ID: "r-2"}))
    assert given.attributes[REQUEST_ID] == Attribute.string("r-2")


def test_a_batch_may_have_events_and_others() -> None:
    one, other = sqs_event("orders", EVENT), sqs_event("orders", "tea")
    found = normalize({"Records": [*one["Records"], *other["Records"]]})
    assert [isinstance(each, Envelope) and each.event is not None for each in found] == [True, False]
