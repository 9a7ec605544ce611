"""An object is forgotten whose dead letters the queue does not show all at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading
from flowguard.aws.items import run_key
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId
from flowguard.operate.forget_object import Forgotten
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.wire.send_ids import stem_of_run
from tests.operate.forgettable import GONE, STAYS, Place
from tests.operate.test_forget_object import item, settled

FIFO = "shop-dead-letters.fifo"


def bury(at: Place, queue: str, number: int, object_id: str = GONE, group: str = GONE) -> None:
    """Put a letter of an earlier request of an object into a queue of dead letters."""
    request = next(entry for url, entry in at.sent.calls if url.endswith("/shop") and f'"{object_id}"' in str(entry))
    named: Any = {
        "uniquerequestid": {"DataType": "String", "StringValue": f"r-{number:02d}"},
        "requestedat": {"DataType": "Number", "StringValue": str(item(at).requested_at - 1 - number)},
    }
    about: Any = {"MessageGroupId": group, "MessageDeduplicationId": f"{object_id}-{number}"} if queue == FIFO else {}
    sqs = at.aws.client("sqs")
    sqs.send_message(
        QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"],
        MessageBody=request["MessageBody"],
        MessageAttributes={**request["MessageAttributes"], **named},
        **about,
    )


def forget(at: Place, *, really: bool = True) -> tuple[Forgotten, list[Reading]]:
    """Forget the object, whose flow's dead letters are in the FIFO queue."""
    clients, opened = Clients(), list[Reading]()

    def letters(flow: AnyFlow) -> Reading:
        found = DeadLetterQueue.find(clients, FIFO if flow is at.shop else "picks-dead-letters", at.clock)
        opened.append(Reading(clients, found, flow=flow, wait=0, clock=at.clock))
        return opened[-1]

    forgetter = at.forgetter(really=really, knows=(at.picks,))._replace(letters=letters)
    return forgetter.forget(at.shop, GONE), opened


def operations(calls: Recorder) -> list[str]:
    return [call.operation for call in calls.calls]


@contextmanager
def buried(number: int) -> Iterator[Place]:
    """So many letters of the object in one group, with a text in S3 for the request of each."""
    with settled() as at:
        at.runner.queue(FIFO)
        for each in range(number):
            bury(at, FIFO, each)
            at.aws.client("s3").put_object(Bucket="texts", Key=f"flowguard/shop/r-{each:02d}/1-a", Body=b"x")
        at.clock.advance(minutes=31)
        yield at


def texts(at: Place) -> list[str]:
    return [key for key in at.aws._s3.state()["texts"] if "/r-" in key]


def test_what_a_group_shows_when_ten_of_it_are_deleted_is_removed_too() -> None:
    with buried(25) as at:
        rows = forget(at, really=False)[0].counts["rows of the history"]
        report, [reading, *_] = forget(at)
        assert report.is_complete
        assert reading.doubts == []
        assert (report.counts["dead letters"], report.counts["rows of the history"]) == (25, rows)
        assert report.counts["run item"] == 1
        assert (at.aws.messages(FIFO), texts(at)) == ([], [])


def test_ten_of_a_group_are_all_of_it_where_no_more_come() -> None:
    with buried(10) as at:
        with intercept(Recorder()) as calls:
            assert forget(at)[0].is_complete
        assert at.aws.messages(FIFO) == []
        assert operations(calls).count("Scan") == 1, "nothing new was to be looked for"


def test_a_standard_queue_that_has_shown_all_is_asked_no_more() -> None:
    with settled() as at:
        bury(at, "shop-dead-letters", 1)
        with intercept(Recorder()) as calls:
            report = at.forgetter().forget(at.shop, GONE)
        assert report.counts["dead letters"] == 1
        assert operations(calls).count("ReceiveMessage") == 2


def test_to_look_says_that_the_group_may_have_more_and_deletes_none() -> None:
    with buried(15) as at:
        report, _ = forget(at, really=False)
        assert report.counts["dead letters"] == 10
        assert [(left.what, left.number) for left in report.left if "unseen" in left.what] == [
            ("unseen dead letters", 5)
        ]
        assert len(at.aws.messages(FIFO)) == 15


def test_behind_letters_of_others_it_does_not_see_and_is_not_done() -> None:
    with buried(0) as at:
        at.order(STAYS)
        for number in range(10):
            bury(at, FIFO, number, STAYS)
        bury(at, FIFO, 11)
        report, [reading, *_] = forget(at)
        assert not report.is_done
        [why] = [left.why for left in report.left if left.what == "unseen dead letters"]
        assert why == "; ".join((*reading.doubts, *reading.full_groups))
        assert "a group of this FIFO queue has shown as many letters as were asked for" in why
        assert len(at.aws.messages(FIFO)) == 11


