"""A flow is upgraded while messages of its old version are queued, wait for answers, or are dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import BaseModel, ConfigDict, model_validator

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, aws_store
from flowguard.cli import main
from flowguard.client import FlowClient
from flowguard.errors import Reject
from flowguard.failed import Failure
from flowguard.flow import AnyFlow, Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import RunItem, Status
from flowguard.retry import RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.verdicts import AnswerVerdict

pytestmark = pytest.mark.usefixtures("denied_for_minutes")


class Order(BaseModel):
    order_id: str
    quantity: int


class Approval(BaseModel):
    approved: bool


class OldState(BaseModel):
    quantity: int = 0


class PriceOrder(Stage[Order, OldState], name="price-order", then="ship-order"):
    """Of version 1: it waits for an approval of large orders, and knows no order of nothing."""

    def handle(self, order: Order, step: Step[OldState]) -> Outcome:
        if order.quantity == 0:
            raise Reject("nothing is ordered")
        step.state.quantity = order.quantity
        return ShipOrder.when_all(
            approval=step.event(f"approved/{order.order_id}", keep_early=True), within=timedelta(days=1)
        )


class Approved(BaseModel):
    approval: Approval


class ShipOrder(Stage[Approved, OldState], name="ship-order"):
    def handle(self, answers: Approved, step: Step[OldState]) -> Outcome:
        return Done({"shipped": step.state.quantity, "by": 1})


class Version1(Flow, name="orders", object_id="order_id", version=1, trust_senders=True):
    stages = (PriceOrder, ShipOrder)


class Pieces(BaseModel):
    """``quantity`` has another name now. What version 1 has written can still be read."""

    pieces: int = 0

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, given: Any) -> Any:
        if isinstance(given, dict) and "quantity" in given:
            return {**given, "pieces": given["quantity"]}
        return given


class NewOrder(Pieces):
    order_id: str


class NewState(Pieces):
    pass


class PriceNewOrder(Stage[NewOrder, NewState], name="price-order", then="ship-order"):
    """Of version 2: an order of nothing is shipped, too."""

    def handle(self, order: NewOrder, step: Step[NewState]) -> Outcome:
        step.state.pieces = order.pieces
        return ShipNewOrder.when_all(
            approval=step.event(f"approved/{order.order_id}", keep_early=True), within=timedelta(days=1)
        )


class ShipNewOrder(Stage[Approved, NewState], name="ship-order"):
    def handle(self, answers: Approved, step: Step[NewState]) -> Outcome:
        return Done({"shipped": step.state.pieces, "by": 2})


class Version2(Flow, name="orders", object_id="order_id", version=2, accepts=[1], trust_senders=True):
    stages = (PriceNewOrder, ShipNewOrder)


class Version2Alone(Flow, name="orders", object_id="order_id", version=2, trust_senders=True):
    stages = (PriceNewOrder, ShipNewOrder)


class Shop:
    """The queue of the flow, and functions of either version that read it."""

    def __init__(self, aws: MemoryAWS) -> None:
        self.aws = aws
        aws.create_table("flowguard")
        self.inbox = aws.create_queue("orders")
        self.letters = aws.create_queue("orders-dead-letters")
        self.clients = Clients()
        self.services = aws_services(Settings(), self.clients)

    def order(self, flow: AnyFlow, payload: BaseModel) -> None:
        FlowClient(self.services.sender).start(flow, payload)

    def deliver(self, *flows: AnyFlow, receives: int = 1) -> set[int]:
        """Deliver until the queue is empty, to functions of these versions in turn. Returns the hops' versions."""
        sqs, versions = self.aws.client("sqs"), set[int]()
        for turn in range(50):
            event: Any = sqs.receive_message(QueueUrl=self.inbox, MessageAttributeNames=["All"], AttributeNames=["All"])
            if not (messages := event.get("Messages", [])):
                return versions
            versions |= _versions(messages)
            records = {"Records": [_record(message, receives) for message in messages]}
            answer = lambda_handler(flows[turn % len(flows)]).using(self.services)(records)
            kept = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
            for message in messages:
                if message["MessageId"] not in kept:
                    sqs.delete_message(QueueUrl=self.inbox, ReceiptHandle=message["ReceiptHandle"])
        raise AssertionError("it does not come to an end")

    def approve(self, flow: AnyFlow, order: str) -> AnswerVerdict:
        client = FlowClient(self.services.sender, store=lambda: self.services.store)
        return client.answer(flow, f"approved/{order}", Approval(approved=True))

    def reasons(self) -> list[str]:
        """What the dead letters say of themselves, left where they are."""
        sqs = self.aws.client("sqs")
        url = sqs.get_queue_url(QueueName="orders-dead-letters")["QueueUrl"]
        found: Any = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], VisibilityTimeout=0)
        return [one["MessageAttributes"]["flowguard"]["StringValue"] for one in found["Messages"]]

    def run(self, order: str) -> RunItem:
        found = aws_store(Settings(), self.clients).read("orders", ObjectId(order))
        assert found is not None
        return found


