"""Notices of S3 at work: one change is a request, several are sent on as one each, a test is acked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError
from pydantic import BaseModel, ConfigDict, Field

from flowguard import (
    PER_REQUEST,
    Callback,
    Done,
    Flow,
    Outcome,
    Stage,
    Step,
    Topic,
    callback_handler,
    lambda_handler,
)
from flowguard.destinations import Queue
from flowguard.errors import NotProcessed
from flowguard.events import Event, EventType
from flowguard.handler import dlq_handler
from flowguard.lanes import Lane
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.testing import batch, bus_event, object_notice, sns_event, sns_to_sqs_event, sqs_event
from flowguard.wire.message import FLOW_STAGE, REQUEST_ID, REQUESTED_AT
from tests.scene import START, Scene, scene

ACKED: Final[dict[str, Any]] = {"batchItemFailures": []}
TEST: Final = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "files", "Time": "2026-01-01T00:00:00.000Z"}


class Stored(BaseModel):
    key: str
    size: int = 0
    sequencer: str


class Change(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    reason: str
    object: Stored
    deletion: str = Field("", alias="deletion-type")


class Index(Stage[Change], name="index", inbox="price-order"):
    def handle(self, change: Change, step: Step) -> Outcome:
        step.put("orders", {"id": change.object.key, "reason": change.reason, "size": change.object.size})
        return Done()


class IndexUpload(Stage[Change], name="index"):
    def handle(self, change: Change, step: Step) -> Outcome:
        return Index().handle(change, step)


class Files(Flow, name="files", object_id="object.key", dead_letters="dead"):
    stages = (Index,)


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as made:
        yield made


def handler(at: Scene, **more: Any) -> Any:
    return lambda_handler(Files, **more).using(at.handler._services)


def came(*keys: str, queue: str = "price-order", **more: Any) -> dict[str, Any]:
    return sqs_event(queue, object_notice("files", *keys, at=START, **more), sent_at=START)


def told(at: Scene, kind: EventType) -> list[Event]:
    return [event for event in at.tally.events if event.type is kind]


def indexed(at: Scene, key: str) -> dict[str, Any]:
    row = at.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": key}}).get("Item", {})
    return {name: next(iter(value.values())) for name, value in row.items()}


def back(at: Scene) -> list[dict[str, Any]]:
    """The records in which what was sent to the inbox comes from it."""
    where = "arn:aws:sqs:eu-west-1:123456789012:price-order"
    return [{**message, "eventSourceARN": where} for message in at.sent("price-order")]


def test_a_change_begins_a_run_for_its_object(at: Scene) -> None:
    assert handler(at)(came("a b.csv", size=7)) == ACKED
    assert indexed(at, "a b.csv") == {"id": "a b.csv", "reason": "PutObject", "size": "7"}
    assert at.sent("price-order") == []


def test_the_same_change_through_eventbridge_is_a_duplicate(at: Scene) -> None:
    flow = handler(at)
    assert flow(came("a.csv", sequencer="0A")) == ACKED
    stored = {"key": "a.csv", "sequencer": "0A"}
    detail = {"bucket": {"name": "files"}, "object": stored, "reason": "PutObject"}
    event = bus_event(detail, source="aws.s3", detail_type="Object Created", time=START)
    for made in (sqs_event("price-order", event), sns_to_sqs_event("price-order", object_notice("files", "a.csv"))):
        assert flow(made) == ACKED
    assert at.told(EventType.DONE) == 1, "the second has another sequencer"


def test_of_two_changes_of_one_moment_the_greater_sequencer_stays_and_a_deletion_is_a_change(at: Scene) -> None:
    flow = handler(at)
    assert flow(came("a.csv", sequencer="0A")) == ACKED
    assert flow(came("a.csv", sequencer="0A1", event="ObjectRemoved:Delete")) == ACKED
    assert indexed(at, "a.csv")["reason"] == "DeleteObject"
    assert flow(came("a.csv", sequencer="0A01")) == ACKED
    assert indexed(at, "a.csv")["reason"] == "DeleteObject"
    assert at.told(EventType.STALE) == 1


def test_several_changes_are_sent_on_as_a_request_each_and_then_acked(at: Scene) -> None:
    flow = handler(at)
    assert flow(came("a.csv", "b.csv", "c.csv")) == ACKED
    [split] = told(at, EventType.SPLIT)
    assert (split.facts["bucket"], split.facts["requests"]) == ("files", 3)
    assert at.told(EventType.CLAIMED) == 0
    records = back(at)
    assert [record["MessageAttributes"][FLOW_STAGE]["StringValue"] for record in records] == ["files/index"] * 3
    assert {record["MessageAttributes"][REQUESTED_AT]["StringValue"] for record in records} == {str(START)}
    assert flow({"Messages": records}) == ACKED
    assert [indexed(at, key)["id"] for key in ("a.csv", "b.csv", "c.csv")] == ["a.csv", "b.csv", "c.csv"]
    assert flow(came("a.csv")) == ACKED
    assert at.told(EventType.DONE) == 1, "alone it has the same id"


UPLOADED: Final = "arn:aws:sns:us-east-1:123456789012:uploaded"


class Uploads(Flow, name="uploads", object_id="object.key", dead_letters="dead", inbox=Topic(UPLOADED)):
    stages = (IndexUpload,)


@pytest.mark.parametrize("moved", [False, True])
def test_behind_a_topic_they_are_sent_to_the_queue_alone_that_the_notice_came_through(at: Scene, moved: bool) -> None:
    """Others read the topic, too, and have all of the notice; and a function may not publish to its own inbox."""
    at.aws.create_queue("uploads-index")
    services = at.handler._services
    notice = sns_to_sqs_event("uploads-index", object_notice("files", "a.csv", "b.csv", at=START), topic=UPLOADED)
    [record] = notice["Records"]
    if moved:
        record["attributes"]["DeadLetterQueueSourceArn"] = record["eventSourceARN"]
        record["eventSourceARN"] = record["eventSourceARN"].replace("uploads-index", "uploads-killed")
    made = dlq_handler(Uploads) if moved else lambda_handler(Uploads)
    with intercept(Recorder()) as calls:
        assert made.using(services)(notice) == ACKED
    assert [call for call in calls.calls if call.service == "sns"] == []
    records = at.sent("uploads-index")
    assert [each["MessageAttributes"][FLOW_STAGE]["StringValue"] for each in records] == ["uploads/index"] * 2
    where = "arn:aws:sqs:us-east-1:123456789012:uploads-index"
    come = {"Messages": [{**each, "eventSourceARN": where} for each in records]}
    assert lambda_handler(Uploads).using(services)(come) == ACKED
    assert [indexed(at, key)["id"] for key in ("a.csv", "b.csv")] == ["a.csv", "b.csv"]


def test_what_a_topic_invokes_with_is_sent_to_the_topic_for_no_queue_has_brought_it(at: Scene) -> None:
    notice = object_notice("files", "a.csv", "b.csv", at=START)
    event = sns_event(UPLOADED, notice)
    with intercept(Recorder()) as calls, suppress(NotProcessed):
        lambda_handler(Uploads).using(at.handler._services)(event)
    assert [call.operation for call in calls.calls if call.service == "sns"] == ["PublishBatch"]


def test_what_is_not_sent_keeps_the_record_which_sends_the_same_requests_again(at: Scene) -> None:
    flow, left = handler(at), [1]

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch" and left:
            left.pop()
            sqs = at.aws.client("sqs")
            sqs.send_message_batch(**{**call.params, "Entries": call.params["Entries"][:2]})
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, call.operation)
        return proceed()

    event = came("a.csv", "b.csv", "c.csv")
    with intercept(refuse):
        answer = flow(event)
    assert [each["itemIdentifier"] for each in answer["batchItemFailures"]] == [event["Records"][0]["messageId"]]
    assert (told(at, EventType.SPLIT), told(at, EventType.BROKEN)) == ([], [])
    assert flow(event) == ACKED
    records = back(at)
    assert len(records) == 5
    assert len({record["MessageAttributes"][REQUEST_ID]["StringValue"] for record in records}) == 3
    for record in records:
        assert flow({"Messages": [record]}) == ACKED
    assert (at.told(EventType.CLAIMED), at.told(EventType.DONE)) == (3, 2)


def test_a_change_that_cannot_be_a_request_keeps_all_of_the_record_and_sends_nothing(at: Scene) -> None:
    made = object_notice("files", "a.csv", "b.csv", at=START)
    made["Records"][1]["eventTime"] = "2127-01-01T00:00:00.000Z"
    event = sqs_event("price-order", made, sent_at=START)
    assert handler(at)(event)["batchItemFailures"] != []
    assert back(at) == []


def test_a_change_that_names_no_object_is_sent_on_and_fails_alone(at: Scene) -> None:
    made = object_notice("files", "a.csv", "b.csv", at=START)
    made["Records"][1]["s3"]["object"].pop("sequencer")
    flow = handler(at)
    assert flow(sqs_event("price-order", made, sent_at=START)) == ACKED
    records = back(at)
    assert len(records) == 2
    assert flow({"Messages": records}) == ACKED
    assert indexed(at, "a.csv")["id"] == "a.csv"
    assert at.told(EventType.FAILED) == 1


@pytest.mark.parametrize("way", [sqs_event, sns_to_sqs_event])
def test_the_test_of_a_bucket_is_acked_and_told_once(way: Any, at: Scene) -> None:
    assert handler(at)(way("price-order", TEST)) == ACKED
    [tested] = told(at, EventType.TESTED)
    assert tested.facts["bucket"] == "files"
    assert [event.type for event in at.tally.events] == [EventType.TESTED]
    assert at.sent("dead") == []


class Keep(Stage[dict[str, Any]], name="keep", inbox="price-order"):
    def handle(self, change: dict[str, Any], step: Step) -> Outcome:
        step.put("orders", {"id": change["object"]["key"]})
        return Done()


class AnyChange(Flow, name="files", object_id=PER_REQUEST, dead_letters="dead"):
    stages = (Keep,)


def test_in_a_batch_that_is_claimed_together_notices_go_alone_and_others_share_calls(at: Scene) -> None:
    test = sqs_event("price-order", TEST, sent_at=START)
    event = batch(came("a.csv", "b.csv"), test, came("c.csv"), came("d.csv"))
    with intercept(Recorder()) as calls:
        assert lambda_handler(AnyChange, together=True).using(at.handler._services)(event) == ACKED
    assert "BatchExecuteStatement" in [call.operation for call in calls.calls]
    assert [indexed(at, key)["id"] for key in ("c.csv", "d.csv")] == ["c.csv", "d.csv"]
    assert (at.told(EventType.SPLIT), at.told(EventType.TESTED), at.told(EventType.CLAIMED)) == (1, 1, 2)
    assert len(back(at)) == 2


class Laned(Index, name="index", inbox=(Lane("normal", "calm"), Lane("urgent", "price-order"))):
    pass


class Images(Flow, name="images", object_id="object.key", dead_letters="dead"):
    stages = (Laned,)


def test_several_changes_are_sent_on_in_the_lane_of_their_notice(at: Scene) -> None:
    assert lambda_handler(Images).using(at.handler._services)(came("a.csv", "b.csv")) == ACKED
    assert [message["MessageAttributes"]["lane"]["StringValue"] for message in back(at)] == ["urgent", "urgent"]


def test_what_is_sent_on_has_its_object_as_group_and_carries_what_the_flow_carries(at: Scene) -> None:
    class Queued(Stage[Change], name="index", inbox="index.fifo"):
        def handle(self, change: Change, step: Step) -> Outcome:
            return Done()

    class Carrying(Flow, name="files", object_id="object.key", dead_letters="dead", carry=("tenant",)):
        stages = (Queued,)

    at.aws.client("sqs").create_queue(QueueName="index.fifo", Attributes={"FifoQueue": "true"})
    made = object_notice("files", "a.csv", "b.csv", at=START)
    event = sqs_event("price-order", made, sent_at=START, attributes={"tenant": "blue"})
    assert lambda_handler(Carrying).using(at.handler._services)(event) == ACKED
    records = at.sent("index.fifo")
    assert sorted(record["Attributes"]["MessageGroupId"] for record in records) == ["a.csv", "b.csv"]
    assert {record["MessageAttributes"]["tenant"]["StringValue"] for record in records} == {"blue"}


def test_one_that_sqs_has_given_up_is_sent_on_too(at: Scene) -> None:
    flow = dlq_handler(Files).using(at.handler._services)
    assert flow(came("a.csv", "b.csv", queue="files-killed")) == ACKED
    assert len(back(at)) == 2


# -- as the answers of a party outside


class Ask(Stage[Stored], name="ask", then="got"):
    def handle(self, stored: Stored, step: Step) -> Outcome:
        return Got.when_all(file=step.event(stored.key), within=timedelta(days=1))


class Got(Stage[dict[str, Any]], name="got"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Waiting(
    Flow,
    name="waiting",
    object_id="key",
    trust_senders=True,
    callbacks=(Callback(Queue("emails"), id="object.key"),),
):
    stages = (Ask, Got)


def test_each_object_of_a_notice_answers_what_waits_for_it(at: Scene) -> None:
    at.aws.create_queue("waiting")
    stages, answers = (made(Waiting).using(at.handler._services) for made in (lambda_handler, callback_handler))
    for key in ("a.csv", "b.csv"):
        assert stages(sqs_event("waiting", Stored(key=key, sequencer="1"), sent_at=START)) == ACKED
    assert answers(came("a.csv", "b.csv", queue="emails")) == ACKED
    assert [event.facts["verdict"] for event in told(at, EventType.ANSWERED)] == ["RESUMED", "RESUMED"]
    assert answers(sqs_event("emails", TEST)) == ACKED
    assert at.told(EventType.TESTED) == 1


@pytest.mark.parametrize("which", [0, 1])
def test_an_answer_that_is_not_taken_keeps_the_record(which: int, at: Scene) -> None:
    at.aws.create_queue("waiting")
    stages, answers = (made(Waiting).using(at.handler._services) for made in (lambda_handler, callback_handler))
    for key in ("a.csv", "b.csv"):
        assert stages(sqs_event("waiting", Stored(key=key, sequencer="1"), sent_at=START)) == ACKED
    sent = []

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "sqs" and call.operation.startswith("SendMessage"):
            sent.append(call.operation)
            if len(sent) == which + 1:
                raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, call.operation)
        return proceed()

    with intercept(refuse):
        assert answers(came("a.csv", "b.csv", queue="emails"))["batchItemFailures"] != []
    assert len(sent) == 2


def test_an_object_that_answers_nothing_keeps_the_record(at: Scene) -> None:
    made = object_notice("files", "a.csv", "b.csv", at=START)
    made["Records"][0]["s3"]["object"]["key"] = "x" * 2_000
    answers = callback_handler(Waiting).using(at.handler._services)
    assert answers(sqs_event("emails", made))["batchItemFailures"] != []
    assert told(at, EventType.UNREADABLE)[0].facts["why"]
