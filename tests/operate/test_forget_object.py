"""An object is forgotten: nothing of its data is left, and no late message brings any of it back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.object_scan import Child
from flowguard.aws.object_traces import MOST_REQUESTS, stem_of
from flowguard.codecs import Encrypted
from flowguard.errors import NotForgotten
from flowguard.flow import UNTIL_RESET
from flowguard.operate.forget_object import Forgotten
from flowguard.operate.moments import iso
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.forgotten import KEPT, is_forgotten
from flowguard.protocol.run import LONGEST_LEASE, RunItem, Status
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.send_ids import stem_of_run
from tests.operate.forgettable import GONE, MARKER, STAYS, Order, Part, Place, place

BAD = "o-bad"
CHANGES: Final = ("ttl", "lease_until", "committed_at", "epoch")
"""What differs where it is made again: a trace may be written once more."""


class CutOffError(Exception):
    """The process of whoever forgets has died."""


class Cut:
    """Dies at one call: before it is made, or after it, when its answer is lost. No later call is made."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.calls = at, after, 0

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        self.calls += 1
        if not self.at or self.calls < self.at:
            return proceed()
        if self.after and self.calls == self.at:
            proceed()
        raise CutOffError


@contextmanager
def settled(object_id: str = GONE, **about: Any) -> Iterator[Place]:
    """Two orders that have ended a while ago."""
    with place(**about) as at:
        at.order(object_id)
        assert at.order(STAYS) == "COMPLETED"
        at.clock.advance(minutes=31)
        yield at


def item(at: Place, object_id: str = GONE) -> RunItem:
    found = at.runner._world.store.read("shop", object_id)
    assert found is not None
    return found


def set_item(at: Place, **values: Any) -> None:
    """Set attributes of the object's run item."""
    at.aws.client("dynamodb").update_item(
        TableName="flowguard",
        Key={"pk": {"S": f"run#shop#{GONE}"}, "sk": {"S": "run"}},
        UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in values),
        ExpressionAttributeNames={f"#{name}": name for name in values},
        ExpressionAttributeValues={f":{name}": value for name, value in values.items()},
    )


def raw_item(at: Place, object_id: str = GONE, flow: str = "shop") -> Any:
    key: Any = {"pk": {"S": f"run#{flow}#{object_id}"}, "sk": {"S": "run"}}
    return at.aws.client("dynamodb").get_item(TableName="flowguard", Key=key)["Item"]


def kinds(report: Forgotten) -> dict[str, int]:
    """What was found, also of the children."""
    found = dict(report.counts)
    for child in report.children:
        for kind, count in kinds(child).items():
            found[kind] = found.get(kind, 0) + count
    return found


# -- everything is gone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_conflict", list(OnConflict))
def test_nothing_of_the_object_is_left_and_no_late_message_brings_it_back(on_conflict: OnConflict) -> None:
    with settled(on_conflict=on_conflict) as at:
        before, others = at.places(GONE), at.places(STAYS)
        assert {name.partition(" ")[0].partition("#")[0] for name in before} == {"S3", "group"}
        report = at.forget()
        assert report.is_complete
        assert [left.what for left in report.left] == ["ids that are or were awaited"]
        assert kinds(report) == {
            "run item": 5,
            "rows of the history": 4,
            "rows of groups": 4,
            "early answers": 1,
            "texts in S3": kinds(report)["texts in S3"],
        }
        assert at.places(GONE) == []
        assert at.places(STAYS) == others
        handled = len(at.handled)
        at.everything_comes_once_more()
        assert at.handled[handled:] == []
        assert at.places(GONE) == []
        assert at.places(STAYS) == others


def test_what_stays_of_the_run_is_a_trace_without_data() -> None:
    with settled() as at:
        ended_at, epoch = item(at).committed_at, item(at).epoch
        at.forget()
        trace = item(at)
        assert set(raw_item(at)) == KEPT
        assert is_forgotten(trace)
        assert (trace.status, trace.error, trace.done) == (
            Status.FAILED,
            "Forgotten: what the run had left was removed",
            True,
        )
        assert trace.epoch == epoch + 1
        assert trace.committed_at == ended_at
        assert trace.ttl * 1000 >= at.clock.now() + 2 * timedelta(days=2) // timedelta(milliseconds=1)


@pytest.mark.parametrize("on_conflict", list(OnConflict))
def test_a_newer_request_that_is_under_way_meanwhile_is_carried_out(on_conflict: OnConflict) -> None:
    with settled(on_conflict=on_conflict) as at:
        handled = len(at.handled)
        at.runner.send(at.shop, Order(order_id=GONE, note="anew"), request_id="newer")
        at.clock.advance(minutes=1)
        at.forget()
        assert at.runner.run(within=timedelta(minutes=1)).deliveries[0].verdict == "CLAIMED"
        assert at.handled[handled:] == [("take", GONE), ("pick", f"{GONE}-small")]


_MINUTE: Final = 60_000


