"""What a record is, and what its source is to a flow. From these two follows whether it is believed."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard import Callback, Done, Flow, Outcome, Stage, Step, Topic
from flowguard.errors import Untrusted
from flowguard.names.at_aws import Names
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run_orders import CancelOrder
from flowguard.stage import AnyStage
from flowguard.testing import invocation, sns_event, sqs_event
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import Message
from flowguard.worker.callbacks import _is_own_queue
from flowguard.worker.record_sources import Channel, NamedQueues, RecordKind
from flowguard.worker.routing import Routes
from flowguard.worker.trust import Trust
from tests.scene import START

NEWS = "arn:aws:sns:us-east-1:123456789012:news"
REQUEST = Message("bills", "ask", 1, ObjectId("b1"), RequestId("r1"), 1_800_000_000_000, "{}")

HERE = "arn:aws:sqs:us-east-1:123456789012:{}"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, RecordKind.REQUEST),
        ({"retry": 1}, RecordKind.RETRY),
        ({"redrive": 1}, RecordKind.RETRY),
        ({"hop": 2}, RecordKind.HOP),
        ({"hop": 2, "retry": 1}, RecordKind.HOP),
        ({"cancelled": "too late"}, RecordKind.CANCELLED),
        ({"cancelled": "too late", "retry": 1}, RecordKind.CANCELLED),
    ],
)
def test_a_stages_message_is_what_it_says_of_itself(changes: dict[str, Any], kind: RecordKind) -> None:
    assert RecordKind.of(REQUEST._replace(**changes)) is kind


class Ask(Stage[dict[str, Any]], name="ask", then=("pay", "tell"), inbox="bills"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Pay(Stage[dict[str, Any]], name="pay", inbox="payments"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Tell(Stage[dict[str, Any]], name="tell", inbox=Topic(NEWS)):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Bills(
    Flow, name="bills", object_id="id", inbox="bills", answers="answers", callbacks=(Callback("bank", id="ref"),)
):
    stages = (Ask, Pay, Tell)


class OfTopic(Flow, name="of-topic", object_id="id", inbox="of-topic", callbacks=(Callback(Topic(NEWS), id="ref"),)):
    stages = (Ask, Pay, Tell)


def through(source: str) -> Envelope:
    """A record that came from the queue, the topic that invokes the function, or whoever else does that."""
    events: dict[str, Any] = {"a topic": sns_event(NEWS, {}), "an invocation": invocation({"id": "b1"})}
    [found] = normalize(events.get(source) or sqs_event(source, {}), invocation_id="i-1")
    assert isinstance(found, Envelope)
    return found


ENTRY, STAGE, UNNAMED, TOPIC = Channel.ENTRY, Channel.STAGE, Channel.UNNAMED, Channel.TOPIC


@pytest.mark.parametrize(
    ("source", "stage", "origins"),
    [
        ("bills", Ask, {ENTRY, STAGE}),
        ("bills", Pay, {ENTRY}),
        ("payments", Pay, {STAGE}),
        ("payments", Ask, set()),
        ("answers", Ask, {Channel.ANSWERS}),
        ("bank", Ask, {Channel.CALLBACK}),
        ("unknown", Ask, {UNNAMED}),
        ("a topic", Ask, {TOPIC}),
        ("an invocation", Ask, set(Channel)),
        ("unknown", Tell, {UNNAMED, STAGE}),
        ("a topic", Tell, {TOPIC, STAGE}),
        ("answers", Tell, {Channel.ANSWERS}),
        ("bills", None, {ENTRY, STAGE}),
        ("payments", None, {STAGE}),
        ("unknown", None, {UNNAMED, STAGE}),
        ("answers", None, {Channel.ANSWERS}),
        ("a topic", None, {TOPIC}),
    ],
)
def test_a_source_is_to_a_flow_what_the_flow_names_it(
    source: str, stage: AnyStage | None, origins: set[Channel]
) -> None:
    """What no queue brought may be from anywhere; a stage that is gone had one of the flow's inboxes, or an unnamed."""
    assert NamedQueues([Bills]).origins(through(source), Bills, stage) == origins


@pytest.mark.parametrize("source", ["bills", "payments", "answers", "bank"])
def test_a_queue_of_another_deployment_is_none_that_the_flow_names(source: str) -> None:
    """Production's queues are called as in the code, and a function of staging may get their records by a mistake."""
    theirs = through(source)._replace(names=Names.parse("staging-*"))
    assert NamedQueues([Bills]).origins(theirs, Bills, Pay) == {UNNAMED}
    assert not _is_own_queue(theirs, Bills)
    assert not NamedQueues([Bills]).callbacks_of(theirs), "also where the flow declares no other callback"
    assert not NamedQueues([OfTopic]).callbacks_of(theirs), (
        "nor where that is of a topic, whose raw delivery names none"
    )


@pytest.mark.parametrize("source", ["bills", "killed"])
def test_what_another_deployment_gave_up_is_not_believed_as_the_flows_own(source: str) -> None:
    address = AnswerAddress("bills", ObjectId("b1"), RequestId("r1"), START, 1, "cancel")
    order, queues = CancelOrder(address, "a mistake"), NamedQueues([Bills])
    killed = through("staging-killed")._replace(names=Names.parse("staging-*"))
    Trust(gets_given_up=True).check_order(killed, Bills, order, queues)
    theirs = through(source)._replace(names=Names.parse("staging-*"))
    with pytest.raises(Untrusted, match=f"the queue '123456789012:{source}'"):
        Trust(gets_given_up=True).check_order(theirs, Bills, order, queues)


class Alone(Stage[dict[str, Any]], name="alone"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Other(Flow, name="other", object_id="id", inbox="others"):
    stages = (Alone,)


class Shared(
    Flow,
    name="shared",
    object_id="id",
    inbox=HERE.format("bills"),
    answers=HERE.format("answers"),
    callbacks=(Callback(HERE.format("bank"), id="ref"),),
):
    stages = (Alone,)


def test_a_queue_that_the_code_gives_by_its_arn_is_known_under_any_rule() -> None:
    """Such a name is the same everywhere."""
    bills, answers, bank = (
        through(name)._replace(names=Names.parse("staging-*")) for name in ("bills", "answers", "bank")
    )
    assert _is_own_queue(answers, Shared)
    assert NamedQueues([Shared]).callbacks_of(bank) == [(Shared, Shared.callbacks[0])]
    assert NamedQueues([Shared]).origins(answers, Shared, Alone) == {Channel.ANSWERS}
    assert NamedQueues([Shared]).origins(bills, Shared, Alone) == {ENTRY, STAGE}
    assert Routes((Other, Shared)).resolve(bills, START, trust=None).flow is Shared
