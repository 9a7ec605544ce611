"""Whole flows in a test: what comes in, what comes of it, and a time line that names the line to look at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard.destinations import Function, Topic
from flowguard.errors import EnvelopeError, Reject, Retry, SettingsError
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.sim.in_process import AWSInProcess
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import (
    EmbeddedAWS,
    FlowClock,
    FlowRunner,
    MemoryAWS,
    NoFlow,
    NotAtRest,
    NotThere,
    sns_to_sqs_event,
    sqs_event,
)
from tests.sent_ids import readable

TABLES = {"orders": "order_id"}
PARCELS = Topic("arn:aws:sns:us-east-1:123456789012:parcels")
CLIENT: Any = boto3.client("sqs", region_name="us-east-1")
"""Made at import, as many functions do, before there is any engine."""


class Order(BaseModel):
    order_id: str
    amount: int = 1
    fails: int = 0


class Take(Stage[Order], name="take", then="pack", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        if step.attempt <= order.fails:
            raise Retry("not yet", after=timedelta(minutes=10))
        if order.amount < 0:
            raise Reject("less than nothing")
        step.put("orders", {"order_id": order.order_id, "amount": order.amount, "seen": f"{datetime.now(UTC):%H:%M}"})
        return Pack.message(order)


class Pack(Stage[Order], name="pack", inbox=PARCELS):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("mails", {"order_id": order.order_id})
        step.send("bills", {"order_id": order.order_id, "amount": order.amount})
        return Done({"amount": order.amount})


class Shop(Flow, name="shop", object_id="order_id"):
    stages = (Take, Pack)


class Announced(Stage[Order], name="announced", then="praised"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Praised.message(order)


class Praised(Stage[Order], name="praised"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class News(Flow, name="news", object_id="order_id", inbox=PARCELS):
    stages = (Announced, Praised)


class Bill(Stage[Order], name="bill", inbox="bills"):
    def handle(self, order: Order, step: Step) -> Outcome:
        limits = boto3.resource("dynamodb", region_name="us-east-1").Table("limits")
        limit: Any = limits.get_item(Key={"shop": "berlin"}).get("Item", {"most": 0})
        step.update("totals", {"day": "today"}, "ADD amount :n", values={":n": min(order.amount, limit["most"])})
        return Done()


class Billing(Flow, name="billing", object_id="order_id"):
    stages = (Bill,)


class Again(Stage[Order], name="again", then="again"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Again.message(order)


class Loops(Flow, name="loops", object_id="order_id"):
    stages = (Again,)


class Ticks(Stage[Order], name="tick"):
    def handle(self, order: Order, step: Step) -> Outcome:
        CLIENT.send_message(QueueUrl=CLIENT.get_queue_url(QueueName="clock")["QueueUrl"], MessageBody=order.order_id)
        amounts = [1, 2, *(json.loads("") if order.amount == 9 else ())]
        return Done(amounts[order.amount])


class Clock(Flow, name="clock-work", object_id="order_id"):
    stages = (Ticks,)


class Day(Stage[Order], name="day"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("days", {"pk": "monday", "sk": "berlin"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class Days(Flow, name="days", object_id="order_id"):
    stages = (Day,)


ORDER = Order(order_id="o1", amount=3)


@pytest.fixture
def flow_engine(request: pytest.FixtureRequest, flow_clock: FlowClock) -> Iterator[AWSInProcess]:
    """The plugin's own, or moto."""
    with EmbeddedAWS() if getattr(request, "param", MemoryAWS) is EmbeddedAWS else MemoryAWS(flow_clock) as aws:
        yield aws


on_both = pytest.mark.parametrize("flow_engine", [MemoryAWS, EmbeddedAWS], indirect=True)


@on_both
def test_a_flow_runs_from_its_request_to_its_end(flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, ORDER, reply_to="replies")
    result = flow_runner.run()
    assert result.verdicts == ["CLAIMED", "CLAIMED"]
    assert result.run("o1").status == "COMPLETED"
    assert result.run("o1").result == {"amount": 3}
    assert result.item("orders", order_id="o1") == {"order_id": "o1", "amount": 3, "seen": "00:00"}
    assert [one.body for one in result.sent("mails")] == [{"order_id": "o1"}]
    assert [one.body["result"] for one in result.sent("replies")] == [{"amount": 3}]
    assert [one.to for one in result.messages] == ["parcels", "mails", "bills", "replies"], "not what the test sends"


