"""A flow with a full history: what each commit and each failed attempt tells, and that a stale worker tells nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pydantic import BaseModel

from flowguard.aws.history_rows import FullHistory, read_rows
from flowguard.aws.services import aws_services, aws_store
from flowguard.clock import no_pause
from flowguard.errors import Reject, Retry, TooManyWrites
from flowguard.events import EventType
from flowguard.failed import Failure
from flowguard.flow import ATTACH, AnyFlow, Flow
from flowguard.handler import lambda_handler
from flowguard.items.writes import MOST_WRITES
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run_history import How
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.message import ErrorNote, Message
from tests.aws.engines import same_clients
from tests.scene import ENGINES, START, Order, OrderState, Scene, Script, record, scene, told_orders, two_stages

DAY_MS = 86_400_000


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(told_orders) as found:
        yield found


@pytest.fixture(params=ENGINES)
def anywhere(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with scene(told_orders, engine=request.param) as found:
        yield found


class Paid(BaseModel):
    paid: dict[str, Any]


def rows(at: Scene, most: int = 100, object_id: str = "o1") -> FullHistory:
    return read_rows(same_clients().dynamodb, "flowguard", "orders", object_id, most)


def told(at: Scene) -> list[tuple[int, int, How, str | None]]:
    """Hop, attempt, how it ended, and the error's type."""
    found = (one for one in rows(at).told)
    return [(one.happened.hop, one.happened.retry + 1, one.happened.how, one.error) for one in found]


def items(at: Scene) -> list[Any]:
    found: Any = at.aws.client("dynamodb").scan(TableName="flowguard")["Items"]
    return sorted((one for one in found if one["sk"]["S"] != "run"), key=lambda one: str(one["sk"]))


def fails(step: Step[OrderState]) -> None:
    raise RuntimeError("no tariff")


def test_each_commit_and_each_failed_attempt_is_told(anywhere: Scene) -> None:
    at = anywhere
    at.script.pricing = fails
    message = at.message()
    for _ in range(2):
        at.deliver(message)
        message = message.again(ErrorNote("RuntimeError", "no tariff", at.clock.now()))
        at.clock.advance(seconds=20)
    at.script.pricing = lambda step: at.clock.advance(seconds=1.25)
    at.deliver(message)
    at.deliver(at.second())
    assert told(at) == [
        (1, 1, How.RETRIED, "RuntimeError"),
        (1, 2, How.RETRIED, "RuntimeError"),
        (1, 3, How.COMMITTED, None),
        (2, 1, How.COMPLETED, None),
    ]
    third = rows(at).told[2].happened
    assert (third.ms, third.epoch, third.stage) == (1_250, 3, "price-order")


def test_a_run_that_fails_for_good_tells_the_type_of_its_error(at: Scene) -> None:
    at.script.pricing = lambda step: _raise(Reject("the card is declined"))
    at.deliver(at.message())
    assert told(at) == [(1, 1, How.FAILED, "Reject")]


def test_the_only_calls_are_the_claim_and_one_transaction(at: Scene) -> None:
    at.deliver(at.message())
    assert at.calls == ["UpdateItem", "TransactWriteItems"]
    at.deliver(at.second())
    assert at.calls == ["UpdateItem", "TransactWriteItems"]
    at.deliver(at.second())
    assert at.calls == ["UpdateItem"], "a copy tells nothing"
    assert len(items(at)) == 2


def test_a_flow_without_it_writes_no_row_and_makes_no_call_more() -> None:
    with scene() as at:
        at.script.closing = fails
        at.deliver(at.message())
        at.deliver(at.second())
        assert at.calls == ["UpdateItem"]
        assert items(at) == []
        item = at.item()
        assert item is not None
        assert not item.full_history


