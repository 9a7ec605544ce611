"""Notices that S3 sends to queues and topics itself. The fields are those that AWS documents."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from flowguard.testing import batch, bus_event, hostile, object_notice, sns_to_sqs_event, sqs_event
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, Source, normalize, resend
from flowguard.wire.message import PLACE
from flowguard.wire.object_notices import ObjectNotice, find_object_notice

KEY: Final = "a b/c+é.csv"
SEQUENCER: Final = "0055AED6DCD90281E5"
TEST: Final = {
    "Service": "Amazon S3",
    "Event": "s3:TestEvent",
    "Time": "2026-01-01T00:00:00.000Z",
    "Bucket": "files",
    "RequestId": "5582815E1AEA5ADF",
    "HostId": "8cLeGAmw098X5cv4Zkwcmo8vvZa3eH3eKxsPzbB9wrR",
}


def notice(text: object) -> ObjectNotice | None:
    return find_object_notice(text if isinstance(text, str) else json.dumps(text))


def detail(**changes: Any) -> dict[str, Any]:
    found = notice(object_notice("files", KEY, **changes))
    assert found is not None
    read: dict[str, Any] = json.loads(found.events[0].detail)
    return read


def envelope(event: Any) -> Envelope:
    [read] = normalize(event)
    assert isinstance(read, Envelope)
    return read


def of_bus(kind: str = "Object Created", **more: Any) -> Envelope:
    changed = {"bucket": {"name": "files"}, "object": {"key": KEY, "sequencer": SEQUENCER}}
    return envelope(sqs_event("files", bus_event({**changed, **more}, source="aws.s3", detail_type=kind)))


def test_a_change_is_read_as_eventbridge_would_bring_it() -> None:
    assert detail(versionId="096fKKXTRTtl3on89fVO") == {
        "version": "0",
        "bucket": {"name": "files"},
        "object": {
            "key": KEY,
            "size": 1024,
            "etag": "d41d8cd98f00b204e9800998ecf8427e",
            "version-id": "096fKKXTRTtl3on89fVO",
            "sequencer": SEQUENCER,
        },
        "request-id": "C3D13FE58DE4C810",
        "requester": "AWS:AIDAEXAMPLE",
        "source-ip-address": "192.0.2.1",
        "reason": "PutObject",
    }


def test_what_a_record_leaves_out_is_left_out() -> None:
    made = object_notice("files", KEY)
    for part in ("userIdentity", "requestParameters", "responseElements"):
        made["Records"][0].pop(part)
    made["Records"][0]["requestParameters"] = "none"
    made["Records"][0]["s3"]["object"] = {"key": "a", "sequencer": "0A"}
    found = notice(made)
    assert found is not None
    assert json.loads(found.events[0].detail) == {
        "version": "0",
        "bucket": {"name": "files"},
        "object": {"key": "a", "sequencer": "0A"},
        "reason": "PutObject",
    }


@pytest.mark.parametrize(
    ("written", "read"), [("a+b", "a b"), ("a%2Bb", "a+b"), ("%C3%A9%20", "é "), ("a/b", "a/b"), ("100%", "100%")]
)
def test_a_key_is_decoded(written: str, read: str) -> None:
    made = object_notice("files", "k")
    made["Records"][0]["s3"]["object"]["key"] = written
    found = notice(made)
    assert found is not None
    assert json.loads(found.events[0].detail)["object"]["key"] == read


@pytest.mark.parametrize(
    ("event", "kind", "reason", "deletion"),
    [
        ("ObjectCreated:Put", "Object Created", "PutObject", None),
        ("ObjectCreated:Post", "Object Created", "POST Object", None),
        ("ObjectCreated:Copy", "Object Created", "CopyObject", None),
        ("ObjectCreated:CompleteMultipartUpload", "Object Created", "CompleteMultipartUpload", None),
        ("ObjectCreated:Delete", "Object Created", "ObjectCreated:Delete", None),
        ("ObjectRemoved:Delete", "Object Deleted", "DeleteObject", "Permanently Deleted"),
        ("ObjectRemoved:DeleteMarkerCreated", "Object Deleted", "DeleteObject", "Delete Marker Created"),
        ("LifecycleExpiration:Delete", "Object Deleted", "Lifecycle Expiration", "Permanently Deleted"),
        ("LifecycleExpiration:DeleteMarkerCreated", "Object Deleted", "Lifecycle Expiration", "Delete Marker Created"),
        ("ObjectTagging:Delete", "ObjectTagging:Delete", "ObjectTagging:Delete", None),
    ],
)
def test_what_happened_has_the_words_of_eventbridge(event: str, kind: str, reason: str, deletion: str | None) -> None:
    found = notice(object_notice("files", KEY, event=event))
    assert found is not None
    read = json.loads(found.events[0].detail)
    assert (found.events[0].detail_type, read["reason"], read.get("deletion-type")) == (kind, reason, deletion)


@pytest.mark.parametrize(
    ("event", "kind"), [("ObjectCreated:Copy", "Object Created"), ("ObjectRemoved:Delete", "Object Deleted")]
)
@pytest.mark.parametrize("way", [sqs_event, sns_to_sqs_event])
def test_a_change_has_one_id_whichever_way_it_comes(way: Any, event: str, kind: str) -> None:
    came = envelope(way("files", object_notice("files", KEY, event=event)))
    assert came.own_id == of_bus(kind).own_id
    assert came.source is (Source.SQS if way is sqs_event else Source.SNS_SQS)
    assert came.event is not None
    assert (came.event.time, came.event.region) == (1_767_225_600_000, "eu-west-1")
    assert (came.event.source, came.event.account, came.event.resources) == ("aws.s3", "", ("arn:aws:s3:::files",))


def test_another_sequencer_is_another_change() -> None:
    made = {envelope(sqs_event("files", object_notice("files", KEY, sequencer=each))).own_id for each in ("0A", "0B")}
    assert len(made) == 2


def test_an_event_without_order_is_known_by_what_it_says() -> None:
    def id_of(request: str = "C3D1", event: str = "ObjectTagging:Put", **changes: Any) -> str:
        made = object_notice("files", KEY, event=event, **changes)
        made["Records"][0]["responseElements"]["x-amz-request-id"] = request
        made["Records"][0]["s3"]["object"].pop("sequencer")
        return envelope(sqs_event("files", made)).own_id

    assert id_of().startswith("arn:aws:s3:::files;object=")
    assert ";place=" not in id_of()
    assert id_of() == id_of(size=7)
    assert id_of(request="other") != id_of() != id_of(event="ObjectTagging:Delete")
    assert len({id_of(), id_of(at=0), id_of(versionId="1")}) == 3


def test_the_record_keeps_the_notice_and_a_retry_is_read_as_the_same_change() -> None:
    came = envelope(sqs_event("files", object_notice("files", KEY)))
    body, attributes = resend(came, {PLACE: Attribute.string('{"version":1,"hop":1,"retry":1,"event":true}')})
    assert json.loads(json.loads(body)["Message"]) == object_notice("files", KEY)
    back = envelope(
        {
            "Records": [
                {
                    **sqs_event("files", "x")["Records"][0],
                    "body": body,
                    "messageAttributes": {name: each.to_sqs_record() for name, each in attributes.items()},
                }
            ]
        }
    )
    assert (back.message, back.own_id) == (came.message, came.own_id)
    assert envelope(came.record).record == came.record


def test_a_stages_own_message_is_a_payload_whatever_it_looks_like() -> None:
    own = {PLACE: '{"version":1,"hop":1}'}
    came = envelope(sqs_event("files", object_notice("files", KEY), attributes=own))
    assert (came.event, came.notice) == (None, None)
    assert json.loads(came.message) == object_notice("files", KEY)


def test_several_changes_are_parts_with_an_id_each() -> None:
    came = envelope(sns_to_sqs_event("files", object_notice("files", "a", "b")))
    assert (came.event, came.message) == (None, json.dumps(object_notice("files", "a", "b"), separators=(",", ":")))
    assert [json.loads(part.message)["object"]["key"] for part in came.parts] == ["a", "b"]
    alone = [envelope(sqs_event("files", object_notice("files", key))).own_id for key in ("a", "b")]
    assert [part.own_id for part in came.parts] == alone
    assert all(part.notice is None and part.parts == (part,) for part in came.parts)
    assert envelope(sqs_event("files", object_notice("files", "a"))).notice is None


def test_the_test_of_a_bucket_has_no_part() -> None:
    for way in (sqs_event, sns_to_sqs_event):
        came = envelope(way("files", TEST))
        assert came.notice == ObjectNotice("files", ())
        assert (came.event, came.parts) == (None, ())
    assert notice({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "files"}) == ObjectNotice("files", ())
    assert envelope(batch(sqs_event("files", {"a": 1}))).parts != ()


def changed(**fields: Any) -> dict[str, Any]:
    return {"Records": [{**object_notice("files", KEY)["Records"][0], **fields}]}


def of_s3(**fields: Any) -> dict[str, Any]:
    return changed(s3={**object_notice("files", KEY)["Records"][0]["s3"], **fields})


@pytest.mark.parametrize(
    "text",
    [
        {"Records": []},
        {"Records": ["aws:s3"]},
        {**object_notice("files", KEY), "more": 1},
        {"Records": [*object_notice("files", KEY)["Records"], {"eventSource": "aws:s3"}]},
        changed(eventSource="aws:sqs", was="aws:s3"),
        changed(eventVersion="3.0"),
        changed(eventVersion=None),
        changed(eventName=7),
        changed(eventTime=0),
        changed(eventTime="yesterday"),
        changed(eventTime="2026-01-01T00:00:00"),
        changed(awsRegion=None),
        changed(s3=None),
        of_s3(bucket={}),
        of_s3(bucket={"name": "a;place=1"}),
        of_s3(object={}),
        of_s3(object={"key": "%ff"}),
        {**TEST, "Bucket": "a;b"},
        {**TEST, "Bucket": None},
        {**TEST, "Service": "Amazon S4"},
        {**TEST, "Event": "s3:Other", "was": "s3:TestEvent"},
        '{"Records":[{"eventSource":"aws:s3"',
        '["aws:s3"]',
        '"s3:TestEvent"',
        json.dumps(object_notice("files", KEY)).replace('"aws:s3"', '"aws\\u003as3"'),
    ],
)
def test_what_is_no_whole_notice_is_a_payload_like_any_other(text: Any) -> None:
    assert notice(text) is None
    body = text if isinstance(text, str) else json.dumps(text)
    came = envelope({"Records": [{**sqs_event("files", "x")["Records"][0], "body": body}]})
    assert (came.message, came.event, came.notice) == (body, None, None)


@pytest.mark.parametrize("name", hostile.TEXTS)
def test_hostile_text_is_no_notice(name: str) -> None:
    assert find_object_notice(f'"aws:s3"{hostile.TEXTS[name]}') is None