@pytest.mark.parametrize(
    ("keep", "status", "end"),
    [
        (None, Status.COMPLETED, 0),
        (timedelta(minutes=10), Status.COMPLETED, 10 * _MINUTE),
        (timedelta(hours=1), Status.COMPLETED, 31 * _MINUTE),
        (UNTIL_RESET, Status.COMPLETED, 31 * _MINUTE),
        (timedelta(hours=1), Status.FAILED, 0),
        (None, Status.WAITING, 31 * _MINUTE),
    ],
    ids=["no result kept", "kept no more", "kept", "kept for ever", "failed", "not ended"],
)
def test_a_request_gets_the_error_that_the_end_of_the_run_would_have_answered(
    keep: Any, status: Status, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have had that answer: a copy of it must not run. A request of a later time than the trace's end runs."""
    with place() as at:
        monkeypatch.setattr(at.shop, "keep_result", keep)
        at.order(GONE)
        ended = item(at).committed_at
        set_item(at, status={"S": status.value})
        at.clock.move_to(ended + 31 * _MINUTE)
        at.forgetter(at_once=True).forget(at.shop, GONE)
        assert item(at).committed_at == ended + end


def test_a_trace_is_written_again_only_for_rows_of_groups_and_with_its_time() -> None:
    with settled() as at:
        at.forget()
        trace, ended_at = raw_item(at), item(at).committed_at
        at.clock.advance(minutes=1)
        assert at.forget().is_complete
        assert raw_item(at) == trace
        shard: Any = {"pk": {"S": "group#shop#g-1#0"}, "sk": {"S": "shard"}, "asker": {"S": GONE}}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=shard)
        assert at.forget().counts == {"rows of groups": 1}
        assert (item(at).epoch, item(at).committed_at) == (int(trace["epoch"]["N"]) + 1, ended_at)


def test_a_run_that_failed_is_not_opened_again_by_its_dead_letter() -> None:
    with settled(BAD) as at:
        assert item(at, BAD).status is Status.FAILED
        [letter] = at.aws.messages("shop-dead-letters")
        report = at.forget(BAD)
        assert (report.counts["dead letters"], report.is_complete) == (1, True)
        assert at.aws.messages("shop-dead-letters") == []
        handled = len(at.handled)
        body, attributes = parts_of(letter)
        sqs = at.aws.client("sqs")
        url = sqs.get_queue_url(QueueName="shop")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
        at.runner.run()
        assert at.handled[handled:] == []
        assert at.places(BAD) == []
        assert at.aws.messages("shop-dead-letters") == []


def parts_of(letter: Any) -> tuple[str, Any]:
    return letter.body, letter.attributes


def test_dead_letters_of_others_stay_and_are_visible_at_once() -> None:
    with place() as at:
        assert (at.order("a-bad"), at.order("b-bad")) == ("FAILED", "FAILED")
        at.clock.advance(minutes=31)
        at.forget("a-bad")
        sqs = at.aws.client("sqs")
        url = sqs.get_queue_url(QueueName="shop-dead-letters")["QueueUrl"]
        [letter] = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        assert "b-bad" in letter["Body"]


def test_what_is_sealed_is_removed_without_a_key() -> None:
    with settled(codec=Encrypted("alias/shop", compress=False)) as at:
        assert at.aws._s3.state()["texts"]
        mine = [key for key in at.aws._s3.state()["texts"] if f"/{item(at).request_id}" in key]
        assert mine
        assert at.forget().is_complete
        assert [key for key in at.aws._s3.state()["texts"] if key in mine] == []
        assert set(raw_item(at)) == KEPT


def test_to_look_changes_nothing() -> None:
    with settled() as at:
        before = at.aws.state_key()
        report = at.forgetter(really=False, knows=(at.picks,)).forget(at.shop, GONE)
        assert at.aws.state_key() == before
        assert not report.is_done
        assert kinds(report) == kinds(at.forget())


def test_to_look_at_an_object_whose_children_are_of_no_flow_that_is_known_changes_nothing() -> None:
    with settled() as at:
        before = at.aws.state_key()
        assert at.forgetter(really=False).forget(at.shop, GONE).children == []
        assert at.aws.state_key() == before


def test_an_object_without_a_run_leaves_nothing_to_do() -> None:
    with settled() as at:
        before = at.aws.state_key()
        report = at.forget("nobody")
        assert (report.stands, report.counts, report.left, report.is_complete) == ("there is no run", {}, [], True)
        assert at.aws.state_key() == before


# -- cut off, and made again ------------------------------------------------------------------------------------------


EVERY: Final = pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.long("each single call"))])
AFTER: Final = pytest.mark.parametrize("after", [False, True], ids=["before the call", "its answer is lost"])


@pytest.mark.slow("cuts off after each call")
@EVERY
@AFTER
def test_cut_off_at_any_call_it_ends_the_same_when_it_is_made_again(after: bool, every: int) -> None:
    with settled(BAD) as at:
        at.forget(STAYS)  # so that all that is left is the object's
        start, whole = at.aws.snapshot(), Cut(0, after=False)
        with intercept(whole):
            at.forget(BAD)
        end = at.aws.state_key(CHANGES)
        for call in range(1, whole.calls + 1, every):
            at.aws.restore(start)
            with pytest.raises(CutOffError), intercept(Cut(call, after=after)):
                at.forget(BAD)
            at.clock.advance(seconds=301)  # until letters that were held are visible
            assert at.forget(BAD).is_complete
            assert at.places(BAD) == []
            assert at.aws.state_key(CHANGES) == end, f"cut off at call {call} of {whole.calls}"


@pytest.mark.slow("cuts off after each call")
@EVERY
@AFTER
def test_cut_off_at_any_call_and_never_made_again_no_late_message_runs(after: bool, every: int) -> None:
    with settled(BAD) as at:
        start, whole = at.aws.snapshot(), Cut(0, after=False)
        with intercept(whole):
            at.forget(BAD)
        for call in range(1, whole.calls + 1, every):
            at.aws.restore(start)
            with pytest.raises(CutOffError), intercept(Cut(call, after=after)):
                at.forget(BAD)
            handled = len(at.handled)
            at.everything_comes_once_more()
            assert at.handled[handled:] == [], f"cut off at call {call} of {whole.calls}"


