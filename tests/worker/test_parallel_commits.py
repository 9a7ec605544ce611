"""Commits with recorded writes that are made at once: each record ends as it would have ended alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.services import aws_services
from flowguard.events import Event, EventType
from flowguard.handler import lambda_handler
from flowguard.items.writes import Condition
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Interceptor, Proceed, Recorder, Response, intercept
from flowguard.spans import Phase
from flowguard.step import Step
from flowguard.testing.context import FakeContext
from tests.aws.engines import on_dynamodb_local
from tests.observers.watching import Watching
from tests.scene import OrderState, Scene, record, scene
from tests.worker.test_parallel import PATIENCE, threaded
from tests.worker.test_together import BATCH, Killed, fails_for, items, next_hops, order, orders

TRANSACT = "TransactWriteItems"


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield threaded(found)


def object_of(call: ApiCall) -> str:
    """The object whose commit it is."""
    [update, *_] = call.params["TransactItems"]
    return str(update["Update"]["Key"]["pk"]["S"]).rpartition("/")[2].rpartition("#")[2]


def transactions(of_each: Callable[[str, Proceed], Response]) -> Interceptor:
    def watch(call: ApiCall, proceed: Proceed) -> Response:
        return of_each(object_of(call), proceed) if call.operation == TRANSACT else proceed()

    return watch


def priced(at: Scene) -> dict[str, int]:
    """How often each order was priced."""
    found = at.aws.client("dynamodb").scan(TableName="orders")["Items"]
    return {one["id"]["S"]: int(one["priced"]["N"]) for one in found if "priced" in one}


def done(at: Scene, count: int) -> list[bool]:
    return [item is not None and item.done for item in items(at, count)]


# -- at once ----------------------------------------------------------------------------------------------------------


def test_commits_with_writes_are_made_at_once_when_their_handlers_have_ended(at: Scene) -> None:
    barrier, lock = threading.Barrier(10, timeout=PATIENCE), threading.Lock()

    def meet(name: str, proceed: Proceed) -> Response:
        barrier.wait()
        with lock:  # the memory takes one call at a time
            return proceed()

    with intercept(transactions(meet)):
        assert at.deliver(*orders(at, 10)) == [True] * 10
    assert at.calls == [BATCH, *[TRANSACT] * 10]
    assert done(at, 10) == [True] * 10
    assert priced(at) == {f"o{number}": 1 for number in range(10)}
    assert len(at.sent("close-order")) == 10


def test_no_more_than_ten_wait_for_each_other(at: Scene) -> None:
    found: list[int] = []
    at.script.pricing = lambda step: found.append(sum(done(at, 12)))
    at.handler = at.handler.using(at.handler._services._replace(threads=False))
    assert at.deliver(*orders(at, 12)) == [True] * 12
    assert found == [*[0] * 10, 10, 10]


def test_those_with_and_without_writes_wait_for_each_other_and_are_made_each_in_its_way(at: Scene) -> None:
    at.deliver(*orders(at, 2))
    firsts = [order(at, number) for number in (2, 3)]
    with intercept(Recorder()) as calls:
        answered = at.handler({"Records": [record(one, p) for p, one in enumerate([*next_hops(at, 2), *firsts])]})
    assert answered == {"batchItemFailures": []}
    made = [call.operation for call in calls.calls if call.service == "dynamodb"]
    assert made == [BATCH, BATCH, TRANSACT, TRANSACT]
    assert [item.status for item in items(at, 2) if item is not None] == [Status.COMPLETED] * 2
    assert done(at, 4) == [True] * 4


def test_a_batch_ends_as_its_records_end_one_by_one() -> None:
    ends = []
    for threads, shared in ((False, False), (False, True), (True, True)):
        with scene() as at:
            threaded(at)
            at.handler = at.handler.using(at.handler._services._replace(threads=threads))
            at.handler.together = shared
            at.script.pricing = fails_for("o2")
            acked = [at.deliver(*orders(at, 4)), at.deliver(*next_hops(at, 4)), at.deliver(*orders(at, 4))]
            sent = {queue: sorted(one["Body"] for one in at.sent(queue)) for queue in ("emails", "close-order")}
            told = sorted(event.type.value for event in at.tally.events)
            ends.append((acked, items(at, 4), priced(at), sent, told))
    assert ends[0] == ends[1] == ends[2]


# -- each its own -----------------------------------------------------------------------------------------------------


def take(step: Step[OrderState], name: str) -> None:
    if name not in step.refused:
        key = {"id": f"stock-{name}"}
        held = Condition("attribute_not_exists(id)")
        step.update("orders", key, "SET taken = :yes", values={":yes": 1}, condition=held.expression, else_go_on=name)


def test_a_handler_whose_write_does_not_hold_is_called_again_with_its_own_refusals_alone(at: Scene) -> None:
    seen: list[tuple[str, list[str], threading.Thread]] = []

    def handle(step: Step[OrderState]) -> None:
        seen.append((step.object_id, sorted(step.refused), threading.current_thread()))
        take(step, "pen" if step.object_id in ("o0", "o2") else str(step.object_id))

    at.script.pricing = handle
    assert at.deliver(*orders(at, 3)) == [True] * 3
    here = threading.current_thread()
    assert seen == [("o0", [], here), ("o1", [], here), ("o2", [], here), ("o2", ["pen"], here)]
    assert done(at, 3) == [True] * 3
    assert priced(at) == {"o0": 1, "o1": 1, "o2": 1}


@pytest.mark.parametrize(("taken", "ends"), [(9, True), (10, False)])
def test_a_handler_is_called_ten_times_in_all(at: Scene, taken: int, ends: bool) -> None:
    calls: list[int] = []

    def handle(step: Step[OrderState]) -> None:
        if step.object_id == "o1":
            calls.append(len(step.refused))
            take(step, f"pen-{len(step.refused)}")

    for number in range(taken):
        at.aws.client("dynamodb").put_item(TableName="orders", Item={"id": {"S": f"stock-pen-{number}"}})
    at.script.pricing = handle
    assert at.deliver(*orders(at, 2)) == [True] * 2
    assert calls == list(range(10))
    assert done(at, 2) == [True, ends]
    assert at.told(EventType.RETRIED) == (not ends)


def test_a_condition_that_does_not_hold_fails_its_own_record_alone(at: Scene) -> None:
    def handle(step: Step[OrderState]) -> None:
        if step.object_id == "o1":
            step.check("orders", {"id": "nothing"}, "attribute_exists(id)")

    at.script.pricing = handle
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at.told(EventType.RETRIED) == 1
    assert done(at, 3) == [True, False, True]
    assert priced(at) == {"o0": 1, "o2": 1}


def test_a_record_that_was_overtaken_meanwhile_is_fenced_alone(at: Scene) -> None:
    newer = order(at, 1, requested_at=order(at, 1).requested_at + 1)._replace(request_id="newer")  # type: ignore[arg-type]

    def overtake(step: Step[OrderState]) -> None:
        if step.object_id == "o2":
            at.script.pricing = lambda step: None
            at.handler({"Records": [record(newer)]})

    at.script.pricing = overtake
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at.told(EventType.FENCED) == 1
    assert done(at, 3) == [True] * 3
    assert priced(at) == {"o0": 1, "o1": 1, "o2": 1}


def conflict() -> ClientError:
    reasons: Any = [{"Code": "None"}, {"Code": "TransactionConflict"}]
    response: Any = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    return ClientError(response, TRANSACT)


@pytest.mark.parametrize("times", [1, 4, 5])
def test_a_transaction_that_meets_another_one_is_made_again_alone_in_the_end(at: Scene, times: int) -> None:
    left, lock = [None] * times, threading.Lock()

    def meet(name: str, proceed: Proceed) -> Response:
        with lock:
            if name == "o1" and left:
                left.pop()
                raise conflict()
            return proceed()

    with intercept(transactions(meet)):
        assert at.deliver(*orders(at, 3)) == [True] * 3
    assert priced(at) == {"o0": 1, "o1": 1, "o2": 1}


def test_a_transaction_that_nobody_answers_leaves_its_own_record_in_the_queue(at: Scene) -> None:
    lock = threading.Lock()

    def fail(name: str, proceed: Proceed) -> Response:
        with lock:
            if name == "o1":
                raise ClientError({"Error": {"Code": "InternalServerError", "Message": "no"}}, TRANSACT)
            return proceed()

    with intercept(transactions(fail)):
        assert at.deliver(*orders(at, 3)) == [True, False, True]
    assert at.told(EventType.BROKEN) == 1
    assert done(at, 3) == [True, False, True]


def test_an_answer_that_was_lost_is_found_by_the_call_that_asks_alone(at: Scene) -> None:
    lost, lock = ["o1"], threading.Lock()

    def lose(name: str, proceed: Proceed) -> Response:
        with lock:
            answer = proceed()
            if name in lost:
                lost.remove(name)
                raise TimeoutError
            return answer

    with intercept(transactions(lose)):
        assert at.deliver(*orders(at, 3)) == [True] * 3
    assert priced(at) == {"o0": 1, "o1": 1, "o2": 1}
    assert len(at.script.handled) == 3
    assert len(at.sent("close-order")) == 3


@pytest.mark.parametrize("written", [True, False])
def test_who_dies_in_a_transaction_leaves_each_record_committed_or_not_begun_at_all(at: Scene, written: bool) -> None:
    lock = threading.Lock()

    def die(name: str, proceed: Proceed) -> Response:
        with lock:
            if name == "o1" and written:
                proceed()
            if name == "o1":
                raise Killed
            return proceed()

    with intercept(transactions(die)), pytest.raises(Killed):
        at.deliver(*orders(at, 3))
    assert done(at, 3) == [True, written, True]
    at.clock.advance(seconds=31)
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert priced(at) == {"o0": 1, "o1": 1, "o2": 1}
    assert len({one["MessageAttributes"]["uniquerequestid"]["StringValue"] for one in at.sent("close-order")}) == 3


def test_no_commit_waits_when_little_time_is_left(at: Scene) -> None:
    found: list[int] = []
    at.script.pricing = lambda step: found.append(sum(done(at, 3)))
    context = FakeContext(timeout=timedelta(milliseconds=1_999), clock=at.clock)
    assert at.deliver(*orders(at, 3), context=context) == [True] * 3
    assert found == [0, 1, 2]


def test_observers_are_told_one_thing_at_a_time(at: Scene) -> None:
    inside, met = threading.Lock(), []

    def watch(event: Event) -> None:
        assert inside.acquire(blocking=False), "two events at once"
        met.append((event.type, threading.current_thread()))
        inside.release()

    at.handler = at.handler.using(at.handler._services._replace(observer=watch))
    assert at.deliver(*orders(at, 5)) == [True] * 5
    assert [found for found, _ in met].count(EventType.COMMITTED) == 5
    assert {thread for _, thread in met} == {threading.current_thread()}


def test_the_span_of_the_commits_says_how_each_ended(at: Scene) -> None:
    def handle(step: Step[OrderState]) -> None:
        if step.object_id == "o1":
            step.check("orders", {"id": "nothing"}, "attribute_exists(id)")

    watching = Watching()
    at.script.pricing = handle
    handler = lambda_handler(at.flow, together=True, observers=[watching]).using(at.handler._services)
    handler({"Records": [record(one, place) for place, one in enumerate(orders(at, 3))]})
    [commit] = [span for span in watching.spans if span.phase is Phase.COMMIT]
    assert [message.object_id for message in commit.messages] == ["o0", "o1", "o2"]
    assert commit.facts == {"writes": 4, "verdict": "COMMITTED, ConditionFailed, COMMITTED"}


# -- on AWS's own implementation --------------------------------------------------------------------------------------


@pytest.mark.proof("transactions that really meet, on DynamoDB Local")
@pytest.mark.parametrize("how", ["sum", "latest"])
def test_those_that_write_to_one_item_all_end_in_one_of_their_orders(dynamodb_local_url: str, how: str) -> None:
    def write(step: Step[OrderState]) -> None:
        if how == "sum":
            step.update("orders", {"id": "all"}, "ADD priced :one", values={":one": 1})
        else:
            step.put("orders", {"id": "all", "latest": step.object_id, "priced": 10})

    with scene() as at:
        clients = on_dynamodb_local(dynamodb_local_url)
        clients.dynamodb.create_table(
            TableName="orders",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        services = aws_services(Settings(), clients, clock=at.clock)._replace(sender=at.handler._services.sender)
        at.handler = lambda_handler(at.flow, together=True).using(services._replace(threads=True))
        at.script.pricing = write
        answer = at.handler({"Records": [record(one, place) for place, one in enumerate(orders(at, 10))]})
        assert answer == {"batchItemFailures": []}
        assert len(at.script.handled) == 10
        found = {one["id"]["S"]: one for one in clients.dynamodb.scan(TableName="orders")["Items"]}
        assert found["all"]["priced"] == {"N": "10"}
        assert [found[f"o{number}"]["priced"] for number in range(10)] == [{"N": "1"}] * 10