def test_a_step_delivers_one_message_and_what_comes_meanwhile_is_delivered_before_the_next_stage(
    flow_runner: FlowRunner,
) -> None:
    flow_runner.send(Shop, ORDER, requested_at=1)
    first = flow_runner.step()
    assert (first.verdicts, first.run("o1").stage, [one.to for one in first.messages]) == (
        ["CLAIMED"],
        "take",
        ["parcels"],
    )
    flow_runner.deliver(sqs_event("orders", Order(order_id="o1", amount=4)))
    assert flow_runner.step().verdicts == ["CLAIMED"], "the newer request takes over"
    assert flow_runner.run().verdicts == ["SUPERSEDED", "CLAIMED"]
    assert (flow_runner.step().deliveries, flow_runner.step().messages) == ((), ())
    assert flow_runner.timeline().count("CLAIMED") == 3


@on_both
def test_stages_of_one_topic_share_a_function(flow_runner: FlowRunner) -> None:
    flow_runner.send(News, ORDER)
    result = flow_runner.run()
    assert result.verdicts == ["CLAIMED", "CLAIMED"], "and nothing that is UNROUTABLE"
    assert result.run("o1").stage == "praised"


def test_the_same_event_twice_is_one_message_delivered_twice(flow_runner: FlowRunner) -> None:
    event = sqs_event("orders", ORDER)
    result = flow_runner.serve(Shop).deliver(event, event).run()
    assert result.verdicts == ["CLAIMED", "DONE", "CLAIMED", "DONE"]
    assert len(result.sent("mails")) == 1, "copies of the same id count once"
    assert len([one for one in result.messages if one.to == "mails"]) > 1


def test_events_come_in_every_shape(flow_runner: FlowRunner) -> None:
    events = [sns_to_sqs_event("orders", {"order_id": "o2"}), {"order_id": "o3"}]
    result = flow_runner.serve(Shop).serve(Shop).deliver(*events).run()
    assert [run.object_id for run in result.runs()] == ["o2", "o3"]
    assert [one.queue for one in result.deliveries][:2] == ["orders", None]


def test_an_event_that_cannot_be_read_is_refused(flow_runner: FlowRunner) -> None:
    with pytest.raises(EnvelopeError, match="body"):
        flow_runner.serve(Shop).deliver({"Records": [{"eventSource": "aws:sqs", "messageId": "m"}]})


def test_the_same_request_twice_is_one_run(flow_runner: FlowRunner) -> None:
    first, second = (flow_runner.send(Shop, ORDER, request_id="r1") for _ in range(2))
    assert (first.request_id, second.request_id) == ("r1", "r1")
    assert flow_runner.run().run("o1").request_id == "r1"
    assert flow_runner.send(Shop, ORDER).request_id != flow_runner.send(Shop, ORDER).request_id


def test_a_delay_passes_at_once_and_the_clock_says_so(flow_runner: FlowRunner, flow_clock: FlowClock) -> None:
    flow_runner.send(Shop, Order(order_id="o1", fails=1))
    result = flow_runner.run()
    assert (result.messages[0].to, result.messages[0].delay) == ("orders", 600)
    assert result.item("orders", order_id="o1", seen="00:10") is not None
    assert flow_clock.moment > datetime(2026, 1, 1, 0, 10, tzinfo=UTC)


@on_both
def test_a_test_may_stop_before_a_delay_is_over(flow_runner: FlowRunner, flow_clock: FlowClock) -> None:
    flow_runner.send(Shop, Order(order_id="o1", fails=1))
    early = flow_runner.run(within=timedelta(minutes=9))
    assert (early.verdicts, early.run("o1").status) == (["CLAIMED"], "RUNNING")
    assert flow_clock.moment == datetime(2026, 1, 1, 0, 9, tzinfo=UTC)
    late = flow_runner.run(within=timedelta(minutes=2))
    assert (late.verdicts, late.run("o1").status) == (["CLAIMED", "CLAIMED"], "COMPLETED")
    assert flow_clock.moment == datetime(2026, 1, 1, 0, 11, tzinfo=UTC)


def test_a_result_has_what_happened_since_the_last_one(flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, ORDER)
    flow_runner.run()
    flow_runner.send(Shop, Order(order_id="o2"))
    second = flow_runner.run()
    assert [one.body["order_id"] for one in second.sent("mails")] == ["o2"]
    assert [one.object_id for one in second.deliveries] == ["o2", "o2"]
    assert {one["order_id"] for one in second.table("orders")} == {"o1", "o2"}