# -- a newer request comes meanwhile ----------------------------------------------------------------------------------


class Meanwhile:
    """Lets something happen before one call."""

    def __init__(self, at: int, happens: Callable[[], object]) -> None:
        self.at, self.calls, self.happens = at, 0, happens

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        self.calls += 1
        if self.calls == self.at:
            self.happens()
        return proceed()


@pytest.mark.slow("cuts off after each call")
@EVERY
def test_a_newer_request_that_comes_meanwhile_loses_nothing(every: int) -> None:
    with settled() as at:
        start, whole, refused = at.aws.snapshot(), Cut(0, after=False), 0
        with intercept(whole):
            at.forgetter().forget(at.shop, GONE)
        for call in range(1, whole.calls + 1, every):
            at.aws.restore(start)
            newer = Meanwhile(call, partial(at.order, GONE, request_id="newer"))
            try:
                with intercept(newer):
                    at.forgetter().forget(at.shop, GONE)
            except NotForgotten:
                refused += 1
            run = item(at)
            assert (run.request_id, run.status) == ("newer", Status.COMPLETED), f"before call {call}"
            assert at.runner.run().run(GONE).result["told"].startswith(MARKER)
            assert [row for row in at.aws.items("flowguard") if row["sk"]["S"].startswith("history#")]
        assert 0 < refused < whole.calls


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_run_that_goes_on_is_refused_and_nothing_changes() -> None:
    with place() as at:
        at.runner.send(at.shop, Order(order_id=GONE, note=f"{MARKER} {GONE} "))
        at.runner.run(within=timedelta(minutes=1))
        assert item(at).status is Status.WAITING
        before = at.aws.state_key()
        with pytest.raises(NotForgotten, match="it is WAITING at take; cancel it first") as refused:
            at.forget()
        assert (refused.value.flow, at.aws.state_key()) == ("shop", before)


def test_a_run_that_has_ended_just_now_may_not_have_sent_its_end() -> None:
    with place() as at:
        at.order(GONE)
        ended = item(at).committed_at
        lease = LONGEST_LEASE // timedelta(milliseconds=1)
        at.clock.move_to(ended + lease - 1)
        before = at.aws.state_key()
        with pytest.raises(NotForgotten, match="it may not have sent its end yet; repeat this after 20"):
            at.forget()
        assert at.aws.state_key() == before
        at.clock.move_to(ended + lease)
        assert at.forget().is_complete


def test_a_run_that_was_forgotten_at_once_is_forgotten_again_without_a_wait() -> None:
    """Its trace has an end of now, where it had none: no outbox of it can have stayed unsent."""
    with place() as at:
        at.order(GONE)
        set_item(at, status={"S": Status.WAITING.value})
        at.forgetter(at_once=True).forget(at.shop, GONE)
        assert at.forget().why_not is None


def test_at_once_a_run_is_forgotten_that_waits_and_nothing_wakes_it() -> None:
    with place(on_conflict=OnConflict.SUPERSEDE) as at:
        at.runner.send(at.shop, Order(order_id=GONE, note=f"{MARKER} {GONE} "))
        at.runner.run(within=timedelta(minutes=1))
        began = item(at).committed_at
        handled = len(at.handled)
        report = at.forgetter(at_once=True, knows=(at.picks,)).forget(at.shop, GONE)
        assert report.is_complete
        assert (at.places(GONE), item(at).committed_at) == ([], began)
        assert at.runner.answer(at.shop, f"paid-{GONE}", {"by": MARKER}) is AnswerVerdict.EXPIRED
        at.runner.run()  # its deadline comes
        at.everything_comes_once_more()
        assert at.handled[handled:] == []
        assert at.places(GONE) == []


@pytest.mark.parametrize(("lease", "done", "works"), [(1_000, False, True), (0, False, False), (1_000, True, False)])
def test_at_once_the_worker_of_a_first_hop_is_said_until_its_lease_is_over(lease: int, done: bool, works: bool) -> None:
    with place(on_conflict=OnConflict.SUPERSEDE) as at:
        at.runner.send(at.shop, Order(order_id=GONE, note=f"{MARKER} {GONE} "))
        at.runner.run(within=timedelta(minutes=1))
        begun = at.clock.now()
        set_item(at, lease_until={"N": str(begun + lease)}, done={"BOOL": done}, committed_at={"N": "0"})
        for again in (0, 1, 999, 1_000):
            at.clock.move_to(begun + again)
            report = at.forgetter(at_once=True).forget(at.shop, GONE)
            workers = [left.why for left in report.left if left.what == "worker"]
            assert (bool(workers), report.is_done) == (works and again < lease, not works or again >= lease)
            assert [iso(begun + lease) in why for why in workers] == [True] * len(workers)
            assert item(at).committed_at == begun