def test_a_row_expires_with_the_retention_and_says_whose_it_is(at: Scene) -> None:
    at.deliver(at.message())
    [row] = items(at)
    assert row["pk"]["S"] == "run#orders#o1"
    assert row["sk"]["S"] == f"history#{START:015d}#1"
    assert row["request_id"]["S"] == "run-1"
    assert int(row["requested_at"]["N"]) == at.message().requested_at
    assert int(row["ttl"]["N"]) == (START + 28 * DAY_MS) // 1000
    assert "error" not in row


def test_a_row_of_a_wait_is_there_when_the_run_goes_on() -> None:
    within = timedelta(days=60)

    def patient(script: Script) -> AnyFlow:
        class Price(Stage[Order, OrderState], name="price-order", inbox="price-order", then="close-order"):
            def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
                return Close.when_all(paid=step.event("paid"), within=within)

        class Close(Stage[Paid, OrderState], name="close-order", inbox="close-order"):
            def handle(self, paid: Paid, step: Step[OrderState]) -> Outcome:
                return Done()

        class Orders(
            Flow, name="orders", object_id="order_id", full_history=True, trust_senders=True, answers="answers"
        ):
            stages = (Price, Close)

        return Orders

    with scene(patient) as at:
        at.aws.create_queue("answers")
        at.deliver(at.message())
        [row] = [one for one in items(at) if one["sk"]["S"].startswith("history#")]
        assert int(row["ttl"]["N"]) == (START + 60 * DAY_MS + 28 * DAY_MS) // 1000


def test_a_row_is_kept_for_as_long_as_its_flow_remembers() -> None:
    class Price(Stage[Order, OrderState], name="price-order", inbox="price-order"):
        def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
            return Done()

    class Orders(Flow, name="orders", object_id="order_id", full_history=True, remember=timedelta(days=365)):
        stages = (Price,)

    with scene(lambda script: Orders) as at:
        at.deliver(at.message())
        [row] = items(at)
        assert int(row["ttl"]["N"]) == (START + 365 * DAY_MS) // 1000


def test_a_row_of_a_failed_attempt_expires_too_and_the_item_says_that_there_are_rows(at: Scene) -> None:
    at.script.pricing = fails
    at.deliver(at.message())
    [row] = items(at)
    assert int(row["ttl"]["N"]) == (START + 28 * DAY_MS) // 1000
    item = at.item()
    assert item is not None
    assert item.full_history


def overtaken(at: Scene, then: Callable[[Step[OrderState]], object]) -> Callable[[Step[OrderState]], object]:
    """A handler during which a newer run takes the object and commits."""

    def handler(step: Step[OrderState]) -> object:
        at.script.pricing = lambda step: None
        at.deliver(at.newer())
        return then(step)

    return handler


def test_a_worker_that_was_overtaken_tells_nothing_and_the_newer_run_tells_of_it(anywhere: Scene) -> None:
    at = anywhere
    at.script.pricing = overtaken(at, lambda step: None)
    at.deliver(at.message())
    assert at.told(EventType.FENCED) == 1
    assert told(at) == [(1, 1, How.SUPERSEDED, None), (1, 1, How.COMMITTED, None)]
    assert [one["request_id"]["S"] for one in items(at)] == ["run-2"]


def test_a_worker_that_was_overtaken_and_fails_tells_nothing(anywhere: Scene) -> None:
    at = anywhere
    at.script.pricing = overtaken(at, fails)
    at.deliver(at.message())
    assert at.told(EventType.RETRIED) == 1
    assert [one["request_id"]["S"] for one in items(at)] == ["run-2"]


class AnswerLost:
    """Loses the answer to the first transaction that is applied."""

    def __init__(self) -> None:
        self.lost = 0

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        answer = proceed()
        if call.operation == "TransactWriteItems" and not self.lost:
            self.lost += 1
            raise ConnectionError("no answer")
        return answer


def test_a_commit_whose_answer_was_lost_is_told_once(at: Scene) -> None:
    with intercept(AnswerLost()) as losing:
        at.deliver(at.message())
    at.clock.advance(seconds=60)
    at.deliver(at.message())
    assert losing.lost == 1
    assert told(at) == [(1, 1, How.COMMITTED, None)]
    assert at.priced() == 1