def _versions(messages: list[Any]) -> set[int]:
    """Those of the hops. Answers and deadlines have none, and letters that were sent back have them inside."""
    outside = [one for one in messages if "MessageAttributes" in one]
    said = [json.loads(one["MessageAttributes"]["flowguard"]["StringValue"]) for one in outside]
    return {one["version"] for one in said if "version" in one}


def _record(message: Any, receives: int) -> Any:
    """The message as Lambda hands it to a function."""
    attributes = {
        name: {"dataType": one["DataType"], "stringValue": one["StringValue"]}
        for name, one in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"] | {"ApproximateReceiveCount": str(receives)},
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:orders",
    }


@pytest.fixture
def shop() -> Iterator[Shop]:
    with MemoryAWS() as aws:
        yield Shop(aws)


def ended(run: RunItem) -> tuple[Status, Any, int]:
    return run.status, json.loads(run.result or "null"), run.version


def test_what_was_queued_is_done_by_the_new_version_and_its_run_stays_of_the_old_one(shop: Shop) -> None:
    shop.order(Version1, Order(order_id="o1", quantity=3))
    assert shop.deliver(Version2) == {1}
    assert shop.approve(Version2, "o1") is AnswerVerdict.RESUMED
    assert shop.deliver(Version2) == {1}
    assert ended(shop.run("o1")) == (Status.COMPLETED, {"shipped": 3, "by": 2}, 1)


def test_a_run_that_waits_goes_on_in_the_new_version_with_the_state_of_the_old_one(shop: Shop) -> None:
    shop.order(Version1, Order(order_id="o1", quantity=3))
    assert shop.deliver(Version1) == {1}
    assert shop.run("o1").status is Status.WAITING
    assert shop.approve(Version1, "o1") is AnswerVerdict.RESUMED
    assert shop.deliver(Version2) == {1}
    assert ended(shop.run("o1")) == (Status.COMPLETED, {"shipped": 3, "by": 2}, 1)


def test_a_dead_letter_of_the_old_version_is_redriven_into_the_new_one(shop: Shop, in_region: None) -> None:
    shop.order(Version1, Order(order_id="o1", quantity=0))
    assert shop.deliver(Version1) == {1}
    assert shop.run("o1").status is Status.FAILED
    redriven = CliRunner().invoke(main, ["dlq", "redrive", "orders-dead-letters", "--all", "--yes", "--wait", "0"])
    assert redriven.exit_code == 0, redriven.output
    assert shop.deliver(Version2) == {1}
    assert shop.approve(Version2, "o1") is AnswerVerdict.RESUMED
    shop.deliver(Version2)
    assert ended(shop.run("o1")) == (Status.COMPLETED, {"shipped": 0, "by": 2}, 1)


@pytest.fixture
def in_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.mark.parametrize(
    ("flow", "payload", "reader", "why"),
    [
        (Version2, NewOrder(order_id="o1", pieces=3), Version1, "orders does not read version 2, only [1]"),
        (Version1, Order(order_id="o1", quantity=3), Version2Alone, "orders does not read version 1, only [2]"),
    ],
    ids=["a new message in an old function", "an old message after the last of them was thought done"],
)
def test_a_version_that_a_function_does_not_read_is_a_dead_letter_that_can_be_redriven(
    shop: Shop, in_region: None, flow: AnyFlow, payload: BaseModel, reader: AnyFlow, why: str
) -> None:
    shop.order(flow, payload)
    shop.deliver(reader, receives=3)
    [letter] = shop.reasons()
    assert why in letter
    assert (
        CliRunner().invoke(main, ["dlq", "redrive", "orders-dead-letters", "--all", "--yes", "--wait", "0"]).exit_code
        == 0
    )
    shop.deliver(Version2)
    assert shop.run("o1").status is Status.WAITING


def test_functions_of_both_versions_serve_one_queue_where_the_old_one_reads_the_new_messages(shop: Shop) -> None:
    class Version1ReadsNew(Flow, name="orders", object_id="order_id", version=1, accepts=[2], trust_senders=True):
        stages = (PriceNewOrder, ShipNewOrder)

    for number in range(4):
        new = Version2 if number % 2 else Version1ReadsNew
        shop.order(new, NewOrder(order_id=f"o{number}", pieces=number))
    versions = shop.deliver(Version1ReadsNew, Version2)
    assert versions == {1, 2}
    for number in range(4):
        assert shop.approve(Version2, f"o{number}") is AnswerVerdict.RESUMED
    assert shop.deliver(Version1ReadsNew, Version2) == {1, 2}, "a run keeps its version"
    for number in range(4):
        end = (Status.COMPLETED, {"shipped": number, "by": 2}, 2 if number % 2 else 1)
        assert ended(shop.run(f"o{number}")) == end