@pytest.mark.parametrize("status", ["RUNNING", "COMPLETED"])
def test_at_once_a_worker_without_a_lease_is_said_as_long_as_any_lease(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place(on_conflict=OnConflict.SUPERSEDE) as at:
        at.order(GONE)
        begun, longest = at.clock.now(), LONGEST_LEASE // timedelta(milliseconds=1)
        set_item(at, status={"S": status})
        monkeypatch.setattr(at.shop.stages[-1], "lease", False)
        for again in (0, longest - 1, longest):
            at.clock.move_to(begun + again)
            report = at.forgetter(at_once=True).forget(at.shop, GONE)
            works = status == "RUNNING" and again < longest
            assert ("worker" in [left.what for left in report.left]) == works


def test_what_is_claimed_since_it_was_read_is_not_emptied() -> None:
    with settled() as at:
        forgetter = at.forgetter()
        read = forgetter.reader.read(Child("shop", GONE))
        at.order(GONE, request_id="newer")
        before = at.aws.state_key()
        assert read.item is not None
        assert not forgetter.forgetting.leave_trace(read.item, now=at.clock.now(), at=0, until=0, works_until=0)
        assert at.aws.state_key() == before


def test_where_it_is_refused_nothing_has_been_removed() -> None:
    def claimed(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and not begun:
            begun.append(True)
            at.order(GONE, request_id="newer")
        return proceed()

    def rows() -> set[tuple[str, str]]:
        return {(row["pk"]["S"], row["sk"]["S"]) for row in at.aws.items("flowguard")}

    begun: list[bool] = []
    with settled() as at:
        before = rows()
        with intercept(claimed), pytest.raises(NotForgotten, match="it has gone on since it was looked at"):
            at.forgetter().forget(at.shop, GONE)
        assert before - rows() == set()


def test_the_text_of_an_answer_that_another_has_used_meanwhile_stays() -> None:
    def used(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and "wait#" in str(call.params["Key"]):
            raise ClientError({"Error": {"Code": "ConditionalCheckFailedException", "Message": ""}}, call.operation)
        return proceed()

    early = "flowguard/shop/answers/1"
    with settled() as at:
        at.aws.client("s3").put_object(Bucket="texts", Key=early, Body=b"x")
        at.aws.client("dynamodb").update_item(
            TableName="flowguard",
            Key={"pk": {"S": f"wait#shop#paid-{GONE}"}, "sk": {"S": "early"}},
            UpdateExpression="SET #text = :pointer",
            ExpressionAttributeNames={"#text": "text"},
            ExpressionAttributeValues={":pointer": {"M": {"bucket": {"S": "texts"}, "key": {"S": early}}}},
        )
        with intercept(used):
            at.forgetter().forget(at.shop, GONE)
        assert early in at.aws._s3.state()["texts"]


def test_an_early_answer_that_nobody_has_used_or_waited_for_is_left_and_said() -> None:
    with settled() as at:
        key = {"pk": {"S": f"wait#shop#paid-{GONE}"}, "sk": {"S": "early"}}
        free = "REMOVE used_by, waited"
        at.aws.client("dynamodb").update_item(TableName="flowguard", Key=key, UpdateExpression=free)
        before = [row for row in at.aws.items("flowguard") if row["sk"] == key["sk"]]
        report = at.forget()
        assert (report.is_complete, report.counts.get("early answers")) == (True, None)
        [left] = [left for left in report.left if left.what == "early answers"]
        assert left.number == 1
        assert "they are for the next wait for their id" in left.why
        assert [row for row in at.aws.items("flowguard") if row["sk"] == key["sk"]] == before


def test_an_attribute_that_came_after_the_reading_is_removed_too() -> None:
    """Who attaches to a run writes it without a claim."""
    with settled() as at:
        forgetter = at.forgetter()
        read = forgetter.reader.read(Child("shop", GONE))
        at.aws.client("dynamodb").update_item(
            TableName="flowguard",
            Key={"pk": {"S": f"run#shop#{GONE}"}, "sk": {"S": "run"}},
            UpdateExpression="SET callers = :callers",
            ExpressionAttributeValues={":callers": {"M": {"term": {"S": MARKER}}}},
        )
        assert read.item is not None
        assert forgetter.forgetting.leave_trace(read.item, now=at.clock.now(), at=0, until=0, works_until=0)
        assert set(raw_item(at)) == KEPT


# -- children ---------------------------------------------------------------------------------------------------------


def test_children_are_named_and_left_where_their_flow_is_not_given() -> None:
    with settled() as at:
        report = at.forgetter().forget(at.shop, GONE)
        assert (report.children, report.is_complete) == ([], True)
        named = [left.what for left in report.left if left.what.startswith("picks of")]
        assert named == [f"picks of {GONE}-{name}" for name in ("0", "1", "2", "small")]
        assert [name for name in at.places(GONE) if name == "S3"] == ["S3"]


@pytest.mark.slow("cuts off after each call")
def test_a_child_that_has_a_run_of_somebody_else_by_now_is_no_child() -> None:
    with settled() as at:
        at.runner.send(at.picks, Part(part_id=f"{GONE}-small", note="another's"))
        at.runner.run()
        assert [child.object_id for child in at.forget().children] == [f"{GONE}-{name}" for name in ("0", "1", "2")]


def test_a_child_that_has_not_ended_is_left_and_said() -> None:
    with settled() as at:
        key = {"pk": {"S": f"run#picks#{GONE}-0"}, "sk": {"S": "run"}}
        at.aws.client("dynamodb").update_item(
            TableName="flowguard",
            Key=key,
            UpdateExpression="SET #status = :running, done = :no",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":running": {"S": "RUNNING"}, ":no": {"BOOL": False}},
        )
        report = at.forget()
        assert (report.is_done, report.is_complete) == (True, False)
        [left] = [child for child in report.children if not child.is_done]
        assert left.object_id == f"{GONE}-0"
        assert left.why_not is not None
        assert left.why_not.startswith("it is RUNNING at pick; cancel it first")


def not_begun(at: Place, number: int) -> Any:
    """Let a request of the object's group have no run and no answer. Returns the key of its row."""
    client: Any = at.aws.client("dynamodb")
    [row] = [row for row in at.aws.items("flowguard") if row["sk"]["S"] == f"row#{number}" and GONE in str(row)]
    key = {name: row[name] for name in ("pk", "sk")}
    client.update_item(TableName="flowguard", Key=key, UpdateExpression="REMOVE answer")
    child = {"pk": {"S": f"run#picks#{GONE}-{number}"}, "sk": {"S": "run"}}
    client.delete_item(TableName="flowguard", Key=child)
    return key


def test_requests_of_a_group_that_have_not_begun_are_said_until_they_have() -> None:
    with settled() as at:
        begun = raw_item(at, f"{GONE}-1", "picks")
        key = not_begun(at, 1)
        until = next(int(row["ttl"]["N"]) for row in at.aws.items("flowguard") if row["sk"] == key["sk"])
        for rows in (3, 0):
            epoch = item(at).epoch
            report = at.forget()
            assert (report.is_done, report.counts.get("rows of groups", 0)) == (False, rows - 1 if rows else 0)
            assert item(at).epoch == epoch + 1, "the rows are of no newer run"
            [left] = [left for left in report.left if left.what == "requests to children"]
            assert left.number == 1
            assert left.why.startswith(
                "they have not begun, and run when they come; repeat this when they have, or after"
            )
            assert iso(until * 1000) in left.why
            kept = [row for row in at.aws.items("flowguard") if row["pk"] == key["pk"]]
            assert sorted(row["sk"]["S"] for row in kept) == ["row#1", "shard"]
            assert [row for row in kept if row["sk"] == key["sk"]] == [
                {**key, "object_id": {"S": f"{GONE}-1"}, "ttl": {"N": str(until)}}
            ]
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=begun)
        assert at.forget().is_complete
        assert [row for row in at.aws.items("flowguard") if row["pk"] == key["pk"]] == []


def test_requests_that_have_not_begun_are_said_until_the_last_of_their_rows_expires() -> None:
    with settled() as at:
        later = at.clock.now() // 1000 + 90 * 86_400
        for number in (0, 1, 2):
            key = not_begun(at, number)
            if number == 1:
                at.aws.client("dynamodb").update_item(
                    TableName="flowguard",
                    Key=key,
                    UpdateExpression="SET #ttl = :later",
                    ExpressionAttributeNames={"#ttl": "ttl"},
                    ExpressionAttributeValues={":later": {"N": str(later)}},
                )
        [left] = [left for left in at.forget().left if left.what == "requests to children"]
        assert (left.number, iso(later * 1000) in left.why) == (3, True)


@pytest.mark.parametrize("name", ["answer", "request_id", "object_id"])
def test_of_what_has_its_answer_or_an_id_of_its_own_or_is_no_flows_no_run_is_missed(name: str) -> None:
    with settled() as at:
        key = not_begun(at, 1)
        text = "REMOVE object_id" if name == "object_id" else f"SET {name} = :own"
        values: Any = {} if name == "object_id" else {"ExpressionAttributeValues": {":own": {"S": "own"}}}
        at.aws.client("dynamodb").update_item(TableName="flowguard", Key=key, UpdateExpression=text, **values)
        assert at.forget().is_complete
        assert [row for row in at.aws.items("flowguard") if row["pk"] == key["pk"]] == []


def test_a_run_that_has_another_request_of_the_group_is_not_the_one_that_is_missed() -> None:
    with settled() as at:
        row = raw_item(at, f"{GONE}-1", "picks")
        not_begun(at, 1)
        other = {**row, "request_id": {"S": row["request_id"]["S"].replace(".group.0.1", ".group.0.2")}}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=other)
        assert "requests to children" in [left.what for left in at.forget().left]