def test_a_failed_attempt_whose_row_was_not_answered_is_not_acked_and_is_taken_over(at: Scene) -> None:
    at.script.pricing = fails
    with intercept(AnswerLost()):
        assert at.deliver(at.message()) == [False]
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=60)
    at.deliver(at.message())
    assert told(at) == [(1, 1, How.RETRIED, "RuntimeError"), (1, 1, How.COMMITTED, None)], "its own row says more"


def test_a_stage_without_a_lease_tells_its_commits_alone() -> None:
    def unleased(script: Script) -> AnyFlow:
        class Price(
            Stage[Order, OrderState],
            name="price-order",
            inbox="price-order",
            lease=False,
            retry=RetryPolicy(attempts=3, backoff=Fixed(20)),
        ):
            def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
                script.pricing(step)
                return Done()

        class Orders(Flow, name="orders", object_id="order_id", full_history=True, trust_senders=True):
            stages = (Price,)

        return Orders

    with scene(unleased) as at:
        at.aws.create_queue("orders-dead-letters")
        at.script.pricing = fails
        at.deliver(at.message())
        assert (at.calls, items(at)) == (["GetItem"], [])
        at.script.pricing = lambda step: None
        at.deliver(at.message())
        assert at.calls == ["GetItem", "TransactWriteItems"]
        assert told(at) == [(1, 1, How.COMPLETED, None)]


def test_a_permission_that_is_missing_keeps_the_record_in_its_queue(at: Scene) -> None:
    def denied(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "TransactWriteItems":
            refusal: Any = {"Error": {"Code": "AccessDeniedException", "Message": "dynamodb:PutItem"}}
            raise ClientError(refusal, call.operation)
        return proceed()

    with intercept(denied):
        assert at.deliver(at.message()) == [False]
        at.script.pricing = fails
        assert at.deliver(at.order("o2")) == [False]
    assert items(at) == []


def writes(number: int) -> Callable[[Step[OrderState]], None]:
    def record_them(step: Step[OrderState]) -> None:
        for place in range(number):
            step.put("orders", {"id": f"x{place}"})

    return record_them


def test_a_commit_that_has_no_row_has_room_for_each_write() -> None:
    with scene() as at:
        at.script.pricing = writes(MOST_WRITES - 1)
        at.deliver(at.message())
        assert at.priced() == 1


def test_a_row_leaves_room_for_one_write_less(at: Scene) -> None:
    at.script.pricing = writes(MOST_WRITES - 2)  # the stage itself records one more
    at.deliver(at.message())
    assert told(at) == [(1, 1, How.COMMITTED, None)]
    at.script.pricing = writes(MOST_WRITES - 1)
    at.deliver(at.newer())
    item = aws_store(Settings(), same_clients()).read("orders", "o1")
    assert item is not None
    assert item.error is not None
    assert str(TooManyWrites("price-order", MOST_WRITES - 1)) in item.error


def test_an_error_with_a_hostile_name_is_told(at: Scene) -> None:
    name = "E" * 5_000 + "\n"
    at.script.pricing = lambda step: _raise(type(name, (Exception,), {})("…"))
    at.deliver(at.message())
    first = rows(at).told[0]
    assert first.error is not None
    assert first.error.startswith("EEE")
    assert len(first.error) <= 200


def test_a_row_that_was_written_by_hand_breaks_nothing(at: Scene) -> None:
    at.deliver(at.message())
    made: dict[str, Any] = {"1": {}, "2": {"told": {"S": "a,b\n"}}, "z": {"told": {"N": "1"}, "error": {"N": "1"}}}
    for key, more in made.items():
        item: Any = {"pk": {"S": "run#orders#o1"}, "sk": {"S": f"history#{key}"}, **more}
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=item)
    assert told(at) == [(1, 1, How.COMMITTED, None)]