def test_a_stage_that_is_gone_makes_its_messages_dead_letters(shop: Shop, in_region: None) -> None:
    class Stopped(Stage[Approved, NewState], name="stopped"):
        def handle(self, answers: Approved, step: Step[NewState]) -> Outcome:
            return Done()

    class PriceAlone(Stage[NewOrder, NewState], name="price-order", then="stopped"):
        def handle(self, order: NewOrder, step: Step[NewState]) -> Outcome:
            return Done()

    class WithoutShipping(Flow, name="orders", object_id="order_id", version=2, accepts=[1], trust_senders=True):
        stages = (PriceAlone, Stopped)

    shop.order(Version1, Order(order_id="o1", quantity=3))
    shop.deliver(Version1)
    assert shop.approve(Version1, "o1") is AnswerVerdict.RESUMED
    shop.deliver(WithoutShipping, receives=3)
    assert shop.run("o1").status is Status.WAITING, "its run does not end"
    assert (
        CliRunner().invoke(main, ["dlq", "redrive", "orders-dead-letters", "--all", "--yes", "--wait", "0"]).exit_code
        == 0
    )
    shop.deliver(Version2)
    assert ended(shop.run("o1")) == (Status.COMPLETED, {"shipped": 3, "by": 2}, 1)


class Crashing(BaseModel):
    approval: Any

    @model_validator(mode="before")
    @classmethod
    def of_new_code(cls, given: Any) -> Any:
        return {"approval": given["approval"]["by"]}


def test_answers_that_a_releases_own_validator_cannot_read_keep_their_run_for_a_redrive(
    shop: Shop, in_region: None
) -> None:
    class Undo(Stage[Failure, NewState], name="undo"):
        def handle(self, failure: Failure, step: Step[NewState]) -> Outcome:
            return Done()

    class ShipIt(Stage[Crashing, NewState], name="ship-order", retry=RetryPolicy(attempts=1)):
        def handle(self, answers: Crashing, step: Step[NewState]) -> Outcome:
            return Done()

    class Newer(Flow, name="orders", object_id="order_id", accepts=[1], trust_senders=True, on_failed=Undo):
        stages = (PriceNewOrder, ShipIt, Undo)

    shop.order(Version1, Order(order_id="o1", quantity=3))
    shop.deliver(Version1)
    assert shop.approve(Version1, "o1") is AnswerVerdict.RESUMED
    shop.deliver(Newer, receives=3)
    assert shop.run("o1").status is Status.RUNNING, "it has not failed, and nothing is undone"
    [reason] = shop.reasons()
    assert "the answers for ship-order cannot be read: a validator raises KeyError" in reason
    redriven = CliRunner().invoke(main, ["dlq", "redrive", "orders-dead-letters", "--all", "--yes", "--wait", "0"])
    assert redriven.exit_code == 0, redriven.output
    shop.deliver(Version2)
    assert ended(shop.run("o1")) == (Status.COMPLETED, {"shipped": 3, "by": 2}, 1)


# -- the state's model ------------------------------------------------------------------------------------------------


def release(state: type[BaseModel]) -> AnyFlow:
    """The flow of a release whose state has this model. Its result is the state that its last stage finds."""

    class PriceIt(Stage[Order, state], name="price-order", then="ship-order"):  # type: ignore[valid-type]  # a parameter
        def handle(self, order: Order, step: Step[Any]) -> Outcome:
            return ShipIt.when_all(approval=step.event(f"approved/{order.order_id}"), within=timedelta(days=1))

    class ShipIt(Stage[Approved, state], name="ship-order"):  # type: ignore[valid-type]  # a parameter
        def handle(self, answers: Approved, step: Step[Any]) -> Outcome:
            return Done(step.state)

    class Released(Flow, name="orders", object_id="order_id", version=1, trust_senders=True):
        stages = (PriceIt, ShipIt)

    return Released


class MoreState(BaseModel):
    quantity: int = 0
    note: str = "none"


class LessState(BaseModel):
    note: str = "none"


class StrictState(BaseModel):
    model_config = ConfigDict(extra="forbid")
    note: str = "none"


@pytest.mark.parametrize(
    ("state", "found"), [(MoreState, {"quantity": 3, "note": "none"}), (LessState, {"note": "none"})]
)
def test_a_field_that_a_release_adds_has_its_default_and_one_that_it_takes_away_is_dropped(
    shop: Shop, state: type[BaseModel], found: dict[str, Any]
) -> None:
    shop.order(Version1, Order(order_id="o1", quantity=3))
    shop.deliver(Version1)
    shop.approve(Version1, "o1")
    shop.deliver(release(state))
    assert json.loads(shop.run("o1").result or "") == found
    assert json.loads(shop.run("o1").state or "") == found


def test_a_state_that_a_release_cannot_read_keeps_its_run_for_a_redrive(shop: Shop) -> None:
    shop.order(Version1, Order(order_id="o1", quantity=3))
    shop.deliver(Version1)
    shop.approve(Version1, "o1")
    shop.deliver(release(StrictState), receives=3)
    assert shop.run("o1").status is Status.RUNNING, "it has not failed"
    assert "the state" in shop.reasons()[0]


def test_a_state_begins_with_its_defaults_in_each_run(shop: Shop) -> None:
    for _ in range(2):
        shop.order(release(MoreState), Order(order_id="o1", quantity=3))
        shop.deliver(release(MoreState))
        shop.approve(release(MoreState), "o1")
        shop.deliver(release(MoreState))
        assert json.loads(shop.run("o1").result or "") == {"quantity": 0, "note": "none"}