def test_a_run_of_the_childs_object_that_another_flow_has_asked_for_is_not_the_one_that_is_missed() -> None:
    with settled() as at:
        row = raw_item(at, f"{GONE}-1", "picks")
        not_begun(at, 1)
        stem, _, member = row["request_id"]["S"].partition(".")
        other = {**row, "request_id": {"S": f"{stem[::-1]}.{member}"}}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=other)
        assert "requests to children" in [left.what for left in at.forget().left]


def test_of_two_groups_that_have_asked_one_child_its_run_does_not_say_which_has_begun() -> None:
    with settled() as at:
        key = not_begun(at, 1)
        client: Any = at.aws.client("dynamodb")
        item = raw_item(at, f"{GONE}-0", "picks")
        at.aws.client("dynamodb").put_item(
            TableName="flowguard",
            Item={
                **item,
                "pk": {"S": f"run#picks#{GONE}-1"},
                "request_id": {"S": item["request_id"]["S"].replace(".group.0.0", ".group.0.1")},
            },
        )
        later = {"S": key["pk"]["S"].replace("#g-", "#h-")}
        for row in [row for row in at.aws.items("flowguard") if row["pk"] == key["pk"]]:
            answered = {"answer": row["answer"]} if "answer" in row else {}
            if row["sk"]["S"] in ("shard", "row#1"):
                client.put_item(TableName="flowguard", Item={**row, **answered, "pk": later})
        [left] = [left for left in at.forget().left if left.what == "requests to children"]
        assert left.number == 2


def test_requests_of_groups_are_those_of_a_run_that_may_begin_where_there_is_none() -> None:
    with settled() as at:
        key = not_begun(at, 1)
        run = {"pk": {"S": f"run#shop#{GONE}"}, "sk": {"S": "run"}}
        at.aws.client("dynamodb").delete_item(TableName="flowguard", Key=run)
        report = at.forget()
        assert "requests to children" not in [left.what for left in report.left]
        [row] = [row for row in at.aws.items("flowguard") if (row["pk"], row["sk"]) == (key["pk"], key["sk"])]
        assert "body" in row