def test_the_newest_rows_are_read_in_pages_and_no_more_than_asked_for(at: Scene) -> None:
    at.script.pricing = fails
    first = at.message()
    for retry in range(3):
        at.deliver(first)
        first = first.again(ErrorNote("RuntimeError", "no tariff", at.clock.now()))
        at.clock.advance(seconds=20)
        assert retry < 3
    at.deliver(at.newer())
    everything = rows(at)
    assert not everything.more
    assert [one.happened.epoch for one in everything.told] == [1, 2, 3, 4]
    newest = rows(at, 2)
    assert newest.more
    assert newest.told == everything.told[-2:]
    assert rows(at, 4) == everything
    with intercept(Pages()) as pages:
        assert rows(at, 3) == FullHistory(everything.told[-3:], True)
    assert pages.asked == 4
    assert pages.consistent == {True}


class Pages:
    """Lets each query answer one item, as DynamoDB does where items are large."""

    def __init__(self) -> None:
        self.asked = 0
        self.consistent: set[bool] = set()

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "Query":
            self.asked += 1
            params: Any = call.params
            params["Limit"] = 1
            self.consistent.add(params.get("ConsistentRead", False))
        return proceed()


def _raise(error: Exception) -> None:
    raise error


def test_commits_of_a_batch_go_alone(at: Scene) -> None:
    services = aws_services(Settings(), same_clients(), clock=at.clock, pause=no_pause)
    together = lambda_handler(at.flow, together=True).using(services)
    at.deliver(at.order("o1"), at.order("o2"))
    with intercept(Recorder()) as calls:
        together({"Records": [record(at.second(object_id=name), n) for n, name in enumerate(("o1", "o2"))]})
    made = [call.operation for call in calls.calls if call.service == "dynamodb"]
    assert made == ["BatchExecuteStatement", "TransactWriteItems", "TransactWriteItems"]
    assert len(items(at)) == 4


def test_a_record_that_is_retried_in_place_tells_before_its_attempt_is_counted() -> None:
    with scene(told_orders) as at:
        at.script.pricing = fails
        with intercept(Recorder()) as calls:
            at.handler({"Records": [in_fifo_queue(at.message())]}, None)
        made = [call.operation for call in calls.calls if call.service == "dynamodb"]
        assert made == ["UpdateItem", "TransactWriteItems", "UpdateItem"]
        assert told(at) == [(1, 1, How.RETRIED, "RuntimeError")]


def test_an_attempt_in_place_whose_row_is_not_written_is_not_noted_as_one_that_rests(at: Scene) -> None:
    """It is not over: whoever takes it over still counts the workers that it has killed."""

    def rest(step: Step[OrderState]) -> None:
        raise Retry(after=timedelta(minutes=10))

    def no_rows(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "TransactWriteItems":
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)
        return proceed()

    at.script.pricing = rest
    with intercept(no_rows):
        assert at.handler({"Records": [in_fifo_queue(at.message())]}, None)["batchItemFailures"]
    item = at.item()
    assert item is not None
    assert (item.back_off, item.retry) == (None, 0)


def in_fifo_queue(message: Message) -> dict[str, Any]:
    found = record(message)
    found["eventSourceARN"] += ".fifo"
    found["attributes"]["MessageGroupId"] = "o1"
    return found


def test_what_a_failed_on_failed_hop_and_a_hop_that_gives_up_tell() -> None:
    def undoing(script: Script) -> AnyFlow:
        class Price(Stage[Order], name="price-order", inbox="price-order"):
            def handle(self, order: Order, step: Step) -> Outcome:
                raise Reject("the card is declined")

        class Undo(Stage[Failure], name="close-order", inbox="close-order"):
            def handle(self, failure: Failure, step: Step) -> Outcome:
                return Done()

        class Orders(
            Flow,
            name="orders",
            object_id="order_id",
            dead_letters="dead",
            on_failed=Undo,
            full_history=True,
            trust_senders=True,
        ):
            stages = (Price, Undo)

        return Orders

    with scene(undoing) as at:
        at.deliver(at.message())
        [letter] = at.sent("close-order")
        undo = at.message(stage="close-order", hop=2, body=letter["Body"])
        at.deliver(undo)
        assert told(at) == [(1, 1, How.GAVE_UP, "Reject"), (2, 1, How.UNDONE, "Reject")]