def test_messages_that_a_newer_request_sends_again_are_copies(flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, ORDER, requested_at=1_767_225_600_000)
    assert flow_runner.run(within=timedelta(0)).copies() == []
    flow_runner.send(Shop, ORDER, requested_at=1_767_225_600_001)
    result = flow_runner.run()
    first = [message for message in result.earlier if message.to in ("mails", "bills")]
    assert result.copies() == first, "the newer request sends the last messages of the older one again"
    assert len(first) == 2


def test_a_run_may_be_cancelled(flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, Order(order_id="o1", fails=1))
    flow_runner.run(within=timedelta(minutes=1))
    assert flow_runner.cancel(Shop, "o1", why="not wanted")
    assert str(flow_runner.run().run("o1").error).startswith("Cancelled: ")
    assert not flow_runner.cancel(Shop, "o1", why="not wanted")


@pytest.mark.slow("runs flows")
@on_both
def test_what_a_test_sends_itself_is_delivered(flow_runner: FlowRunner, flow_engine: AWSInProcess) -> None:
    flow_runner.serve(Shop)
    sqs = flow_engine.client("sqs")
    sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName="orders")["QueueUrl"], MessageBody=ORDER.model_dump_json())
    assert flow_runner.run().run("o1").status == "COMPLETED"


@pytest.mark.proof("explores flows")
@on_both
def test_one_flow_starts_another_and_reads_a_table_that_was_filled(flow_runner: FlowRunner) -> None:
    flow_runner.serve(Billing).table("limits", "shop", {"shop": "berlin", "most": 2})
    flow_runner.send(Shop, ORDER)
    result = flow_runner.run()
    assert result.item("totals", day="today") == {"day": "today", "amount": 2}
    assert result.run("o1", "billing").status == "COMPLETED"
    with pytest.raises(NotThere, match=r"2 flows have run for it; there is billing of o1, shop of o1\. Name the flow"):
        result.run("o1")


@on_both
@pytest.mark.parametrize("early", [True, False])
def test_a_table_of_other_keys_is_made_as_on_aws(
    early: bool, flow_engine: AWSInProcess, flow_clock: FlowClock, request: pytest.FixtureRequest
) -> None:
    """Before the runner is there, or afterwards: the runner makes none in its place."""
    if early:
        flow_engine.create_table("days")
    runner: FlowRunner = request.getfixturevalue("flow_runner")
    if not early:
        flow_engine.create_table("days")
    runner.send(Days, ORDER)
    result = runner.run()
    assert result.verdicts == ["CLAIMED"], "it was there at the first attempt"
    assert result.table("days") == ({"pk": "monday", "sk": "berlin", "amount": 3},)


def test_what_is_not_there_is_told_with_what_is(flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, ORDER)
    result = flow_runner.run()
    assert result.item("orders", order_id="o2") is None
    with pytest.raises(NotThere, match=r"no table 'ordres'; there is orders\. Make it: flow_runner.table\(\"ordres\""):
        result.item("ordres", order_id="o1")
    with pytest.raises(NotThere, match="nothing has run for it; there is shop of o1"):
        result.run("o2")


def test_what_can_never_work_is_a_dead_letter(flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, Order(order_id="o1", amount=-1))
    result = flow_runner.run()
    assert (result.run("o1").status, result.run("o1").error) == ("FAILED", "Reject: less than nothing")
    assert [one.to for one in result.dead_letters] == ["shop-dead-letters"]


def test_a_client_made_at_import_talks_to_the_engine(flow_runner: FlowRunner, flow_engine: AWSInProcess) -> None:
    flow_runner.send(Clock, ORDER.model_copy(update={"amount": 0}))
    assert flow_runner.run().run("o1").result == 1
    sqs = flow_engine.client("sqs")
    found = sqs.receive_message(QueueUrl=sqs.get_queue_url(QueueName="clock")["QueueUrl"])["Messages"]
    assert [one["Body"] for one in found] == ["o1"], "a result leaves the queues alone"