def test_a_run_that_two_runs_have_asked_for_is_forgotten_once() -> None:
    """The id of a child's child has the ids of both in it."""
    with settled() as at:
        child = f"{GONE}-small"
        of_child = stem_of("picks", child, raw_item(at, child, "picks"))
        put = at.aws.client("dynamodb").put_item
        grandchild = {
            **raw_item(at, child, "picks"),
            "pk": {"S": "run#picks#deep"},
            "request_id": {"S": f"{of_child}1.0"},
        }
        put(TableName="flowguard", Item=grandchild)
        report = at.forget()
        assert [each.object_id for each in report.children].count("deep") == 1
        assert [each.children for each in report.children] == [[]] * 5
        assert kinds(report)["run item"] == 6


def test_one_scan_finds_what_the_object_and_all_its_children_have_left() -> None:
    with settled() as at, intercept(Recorder()) as calls:
        assert len(at.forget().children) == 4
    assert calls.count("dynamodb", "Scan") == 1


def test_the_history_that_names_earlier_runs_stays_until_their_children_are_forgotten() -> None:
    with settled() as at:
        at.order(GONE, request_id="later")
        key = {"pk": {"S": f"run#picks#{GONE}-small"}, "sk": {"S": "run"}}
        update = at.aws.client("dynamodb").update_item
        names, statuses = {"#status": "status"}, {":status": {"S": "RUNNING"}, ":done": {"BOOL": False}}
        at.clock.advance(minutes=31)
        text = "SET #status = :status, done = :done"
        both: Any = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": statuses}
        update(TableName="flowguard", Key=key, UpdateExpression=text, **both)
        assert not at.forget().is_complete
        rows = [row["sk"]["S"] for row in at.aws.items("flowguard") if row["pk"]["S"] == f"run#shop#{GONE}"]
        assert [name for name in rows if name.startswith("history#")]
        statuses |= {":status": {"S": "COMPLETED"}, ":done": {"BOOL": True}}
        update(TableName="flowguard", Key=key, UpdateExpression=text, **both)
        assert at.forget().is_complete
        rows = [row["sk"]["S"] for row in at.aws.items("flowguard") if row["pk"]["S"] == f"run#shop#{GONE}"]
        assert [name for name in rows if name.startswith("history#")] == []


# -- dead letters and texts that are not so clear ---------------------------------------------------------------------


def bury(at: Place, body: str, attributes: Any = None) -> None:
    """Put a message among the shop's dead letters."""
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="shop-dead-letters")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes or {})


def test_a_request_to_a_child_that_lies_among_the_dead_letters_is_removed_with_the_child() -> None:
    with settled() as at:
        requests = [entry for url, entry in at.sent.calls if url.endswith("/picks") and f"{GONE}-small" in str(entry)]
        later = {"requestedat": {"DataType": "Number", "StringValue": str(at.clock.now())}}
        bury(at, requests[0]["MessageBody"], {**requests[0]["MessageAttributes"], **later})
        assert "dead letters" not in at.forgetter().forget(at.shop, GONE).counts
        assert len(at.aws.messages("shop-dead-letters")) == 1
        assert at.forget().counts == {"dead letters": 1}
        assert at.aws.messages("shop-dead-letters") == []


def test_letters_that_nobody_can_read_are_left_and_said() -> None:
    with settled() as at:
        bury(at, "x", {"flowguard": {"DataType": "String", "StringValue": "no JSON"}})
        report = at.forget()
        assert ("dead letters", 1) in [(left.what, left.number) for left in report.left]
        assert len(at.aws.messages("shop-dead-letters")) == 1