def test_the_item_says_once_that_there_are_rows(at: Scene) -> None:
    with intercept(Recorder()) as calls:
        at.deliver(at.message())
        at.deliver(at.second())
    updates = [call.params["TransactItems"][0]["Update"] for call in calls.calls if "TransactItems" in call.params]
    assert ["full_history = :full_history" in one["UpdateExpression"] for one in updates] == [True, False]
    item = at.item()
    assert item is not None
    assert item.full_history
    at.deliver(at.newer())
    again = at.item()
    assert again is not None
    assert again.full_history


def test_a_transaction_that_met_another_one_is_made_again(at: Scene) -> None:
    met: list[str] = []

    def meets(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "TransactWriteItems" and not met:
            met.append(call.operation)
            conflict: Any = {
                "Error": {"Code": "TransactionCanceledException", "Message": "[TransactionConflict, None]"},
                "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
            }
            raise ClientError(conflict, call.operation)
        return proceed()

    at.script.pricing = fails
    with intercept(meets):
        assert at.deliver(at.message()) == [True]
    assert told(at) == [(1, 1, How.RETRIED, "RuntimeError")]


def test_a_run_that_began_without_it_says_so_from_its_next_commit_on() -> None:
    with scene() as at:
        at.deliver(at.message())
        services = aws_services(Settings(), same_clients(), clock=at.clock, pause=no_pause)
        lambda_handler(told_orders(at.script)).using(services)({"Records": [record(at.second())]})
        item = at.item()
        assert item is not None
        assert item.full_history
        assert told(at) == [(2, 1, How.COMPLETED, None)]


@pytest.mark.parametrize("undone", [False, True])
def test_a_hop_that_fails_tells_its_own_time_where_the_clock_of_the_hop_before_was_fast(undone: bool) -> None:
    def made(script: Script) -> AnyFlow:
        class Undo(Stage[Failure, OrderState], name="undo", inbox="close-order"):
            def handle(self, failure: Failure, step: Step[OrderState]) -> Outcome:
                return Done()

        class Orders(
            Flow,
            name="orders",
            object_id="order_id",
            dead_letters="dead",
            full_history=True,
            on_failed=Undo if undone else None,
            trust_senders=True,
        ):
            stages = (*two_stages(script), *((Undo,) if undone else ()))

        return Orders

    with scene(made) as at:
        at.script.closing = lambda step: _raise(Reject("no"))
        at.clock.advance(seconds=60)
        at.deliver(at.message())
        at.clock.advance(seconds=-50)
        at.deliver(at.second())
        assert told(at)[-1][2] is (How.GAVE_UP if undone else How.FAILED)
        assert rows(at).told[-1].happened.ms == 0


def test_an_end_that_closes_a_list_of_callers_answers_them() -> None:
    """A transaction answers nothing, so the list is read."""

    def attached(script: Script) -> AnyFlow:
        class Price(Stage[Order, OrderState], name="price-order", inbox="price-order"):
            def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
                script.pricing(step)
                return Done({"total": 7})

        class Orders(
            Flow, name="orders", object_id="order_id", on_conflict=ATTACH, full_history=True, trust_senders=True
        ):
            stages = (Price,)

        return Orders

    with scene(attached) as at:

        def meanwhile(step: Step[OrderState]) -> None:
            at.script.pricing = lambda step: None
            at.deliver(at.newer(reply_to="sqs:completed"))

        at.script.pricing = meanwhile
        at.deliver(at.message(reply_to="sqs:emails"))
        assert at.calls == ["UpdateItem", "UpdateItem", "UpdateItem", "TransactWriteItems", "GetItem"]
        assert (len(at.sent("emails")), len(at.sent("completed"))) == (1, 1)
        assert told(at) == [(1, 1, How.COMPLETED, None)]