def test_the_time_line_names_the_line_that_failed(flow_runner: FlowRunner) -> None:
    flow_runner.send(Clock, ORDER)
    told = str(flow_runner.run())
    assert "tick of o1, hop 1: CLAIMED, retried" in told
    assert "attempt 5: CLAIMED, failed" in told
    assert "IndexError: list index out of range at tests/testing/test_runner.py:" in told
    assert told.count("return Done(amounts[order.amount])") == 5
    assert "clock-work of o1: FAILED at tick, hop 1: IndexError: list index out of range" in told
    assert flow_runner.timeline() == told


def test_an_error_that_a_test_is_handling_is_not_taken_for_the_stages(flow_runner: FlowRunner) -> None:
    flow_runner.serve(Shop).deliver(sqs_event("orders", {"order_id": ""}))
    try:
        raise KeyError("of the test")
    except KeyError:
        told = str(flow_runner.run())
    assert "0.000 s  take, hop 1: failed\n" in told
    assert "of the test" not in told


def test_the_line_is_the_users_own_where_a_library_failed(flow_runner: FlowRunner) -> None:
    flow_runner.send(Clock, ORDER.model_copy(update={"amount": 9}))
    told = str(flow_runner.run())
    assert "JSONDecodeError: Expecting value: line 1 column 1 (char 0) at tests/testing/test_runner.py:" in told
    assert 'json.loads("")' in told


def test_only_run_items_are_runs(flow_runner: FlowRunner, flow_engine: AWSInProcess) -> None:
    flow_runner.send(Shop, ORDER)
    other = {"pk": {"S": "run#shop#o1"}, "sk": {"S": "something else"}}
    flow_engine.client("dynamodb").put_item(TableName="flowguard", Item=other)
    result = flow_runner.run()
    assert [run.object_id for run in result.runs()] == ["o1"]
    assert "flowguard" not in result.tables


@pytest.mark.proof("explores flows")
def test_a_flow_that_never_rests_is_stopped(flow_engine: AWSInProcess, flow_clock: FlowClock) -> None:
    with FlowRunner(flow_engine, flow_clock, most=20) as runner:
        runner.send(Loops, Order(order_id="o1"))
        with pytest.raises(
            NotAtRest,
            match=r"20 deliveries; .*run\(within=timedelta\(…\)\); .*FlowRunner\(…, most=40\)[^$]*again of o1, hop 21",
        ):
            runner.run()


def test_a_runner_without_a_flow_says_what_to_do(flow_runner: FlowRunner) -> None:
    for act in (flow_runner.run, lambda: flow_runner.deliver(sqs_event("orders", ORDER))):
        with pytest.raises(NoFlow, match=r"send\(MyFlow, payload\), or serve\(MyFlow\)"):
            act()


def test_equal_tests_see_equal_ids(flow_clock: FlowClock) -> None:
    def once() -> Any:
        with MemoryAWS(flow_clock) as aws, FlowRunner(aws, flow_clock) as runner:
            runner.send(Shop, ORDER)
            return [readable(one.id) for one in runner.run().messages if one.id is not None and "-" in one.id]

    assert once() == once() != []


TOPIC = "arn:aws:sns:eu-west-1:123456789012:parcel-news"


class Announce(Stage[Order], name="announce"):
    """Say it on a topic, and to a function."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.send(Topic(TOPIC), order)
        step.send(Function("archive"), order)
        return Done()


class Announcing(Flow, name="announcing", object_id="order_id"):
    stages = (Announce,)


@on_both
def test_what_was_sent_is_found_by_name_arn_url_and_destination(flow_runner: FlowRunner) -> None:
    flow_runner.send(Announcing, ORDER)
    result = flow_runner.run()
    for to in (Topic(TOPIC), TOPIC, "parcel-news", Function("archive"), "archive"):
        assert len(result.sent(to)) == 1, to
    assert result.sent(TOPIC)[0].body == {"order_id": "o1", "amount": 3, "fails": 0}


@on_both
def test_what_does_not_exist_was_not_just_sent_nothing(flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, ORDER)
    result = flow_runner.run()
    for to in ("mials", Topic("arn:aws:sns:eu-west-1:123456789012:mials"), "https://sqs/1/mials", "x" * 100_000):
        with pytest.raises(NotThere, match=r"no such queue or topic; there is .*mails.*flow_runner.queue") as raised:
            result.sent(to)
        assert len(str(raised.value).partition("flow_runner.queue")[2]) < 200
    assert flow_runner.queue("returns").run().sent("returns") == []
    with pytest.raises(SettingsError, match="give the name of the queue"):
        flow_runner.queue("")