def test_letters_that_sqs_does_not_delete_are_said_and_it_is_not_done() -> None:
    def refusing(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "DeleteMessageBatch":
            return proceed()
        return {"Failed": [{"Id": "0", "Code": "InternalError", "Message": "later", "SenderFault": False}]}

    with settled(BAD) as at:
        with intercept(refusing):
            report = at.forget(BAD)
        assert (report.is_done, report.is_complete) == (False, False)
        assert report.left[-1].why == "SQS did not delete them: InternalError: later"
        assert at.forget(BAD).is_complete


def test_texts_of_a_request_that_another_object_has_too_are_left_and_said() -> None:
    with place() as at:
        at.order(GONE, request_id="both")
        at.order(STAYS, request_id="both")
        at.clock.advance(minutes=31)
        others = at.places(STAYS)
        report = at.forget()
        assert [left.why.partition(" is of")[0] for left in report.left if left.what == "texts in S3"] == [
            "request both"
        ]
        assert (at.places(STAYS), report.is_complete) == (others, True)


def test_texts_of_more_requests_are_removed_when_it_is_made_again() -> None:
    with settled() as at:
        for number in range(MOST_REQUESTS):
            row = {
                "pk": {"S": f"run#shop#{GONE}"},
                "sk": {"S": f"history#{number}"},
                "request_id": {"S": f"r-{number}"},
            }
            at.aws.client("dynamodb").put_item(TableName="flowguard", Item=row)
            at.aws.client("s3").put_object(Bucket="texts", Key=f"flowguard/shop/r-{number}/1-a", Body=b"x")
        first = at.forget()
        assert [left.number for left in first.left if left.what == "requests"] == [1]
        assert not first.is_complete
        again = at.forget()
        assert again.is_complete
        assert [key for key in at.aws._s3.state()["texts"] if "/r-" in key] == []


def test_letters_of_more_requests_stay_until_their_texts_are_removed() -> None:
    with settled() as at:
        [request] = [entry for url, entry in at.sent.calls if url.endswith("/shop") and f'"{GONE}"' in str(entry)][:1]
        for number in range(MOST_REQUESTS + 2):
            named = {
                "uniquerequestid": {"DataType": "String", "StringValue": f"r-{number:02d}"},
                "requestedat": {"DataType": "Number", "StringValue": str(item(at).requested_at - 1 - number)},
            }
            bury(at, request["MessageBody"], {**request["MessageAttributes"], **named})
        first = at.forget()
        left = at.aws.messages("shop-dead-letters")
        assert [each.number for each in first.left if each.what == "requests"] == [len(left)]
        assert 0 < len(left) < MOST_REQUESTS
        assert not first.is_complete
        assert at.forget().is_complete
        assert at.aws.messages("shop-dead-letters") == []


def test_what_a_child_with_a_long_id_has_asked_for_is_said() -> None:
    with settled() as at:
        request = f"{stem_of_run('shop', GONE, item(at).request_id, item(at).requested_at)}2.0"
        long_id = "r" * 80
        key = {"pk": {"S": "run#picks#other"}, "sk": {"S": "run"}}
        row = {**raw_item(at, f"{GONE}-small", "picks"), **key, "request_id": {"S": f"{request}{long_id}"}}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=row)
        [child] = [child for child in at.forget().children if child.object_id == "other"]
        assert [left.why.partition(",")[0] for left in child.left if left.what == "run"] == [
            "what it has asked for was not looked for"
        ]


def test_a_text_that_s3_does_not_remove_keeps_nothing_else_from_it() -> None:
    def locked(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "DeleteObject":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "it is locked"}}, "DeleteObject")
        return proceed()

    with settled(BAD) as at:
        with intercept(locked):
            report = at.forget(BAD)
        assert (report.is_done, at.aws.messages("shop-dead-letters")) == (False, [])
        [why] = [left.why for left in report.left if left.what == "texts in S3"]
        assert "S3 did not remove them" in why
        assert "it is locked" in why
        assert len(report.children) > 0
        assert [i for i in at.aws.items("flowguard") if i["sk"]["S"].startswith("forget#")]
        assert at.forget(BAD).is_complete
        assert at.places(BAD) == []


def test_texts_of_the_last_half_hour_are_left_and_said() -> None:
    with settled() as at:
        key = f"flowguard/shop/{item(at).request_id}/9-just-now"
        at.aws.client("s3").put_object(Bucket="texts", Key=key, Body=b"x")
        written = datetime.fromtimestamp(at.clock.now() / 1000, UTC)

        def dated(call: ApiCall, proceed: Proceed) -> Response:
            answer = proceed()
            if call.operation == "ListObjectVersions":
                for version in answer.get("Versions", ()):
                    version["LastModified"] = written - timedelta(hours=0 if version["Key"] == key else 1)
            return answer

        with intercept(dated):
            report = at.forget()
            assert [(left.what, left.number) for left in report.left if "last half hour" in left.why] == [
                ("texts in S3", 1)
            ]
            assert not report.is_done
            assert key in at.aws._s3.state()["texts"]
            at.clock.advance(minutes=31)
            assert at.forget().is_complete
        assert key not in at.aws._s3.state()["texts"]


def test_texts_of_a_bucket_that_is_gone_are_gone() -> None:
    def gone(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ListObjectVersions" and "older" in str(call.params):
            raise ClientError({"Error": {"Code": "NoSuchBucket", "Message": "gone"}}, call.operation)
        return proceed()

    with settled() as at:
        named = ['["texts", "flowguard/shop/older/1-state"]']
        row: Any = {"pk": {"S": f"run#shop#{GONE}"}, "sk": {"S": "forget#0007"}, "texts": {"SS": named}}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=row)
        with intercept(gone):
            assert at.forget().is_complete


def test_the_letter_of_a_newer_request_that_has_not_begun_is_left_and_said() -> None:
    with settled() as at:
        request = next(entry for url, entry in at.sent.calls if url.endswith("/shop") and GONE in str(entry))
        attributes = request["MessageAttributes"]
        newer = {
            **attributes,
            "uniquerequestid": {"DataType": "String", "StringValue": "newer"},
            "requestedat": {"DataType": "Number", "StringValue": str(at.clock.now())},
        }
        bury(at, request["MessageBody"], newer)
        bury(at, request["MessageBody"], attributes)
        bury(at, request["MessageBody"], {**newer, "uniquerequestid": attributes["uniquerequestid"]})
        bury(at, request["MessageBody"], {**newer, "requestedat": attributes["requestedat"]})
        report = at.forget()
        assert report.counts["dead letters"] == 3
        [why] = [left.why for left in report.left if left.what == "dead letters"]
        assert "they are of newer requests, which have not begun" in why
        assert len(at.aws.messages("shop-dead-letters")) == 1


def test_the_letter_of_an_object_without_a_run_is_removed() -> None:
    with settled() as at:
        request = next(entry for url, entry in at.sent.calls if url.endswith("/shop") and GONE in str(entry))
        body, attributes = json.loads(
            json.dumps([request["MessageBody"], request["MessageAttributes"]]).replace(GONE, "none")
        )
        bury(at, body, attributes)
        assert at.forget("none").counts == {"dead letters": 1}
        assert at.aws.messages("shop-dead-letters") == []


