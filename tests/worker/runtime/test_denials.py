"""Denials: final once they and the record have lasted for minutes, whatever used up the record's receives."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.destinations import Queue
from flowguard.errors import WriteDenied
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.turn import Turn
from flowguard.worker.denials import AT_LAST, FORGOTTEN_AFTER, MOST_KNOWN, Denials, place_of
from flowguard.worker.fail_phase import FailPhase
from flowguard.worker.patience import SOME_MINUTES
from tests.scene import START, OrderState, Scene, record
from tests.worker.runtime.mishaps import boom, refuses, refuses_writes, reject_once
from tests.worker.runtime.test_given_up import ACKED, came_back, give_up

SENT = 1_800_000_000_000
MINUTES = SOME_MINUTES // timedelta(milliseconds=1)
FORGOTTEN = FORGOTTEN_AFTER // timedelta(milliseconds=1)
DAY_MS = AT_LAST // timedelta(milliseconds=1)


def received(receives: int, **changes: object) -> Envelope:
    [record] = sqs_event("orders", {}, receive_count=receives)["Records"]
    record["attributes"]["SentTimestamp"] = str(SENT)
    [envelope] = normalize({"Records": [record | changes]})
    assert isinstance(envelope, Envelope)
    return envelope


@pytest.mark.parametrize(
    ("receives", "lasted", "final"),
    [(2, MINUTES, False), (3, MINUTES, True), (3, MINUTES - 1, False), (99, MINUTES - 1, False), (99, 0, False)],
)
def test_a_denial_is_final_when_it_and_its_record_have_lasted_for_minutes(
    receives: int, lasted: int, final: bool
) -> None:
    denials = Denials()
    assert not denials.are_final("a queue", received(1), SENT)
    assert denials.are_final("a queue", received(receives), SENT + lasted) is final


@pytest.mark.parametrize(
    ("receives", "since", "final"),
    [(3, SENT - DAY_MS + 1, False), (3, SENT - DAY_MS, True), (2, SENT - DAY_MS, False)],
)
def test_a_record_that_went_back_is_as_old_as_its_first(receives: int, since: int, final: bool) -> None:
    assert Denials().are_final("a queue", received(receives), SENT, since) is final


@pytest.mark.parametrize(("lasted", "final"), [(MINUTES, True), (MINUTES - 1, False)])
def test_a_message_that_is_another_one_each_time_comes_often_by_itself(lasted: int, final: bool) -> None:
    denials = Denials()
    denials.are_final("a queue", received(1), SENT)
    assert denials.are_final("a queue", received(1), SENT + lasted, SENT, comes_often=True) is final


@pytest.mark.parametrize(
    ("since", "turn", "often"), [(9, True, True), (1, True, True), (0, True, False), (9, False, False)]
)
def test_only_who_stands_in_line_and_comes_again_is_asked_for_as_such(since: int, *, turn: bool, often: bool) -> None:
    asked = []

    def are_final(*given: Any, comes_often: bool) -> bool:
        asked.append((given, comes_often))
        return False

    message = SimpleNamespace(since=since, turn=Turn(1, "customer#0") if turn else None)
    services = SimpleNamespace(clock=SimpleNamespace(now=lambda: SENT), denials=SimpleNamespace(are_final=are_final))
    phase: Any = SimpleNamespace(_services=services)
    arrival: Any = SimpleNamespace(message=message, envelope="envelope")
    denied = WriteDenied("no", ("stock",))
    nothing: Any = None
    with pytest.raises(WriteDenied):
        FailPhase._is_parked_for(phase, arrival, nothing, denied)
    assert asked == [((denied.tables, "envelope", SENT, since), often)]


def test_a_record_that_no_queue_brings_again_cannot_wait() -> None:
    assert Denials().are_final("a queue", received(1, eventSourceARN=None), SENT)


def test_what_another_thread_has_taken_just_now_has_not_lasted() -> None:
    denials, table = Denials(), frozenset(["a"])
    denials.are_final(table, received(9), SENT)
    assert denials.have_lasted(table, SENT + MINUTES)
    assert not denials.have_lasted(table, SENT + MINUTES - 1)
    denials.ended_for(table)
    assert not denials.have_lasted(table, SENT + MINUTES)


def test_what_was_taken_between_is_denied_anew() -> None:
    denials = Denials()
    queue, table = "sqs:q", frozenset(["a", "b"])
    denials.are_final(queue, received(9), SENT)
    denials.are_final(table, received(9), SENT)
    denials.ended(Send(Kind.SIDE, Queue("q"), "", "1"))
    denials.ended_for(["a", "c"])
    assert not denials.are_final(queue, received(9), SENT + MINUTES)
    assert denials.are_final(table, received(9), SENT + MINUTES), "each for itself"
    denials.ended_for(["c", "b", "a"])
    assert not denials.are_final(table, received(9), SENT + MINUTES)


def test_a_scheduler_that_is_denied_is_not_the_queue_that_it_sends_to() -> None:
    soon = Send(Kind.NEXT, Queue("q"), "", "1", delay=900)
    assert (place_of(soon), place_of(soon._replace(delay=901))) == ("sqs:q", "sqs:q by a schedule")


@pytest.mark.parametrize(
    ("receives", "later", "final"), [(3, DAY_MS - 1, False), (3, DAY_MS, True), (2, DAY_MS, False)]
)
def test_a_record_of_a_day_has_waited_whatever_its_process_knows(receives: int, later: int, final: bool) -> None:
    record = received(receives)
    assert record.sent_at is not None
    assert Denials().are_final("a queue", record, record.sent_at + later) is final


def test_a_record_that_does_not_say_when_it_was_sent_is_a_new_one() -> None:
    record = received(3, attributes={"ApproximateReceiveCount": "3"})
    assert record.sent_at is None
    assert not Denials().are_final("a queue", record, SENT)


def test_of_many_that_are_refused_the_old_ones_are_forgotten() -> None:
    denials = Denials()
    for number in range(MOST_KNOWN):
        denials.are_final(f"queue {number}", received(9), SENT + (number == 7) * FORGOTTEN)
    denials.are_final("one more", received(9), SENT + FORGOTTEN + 1)
    assert sorted(map(str, denials._denied)) == ["one more", "queue 7"]


@pytest.mark.parametrize(("later", "final"), [(FORGOTTEN, True), (FORGOTTEN + 1, False)])
def test_a_denial_of_hours_ago_is_another(later: int, final: bool) -> None:
    denials = Denials()
    denials.are_final("a queue", received(9), SENT)
    assert denials.are_final("a queue", received(9), SENT + later) is final


@pytest.mark.parametrize("to", ["emails", "close-order"])
def test_a_record_of_a_backlog_that_meets_a_moment_of_denial_parks_nothing(at: Scene, to: str) -> None:
    at.receives = 12
    with intercept(refuses(to)):
        assert at.deliver(at.message()) == [False]
    at.clock.advance(seconds=31)
    assert at.deliver(at.message()) == [True]
    assert (at.priced(), at.sent("dead")) == (1, [])


def test_a_table_that_is_denied_for_a_moment_ends_no_run_that_sqs_gave_up_before(at: Scene) -> None:
    at.clock.advance(seconds=6 * 3_600)
    with intercept(refuses_writes("AccessDeniedException")):
        assert at.deliver(at.message(since=START)) == [False]
    at.clock.advance(seconds=31)
    assert at.deliver(at.message(since=START)) == [True]
    assert (at.priced(), at.sent("dead")) == (1, [])


def test_a_record_whose_way_back_is_denied_for_a_moment_goes_back_later(at: Scene) -> None:
    at.clock.advance(seconds=3_600)
    with intercept(refuses("price-order")):
        assert give_up(at, at.message()) != ACKED
    assert at.sent("dead") == []
    assert give_up(at, at.message()) == ACKED
    assert len(came_back(at)) == 1


def test_a_record_whose_way_back_is_denied_for_minutes_is_parked(at: Scene) -> None:
    third = {"ApproximateReceiveCount": "3"}
    with intercept(refuses("price-order")):
        give_up(at, at.message())
        at.clock.advance(seconds=SOME_MINUTES.seconds)
        assert give_up(at, at.message(), attributes=record(at.message())["attributes"] | third) == ACKED
    assert len(at.sent("dead")) == 1


def test_writes_that_were_applied_before_the_commit_end_a_denial_of_their_tables(at: Scene) -> None:
    denials, writes = at.handler._services.denials, frozenset(["audit"])
    at.aws.create_table("audit")
    denials.are_final(writes, received(9), at.clock.now())

    def applied(step: Step[OrderState]) -> None:
        with step.apply("audited"):
            step.put("audit", {"pk": "o1", "sk": "audited"})

    at.script.pricing = applied
    assert at.deliver(at.message()) == [True]
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    assert not denials.are_final(writes, received(9), at.clock.now())


def test_a_stage_whose_writes_were_taken_between_is_denied_anew(at: Scene) -> None:
    denials, writes = at.handler._services.denials, frozenset(["orders"])
    denials.are_final(writes, received(9), at.clock.now())
    at.deliver(at.message())
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    assert not denials.are_final(writes, received(9), at.clock.now())


def test_the_end_of_a_run_that_is_given_up_for_a_denial_is_no_sign_that_it_is_over(at: Scene) -> None:
    denials, writes = at.handler._services.denials, frozenset(["orders"])
    denials.are_final(writes, received(9), at.clock.now())
    at.script.pricing = lambda step: reject_once(at)
    at.deliver(at.message())
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    assert denials.are_final(writes, received(9), at.clock.now())


def test_a_queue_that_has_taken_a_message_between_is_denied_anew(at: Scene) -> None:
    at.receives = 12
    with intercept(refuses("emails")):
        assert at.deliver(at.message()) == [False]
    assert at.deliver(at.order("o2", request_id="run-2")) == [True]
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    with intercept(refuses("emails")):
        assert at.deliver(at.message()) == [False]


def test_throttles_before_it_are_no_denial(at: Scene) -> None:
    at.receives = 12
    with intercept(refuses("emails", "RequestThrottled", 400)):
        assert at.deliver(at.message()) == [False]
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    with intercept(refuses("emails")):
        assert at.deliver(at.message()) == [False]
        at.clock.advance(seconds=SOME_MINUTES.seconds)
        assert at.deliver(at.message()) == [True]


def test_a_table_that_is_denied_for_a_moment_ends_no_run(at: Scene) -> None:
    at.receives = 12
    with intercept(refuses_writes("AccessDeniedException")):
        assert at.deliver(at.message()) == [False]
        at.clock.advance(seconds=SOME_MINUTES.seconds)
        assert at.deliver(at.message()) == [True]
    item: Any = at.item()
    assert (item.status, len(at.sent("dead"))) == (Status.FAILED, 1), "no flow would undo it"


def test_a_new_record_waits_for_a_table_that_is_denied_for_minutes(at: Scene) -> None:
    with intercept(refuses_writes("AccessDeniedException")):
        assert at.deliver(at.message()) == [False]
        at.clock.advance(seconds=SOME_MINUTES.seconds)
        assert at.deliver(at.message()) == [False]
    item: Any = at.item()
    assert (item.status, at.sent("dead")) == (Status.RUNNING, [])


@pytest.mark.parametrize("is_called", [False, True], ids=["a record of a day", "a direct call"])
def test_a_table_that_nobody_knows_to_be_denied_for_minutes_parks_the_message(at: Scene, is_called: bool) -> None:
    at.receives = 3
    at.clock.advance(seconds=AT_LAST.days * 86_400)
    with intercept(refuses_writes("AccessDeniedException")):
        if is_called:
            assert "WriteDenied" in at.handler({"order_id": "o1"}, None)["problem"]
        else:
            assert at.deliver(at.message()) == [True]
    item: Any = at.item()
    assert (item.status, len(at.sent("dead"))) == (Status.RUNNING, 1)


def test_a_record_that_went_back_is_as_old_as_its_first_in_a_function_too(at: Scene) -> None:
    at.receives = 3
    with intercept(refuses_writes("AccessDeniedException")):
        assert at.deliver(at.message(since=START - DAY_MS + 1)) == [False]
        assert at.deliver(at.message(since=START - DAY_MS)) == [True]
    assert len(at.sent("dead")) == 1


def test_nothing_is_parked_for_a_table_where_the_run_table_takes_no_lease_back(at: Scene) -> None:
    def denied(call: ApiCall, proceed: Proceed) -> Response:
        is_claim = "if_not_exists" in str(call.params.get("UpdateExpression"))
        if call.operation == "TransactWriteItems" or (call.operation == "UpdateItem" and not is_claim):
            error = {"Code": "AccessDeniedException", "Message": "no"}
            response: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(response, call.operation)
        return proceed()

    at.receives = 3
    at.clock.advance(seconds=AT_LAST.days * 86_400)
    with intercept(denied):
        assert at.deliver(at.message()) == [False]
    assert at.sent("dead") == []


def test_a_commit_that_is_fenced_is_no_sign_that_its_tables_are_denied_no_more(at: Scene) -> None:
    denials, writes = at.handler._services.denials, frozenset(["orders"])
    denials.are_final(writes, received(9), at.clock.now())

    def taken_over(step: Step[OrderState]) -> None:
        key: Any = {"pk": {"S": "run#orders#o1"}, "sk": {"S": "run"}}
        values: Any = {":epoch": {"N": "99"}}
        dynamodb = at.aws.client("dynamodb")
        dynamodb.update_item(
            TableName="flowguard", Key=key, UpdateExpression="SET epoch = :epoch", ExpressionAttributeValues=values
        )

    at.script.pricing = taken_over
    assert at.deliver(at.message()) == [False]
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    assert denials.are_final(writes, received(9), at.clock.now())


def test_a_commit_without_its_writes_is_no_sign_that_a_table_is_denied_no_more(at: Scene) -> None:
    denials, others = at.handler._services.denials, frozenset(["audit"])
    denials.are_final(others, received(9), at.clock.now())
    at.deliver(at.message())
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    assert denials.are_final(others, received(9), at.clock.now())


def test_dead_letters_that_have_taken_one_between_are_denied_anew(at: Scene) -> None:
    denials = at.handler._services.denials
    denials.are_final("sqs:dead", received(9), at.clock.now())
    at.receives = 3
    denials.are_final("sqs:emails", received(3), at.clock.now() - MINUTES)
    with intercept(refuses("emails")):
        assert at.deliver(at.message()) == [True]
    assert len(at.sent("dead")) == 1
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    assert not denials.are_final("sqs:dead", received(9), at.clock.now())


def test_a_backlog_whose_retry_is_denied_for_a_moment_ends_no_run(at: Scene) -> None:
    at.receives, at.script.pricing = 12, boom
    with intercept(refuses("price-order")):
        assert at.deliver(at.message()) == [False]
        at.clock.advance(seconds=SOME_MINUTES.seconds - 1)
        assert at.deliver(at.message()) == [False]
    item: Any = at.item()
    assert item.status is Status.RUNNING
    assert at.deliver(at.message()) == [True]
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    with intercept(refuses("price-order")):
        assert at.deliver(at.message(retry=1)) == [False], "its queue has taken one between"
