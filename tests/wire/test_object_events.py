"""Events of S3 that EventBridge brings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.names.ids import RequestId
from flowguard.names.series_ids import comes_after
from flowguard.testing import bus_event, sqs_event
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.object_events import object_event_id

SEQUENCER = "00617F08299329D189"


def event(sequencer: object = SEQUENCER, key: object = "a/b c.csv", kind: str = "Object Created") -> dict[str, Any]:
    """The event of an object, with the fields that AWS documents."""
    detail = {
        "version": "0",
        "bucket": {"name": "files"},
        "object": {"key": key, "size": 5, "etag": "b1946ac92492d2347c6235b4d2611184", "sequencer": sequencer},
        "request-id": "N4N7GDK58NMKJ12R",
        "requester": "123456789012",
        "source-ip-address": "1.2.3.4",
        "reason": "PutObject",
    }
    return {"source": "aws.s3", "detail-type": kind, "detail": detail}


def id_of(**changes: Any) -> RequestId:
    made = object_event_id(event(**changes))
    assert made is not None
    return RequestId(made)


def test_an_event_of_an_object_is_named_by_bucket_key_and_sequencer() -> None:
    assert id_of().startswith("arn:aws:s3:::files;object=")
    assert f";place={SEQUENCER}{'0' * 46}:" in id_of()


def test_a_copy_with_another_id_of_eventbridges_is_the_same_request() -> None:
    ids = set()
    for place in (1, 2):
        made = event()
        of_bus = f"00000000-0000-4000-8000-00000000000{place}"
        sent = bus_event(made["detail"], source="aws.s3", detail_type="Object Created", event_id=of_bus)
        [envelope] = normalize(sqs_event("files", sent, message_id=f"m-{place}"))
        assert isinstance(envelope, Envelope)
        assert json.loads(envelope.message) == made["detail"]
        ids.add(envelope.own_id)
        [again] = normalize([envelope.record])
        assert isinstance(again, Envelope)
        ids.add(again.own_id)
    assert ids == {id_of()}


@pytest.mark.parametrize(
    ("later", "earlier"),
    [("00617F08299329D18A", SEQUENCER), ("1", "0FFF"), ("0B", "0A1"), ("b", "A"), ("0A1", "0A")],
)
def test_the_greater_sequencer_is_the_later_with_zeros_behind_the_shorter(later: str, earlier: str) -> None:
    assert comes_after(id_of(sequencer=later), id_of(sequencer=earlier))
    assert not comes_after(id_of(sequencer=earlier), id_of(sequencer=later))


def test_a_sequencer_that_is_only_longer_by_zeros_is_the_same() -> None:
    assert id_of(sequencer="0A") == id_of(sequencer="0a00")


def test_two_keys_have_no_common_order_and_two_kinds_of_event_are_two_requests() -> None:
    assert not comes_after(id_of(sequencer="2"), id_of(sequencer="1", key="b"))
    assert id_of() != id_of(kind="Object Deleted")
    assert id_of(key="\udc00"), "a key may be any text"


@pytest.mark.parametrize(
    "changed",
    [
        event(sequencer=None),
        event(sequencer="xyz"),
        event(sequencer=""),
        event(sequencer="0" * 65),
        event(key=7),
        event() | {"source": "aws.s4"},
        event() | {"detail": {}},
        event() | {"detail": {**event()["detail"], "bucket": {"name": "a;place=1"}}},
        event() | {"detail": {**event()["detail"], "bucket": {"name": ""}}},
    ],
)
def test_any_other_event_keeps_its_own_id(changed: dict[str, Any]) -> None:
    assert object_event_id(changed) is None