def test_letters_that_sqs_does_not_delete_lead_to_no_further_ones() -> None:
    def refusing(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "DeleteMessageBatch":
            return proceed()
        entries: Any = call.params["Entries"]
        return {"Failed": [{"Id": entry["Id"], "Code": "InternalError", "Message": "later"} for entry in entries]}

    with buried(12) as at:
        with intercept(Recorder()) as calls, intercept(refusing):
            report, [reading, *_] = forget(at)
        of_fifo = [call for call in calls.calls if call.params.get("QueueUrl", "").endswith(FIFO)]
        assert [call.operation for call in of_fifo].count("ReceiveMessage") == 2
        assert not report.is_done
        assert ("dead letters", 10) in [(left.what, left.number) for left in report.left]
        assert reading.doubts
        assert forget(at)[0].is_complete


def test_what_a_first_part_has_left_is_not_forgotten_by_a_second_one() -> None:
    """SQS keeps one of the first ones. Another group shows its eleventh."""
    refused: list[str] = []

    def refuse_one(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "DeleteMessageBatch" or refused:
            return proceed()
        params: Any = call.params
        kept_back, *others = params["Entries"]
        refused.append(kept_back["Id"])
        params["Entries"] = others
        return {**proceed(), "Failed": [{"Id": kept_back["Id"], "Code": "InternalError", "Message": "later"}]}

    with buried(2) as at:
        for number in range(2, 13):
            bury(at, FIFO, number, group="another")
        with intercept(refuse_one):
            report, _ = forget(at)
        assert ("dead letters", 1) in [(left.what, left.number) for left in report.left]
        assert not report.is_done
        assert len(at.aws.messages(FIFO)) == 1


def test_the_newer_letters_of_all_parts_are_counted() -> None:
    with buried(10) as at:
        for number, group in ((-5, GONE), (-6, "another")):  # they are newer than the run
            bury(at, FIFO, number, group=group)
        report, _ = forget(at)
        assert [left.number for left in report.left if "newer requests" in left.why] == [2]
        assert report.counts["dead letters"] == 10


def test_letters_of_a_child_behind_those_of_the_object_are_removed_too() -> None:
    with buried(10) as at:
        request = next(e for url, e in at.sent.calls if url.endswith("/picks") and f"{GONE}-small" in str(e))
        sqs = at.aws.client("sqs")
        later: Any = {"requestedat": {"DataType": "Number", "StringValue": str(at.clock.now())}}
        sqs.send_message(
            QueueUrl=sqs.get_queue_url(QueueName=FIFO)["QueueUrl"],
            MessageBody=request["MessageBody"],
            MessageAttributes={**request["MessageAttributes"], **later},
            MessageGroupId=GONE,
            MessageDeduplicationId="child",
        )
        assert forget(at)[0].is_complete
        assert at.aws.messages(FIFO) == []


def test_a_child_that_only_the_first_letters_tell_of_is_forgotten_with_its_texts() -> None:
    with buried(11) as at:
        asked = f"{stem_of_run('shop', GONE, 'r-00', item(at).requested_at - 1)}2.0"
        dynamodb = at.aws.client("dynamodb")
        row = dynamodb.get_item(TableName="flowguard", Key=run_key("picks", ObjectId(f"{GONE}-small")))["Item"]
        row |= run_key("picks", ObjectId("child")) | {"request_id": {"S": asked}}
        dynamodb.put_item(TableName="flowguard", Item=row)
        key = f"flowguard/picks/{quote(asked, safe='')}/1-a"
        at.aws.client("s3").put_object(Bucket="texts", Key=key, Body=b"x")
        at.clock.advance(minutes=31)
        report, _ = forget(at)
        assert [child.is_done for child in report.children if child.object_id == "child"] == [True]
        assert report.is_complete
        assert key not in at.aws._s3.state()["texts"]


def test_what_another_reader_holds_is_said_and_it_is_not_done_until_it_was_seen() -> None:
    with settled() as at:
        bury(at, "shop-dead-letters", 1)
        sqs = at.aws.client("sqs")
        url = sqs.get_queue_url(QueueName="shop-dead-letters")["QueueUrl"]
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=300)
        report = at.forget()
        assert not report.is_done
        assert [(left.what, left.number) for left in report.left if "unseen" in left.what] == [
            ("unseen dead letters", 1)
        ]
        at.clock.advance(minutes=6)
        assert at.forget().is_complete
        assert at.aws.messages("shop-dead-letters") == []


def test_a_child_whose_letters_are_not_all_seen_is_not_done() -> None:
    with settled() as at:
        sqs = at.aws.client("sqs")
        url = sqs.get_queue_url(QueueName="picks-dead-letters")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="x")
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=300)
        report = at.forget()
        assert (report.is_done, report.is_complete) == (True, False)


def test_where_a_group_of_others_may_have_more_it_is_not_done_though_sqs_counts_no_more() -> None:
    """SQS's count is an estimate, and none makes it say that all is gone."""
    with buried(0) as at:
        at.order(STAYS)
        for number in range(10):
            bury(at, FIFO, number, STAYS)
        report, [reading, *_] = forget(at)
        assert (report.is_done, reading.doubts) == (False, [])
        assert ("unseen dead letters", 0) in [(left.what, left.number) for left in report.left]