@pytest.mark.parametrize("has_trace", [True, False])
def test_groups_of_a_request_that_comes_after_the_item_was_read_stay(has_trace: bool) -> None:
    """The Scan is later than the Query of the item, by minutes in a large table."""

    def claimed(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "Scan" and not begun:
            begun.append(True)
            at.order(GONE, request_id="newer")
        return proceed()

    begun: list[bool] = []
    with place() as at:
        if has_trace:
            at.order(GONE)
            at.clock.advance(minutes=31)
            at.forget()
        with intercept(claimed):
            if has_trace:
                with pytest.raises(NotForgotten):
                    at.forgetter().forget(at.shop, GONE)
            else:
                report = at.forgetter().forget(at.shop, GONE)
                assert "rows of groups" in [left.what for left in report.left]
                assert "rows of groups" not in report.counts
        assert [row for row in at.aws.items("flowguard") if row["pk"]["S"].startswith("group#")]


def test_what_a_journal_names_is_removed_and_so_are_its_rows() -> None:
    with settled() as at:
        at.aws.client("s3").put_object(Bucket="texts", Key="flowguard/shop/older/1-state", Body=b"x")
        named = ['["texts", "flowguard/shop/older/1-state"]']
        row: Any = {"pk": {"S": f"run#shop#{GONE}"}, "sk": {"S": "forget#0007"}, "texts": {"SS": named}}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=row)
        at.forget()
        assert "flowguard/shop/older/1-state" not in at.aws._s3.state()["texts"]
        assert [i for i in at.aws.items("flowguard") if i["sk"]["S"].startswith("forget#")] == []


@pytest.mark.parametrize("after", [False, True])
def test_a_text_that_only_the_journal_names_is_removed_when_it_is_made_again(after: bool) -> None:
    """It was cut off at the first text, when nothing points to the others any more."""

    def dying(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "DeleteObject":
            return proceed()
        if after:
            proceed()
        raise CutOffError

    older, early = "flowguard/shop/older/1-state", "flowguard/shop/answers/1"
    with settled() as at:
        client: Any = at.aws.client("dynamodb")
        keys = {older: (f"run#shop#{GONE}", "run", "state"), early: (f"wait#shop#paid-{GONE}", "early", "text")}
        for key, (pk, sk, name) in keys.items():
            at.aws.client("s3").put_object(Bucket="texts", Key=key, Body=b"x")
            client.update_item(
                TableName="flowguard",
                Key={"pk": {"S": pk}, "sk": {"S": sk}},
                UpdateExpression="SET #name = :pointer",
                ExpressionAttributeNames={"#name": name},
                ExpressionAttributeValues={":pointer": {"M": {"bucket": {"S": "texts"}, "key": {"S": key}}}},
            )
        with pytest.raises(CutOffError), intercept(dying):
            at.forget()
        at.clock.advance(seconds=301)
        assert at.forget().is_complete
        assert {older, early} & at.aws._s3.state()["texts"].keys() == set()


@pytest.mark.slow("cuts off after each call")
def test_rows_of_callers_are_removed() -> None:
    with settled() as at:
        row: Any = {"pk": {"S": f"run#shop#{GONE}"}, "sk": {"S": "caller#t#k"}, "caller": {"S": MARKER}}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=row)
        assert at.forget().counts["rows of callers"] == 1
        assert [i for i in at.aws.items("flowguard") if i["sk"]["S"].startswith("caller#")] == []


@pytest.mark.parametrize("is_newer", [False, True])
def test_the_row_of_a_caller_that_attaches_meanwhile_is_removed_unless_a_newer_run_has_it(is_newer: bool) -> None:
    def attached(call: ApiCall, proceed: Proceed) -> Response:
        is_trace = call.operation == "UpdateItem" and not rows
        if is_trace and not is_newer:
            rows.append(put())
        answer = proceed()
        if is_trace and is_newer:
            rows.append(put())
            set_item(at, redrive={"N": "0"})
        return answer

    def put() -> Any:
        row: Any = {"pk": {"S": f"run#shop#{GONE}"}, "sk": {"S": "caller#t#k"}, "caller": {"S": MARKER}}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=row)
        return row

    rows: list[Any] = []
    with settled() as at:
        with intercept(attached):
            at.forgetter(at_once=True).forget(at.shop, GONE)
        assert [i for i in at.aws.items("flowguard") if i["sk"]["S"].startswith("caller#")] == rows[: int(is_newer)]


def test_messages_of_hops_that_stand_in_line_are_removed() -> None:
    with settled() as at:
        row: Any = {"pk": {"S": f"run#shop#{GONE}"}, "sk": {"S": "turn#t"}, "call": {"S": MARKER}}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=row)
        assert at.forget().counts["messages of hops in line"] == 1
        assert [i for i in at.aws.items("flowguard") if i["sk"]["S"].startswith("turn#")] == []


def test_the_trace_lives_no_shorter_than_the_item_did() -> None:
    with settled() as at:
        long = at.clock.now() // 1000 + 60 * 86_400
        client: Any = at.aws.client("dynamodb")
        client.update_item(
            TableName="flowguard",
            Key={"pk": {"S": f"run#shop#{GONE}"}, "sk": {"S": "run"}},
            UpdateExpression="SET #ttl = :ttl",
            ExpressionAttributeNames={"#ttl": "ttl"},
            ExpressionAttributeValues={":ttl": {"N": str(long)}},
        )
        at.forget()
        assert item(at).ttl == long
