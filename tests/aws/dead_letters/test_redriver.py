"""Dead letters are sent back to their stages."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading, Unusable
from flowguard.aws.items import run_key
from flowguard.aws.redriver import Outcome as Redriven
from flowguard.aws.redriver import Redriver
from flowguard.destinations import Topic
from flowguard.flow import Flow
from flowguard.handler import dlq_handler
from flowguard.lanes import Lane
from flowguard.names.at_aws import Names
from flowguard.names.ids import ObjectId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import FLOW_STAGE, PLACE
from flowguard.worker.redrive import Fate
from tests.aws.dead_letters.letters import (
    arn,
    denying,
    die,
    fates,
    moved_from,
    put,
    reading,
    redrive,
    reject,
    sent_again,
    url,
    work,
    works,
)
from tests.scene import START, Order, Orders, OrderState, Scene, record
from tests.sent_ids import readable
from tests.waits import Carts, wait_scene
from tests.worker.runtime.test_kills import kill


def test_a_letter_goes_back_to_the_queue_it_came_through_and_its_run_goes_on(at: Scene) -> None:
    die(at)
    [outcome] = redrive()
    assert (fates([outcome]), outcome.to, outcome.deleted) == ([Fate.REDRIVEN], arn("price-order"), True)
    assert work(at, "price-order") == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert (item.request_id, item.redrive, item.status, at.priced()) == ("run-1", 1, Status.RUNNING, 1)
    assert at.sent("dead") == []


def test_a_letter_that_was_copied_from_another_deployment_is_not_sent_into_that(at: Scene) -> None:
    die(at)
    at.aws.create_queue("staging-price-order")
    names = Names.parse("staging-*")
    [outcome] = redrive(names=names)
    assert outcome.failed is not None
    assert f"{arn('price-order')}, which is no queue of FLOWGUARD_NAMES=staging-*; give --to" in outcome.failed
    [outcome] = redrive(to="staging-price-order", names=names)
    assert (outcome.to, outcome.deleted) == ("price-order", True), "a queue is named as at AWS, too"
    assert (len(at.sent("price-order")), len(at.sent("staging-price-order"))) == (0, 1)


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("operation", ["SendMessageBatch", "DeleteMessageBatch"])
def test_wherever_it_is_stopped_nothing_is_lost_and_running_again_does_nothing_twice(
    at: Scene, operation: str, applied: bool
) -> None:
    die(at)

    def killed(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != operation:
            return proceed()
        if applied:
            proceed()
        raise KeyboardInterrupt

    with intercept(killed), pytest.raises(KeyboardInterrupt):
        redrive()
    redrive()
    assert work(at, "price-order") == {"batchItemFailures": []}
    assert (at.priced(), at.sent("dead")) == (1, [])


def test_a_send_that_is_refused_leaves_its_letter_where_it_is(at: Scene) -> None:
    die(at)
    with intercept(denying("SendMessageBatch")):
        [outcome] = redrive()
    assert "AccessDenied" in str(outcome.failed)
    assert (outcome.deleted, len(at.sent("dead"))) == (False, 1)


def test_a_superseded_letter_changes_nothing_and_stays_unless_it_is_to_be_dropped(at: Scene) -> None:
    die(at)
    at.deliver(at.newer())
    for outcome in redrive():
        assert outcome.judgement == (Fate.SUPERSEDED, "request run-2 holds the object")
        assert not outcome.deleted
    dropped = redrive(drop_obsolete=True)
    assert {(outcome.deleted, outcome.to) for outcome in dropped} == {(True, None)}
    assert (at.sent("dead"), at.sent("price-order")) == ([], [])


def test_a_letter_whose_run_was_completed_since_is_not_sent_again(at: Scene) -> None:
    die(at)
    with reading() as open_:
        Redriver(Clients(), "flowguard", open_).redrive(next(open_.pages()))
    copies = at.sent("price-order")
    at.handler([{**found, "EventSourceARN": arn("price-order")} for found in copies])
    assert work(at, "close-order") == {"batchItemFailures": []}
    put(at, "dead", at.message(), **sent_again(copies[0]))
    assert fates(redrive()) == [Fate.COMPLETED]


def test_a_later_hop_whose_run_item_is_gone_is_expired(at: Scene) -> None:
    at.deliver(at.second())
    assert at.item() is None
    [outcome] = redrive(drop_obsolete=True)
    assert (fates([outcome]), outcome.deleted, at.sent("close-order")) == ([Fate.EXPIRED], True, [])


def test_the_consoles_redrive_is_a_right_one_too(at: Scene) -> None:
    """It moves body and attributes as they are, under a new message id."""
    die(at)
    [letter] = at.sent("dead")
    at.aws.client("sqs").send_message(QueueUrl=url(at, "price-order"), **sent_again(letter))
    [moved] = at.sent("price-order")
    assert moved["MessageId"] != letter["MessageId"]
    at.handler([{**moved, "EventSourceARN": arn("price-order")}])
    item = at.item()
    assert item is not None
    assert (item.request_id, item.redrive, at.priced()) == ("run-1", 1, 1)


def test_the_consoles_redrive_after_a_newer_run_changes_nothing(at: Scene) -> None:
    die(at)
    [letter] = at.sent("dead")
    at.deliver(at.newer())
    at.aws.client("sqs").send_message(QueueUrl=url(at, "price-order"), **sent_again(letter))
    assert work(at, "price-order") == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert (item.request_id, at.priced()) == ("run-2", 1)


# -- what SQS itself dead-lettered


def make_dlq(at: Scene, *sources: str) -> None:
    """The dead-letter queue ``given-up`` of the stages' queues."""
    dlq = at.aws.create_queue("given-up")
    policy = json.dumps({"deadLetterTargetArn": at.aws.queue_arn(dlq), "maxReceiveCount": "3"})
    for source in sources:
        at.aws.client("sqs").set_queue_attributes(QueueUrl=url(at, source), Attributes={"RedrivePolicy": policy})


def test_a_raw_record_goes_to_the_one_queue_whose_dead_letters_these_are(at: Scene) -> None:
    make_dlq(at, "price-order")
    put(at, "given-up", at.message())
    [outcome] = redrive("given-up")
    assert (fates([outcome]), outcome.to) == ([Fate.REDRIVEN], url(at, "price-order"))
    assert work(at, "price-order") == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert (item.request_id, item.redrive, at.priced()) == ("run-1", 0, 1)


def test_a_record_without_ids_comes_back_as_the_request_that_it_was(at: Scene) -> None:
    make_dlq(at, "price-order")
    put(at, "given-up", at.message(), MessageAttributes={})
    [outcome] = redrive("given-up")
    work(at, "price-order")
    item = at.item()
    assert item is not None
    assert (item.request_id, item.redrive) == (outcome.letter.message_id, 0)


def raw(at: Scene, *left_out: str, **more: object) -> None:
    """A record that SQS gave up, with more in its place, and without some of its attributes."""
    place = Attribute.string(json.dumps({"version": 1, "hop": 1, "object": "o1", **more}))
    said = {**at.message().attributes(), PLACE: place}
    kept = {name: value for name, value in said.items() if name not in left_out}
    put(at, "given-up", at.message(), MessageAttributes=attributes_to(Attribute.to_sqs_api, kept))


def operations(**options: Any) -> tuple[list[Redriven], Counter[str]]:
    """What becomes of the letters of ``given-up``, and the calls that it takes."""
    with intercept(Recorder()) as made:
        outcomes = redrive("given-up", **options)
    return outcomes, Counter(call.operation for call in made.calls)


@pytest.mark.parametrize(("left_out", "reads"), [((), 1), ((FLOW_STAGE,), 0), ((PLACE,), 0)])
def test_the_run_item_is_read_of_a_letter_that_names_its_flow_and_object(
    left_out: tuple[str, ...], reads: int, at: Scene
) -> None:
    make_dlq(at, "price-order")
    raw(at, *left_out)
    [outcome], calls = operations()
    assert (outcome.deleted, calls["GetItem"]) == (True, reads)


def test_each_queue_is_asked_once_whose_dead_letters_these_are(at: Scene) -> None:
    make_dlq(at, "price-order")
    for _ in range(3):
        raw(at)
    outcomes, calls = operations()
    assert ([outcome.deleted for outcome in outcomes], calls["ListDeadLetterSourceQueues"]) == ([True] * 3, 1)


def test_what_a_record_says_of_its_own_inbox_does_not_count(at: Scene) -> None:
    make_dlq(at, "price-order")
    raw(at, to="sqs:emails")
    assert redrive("given-up")[0].to == url(at, "price-order")


@pytest.mark.parametrize(("sources", "redriven"), [((), 0), (("price-order",), 1)], ids=["no source", "it is parked"])
def test_a_letter_whose_queue_nobody_knows_stays(sources: tuple[str, ...], redriven: int, at: Scene) -> None:
    """Whoever parked a letter may have had it from another queue than SQS moves records from."""
    make_dlq(at, *sources)
    put(at, "given-up", at.message(redrive=redriven))
    [outcome] = redrive("given-up")
    assert str(outcome.failed).startswith("it does not say which queue it came through")
    assert not outcome.deleted


@pytest.mark.parametrize("unreadable", [False, True])
def test_a_record_that_is_no_json_stays_unless_it_is_asked_for(unreadable: bool, at: Scene) -> None:
    make_dlq(at, "price-order")
    put(at, "given-up", at.message(), MessageBody="no JSON")
    [outcome] = redrive("given-up", unreadable=unreadable)
    assert (outcome.failed is None, outcome.deleted) == (unreadable, unreadable)


def test_of_several_queues_it_must_be_said_which(at: Scene) -> None:
    make_dlq(at, "price-order", "close-order")
    put(at, "given-up", at.message())
    [outcome] = redrive("given-up")
    assert "a dead-letter queue of several; give --to or --flow-class" in str(outcome.failed)
    [by_class] = redrive("given-up", flow=Orders)
    assert (by_class.to, by_class.deleted) == ("price-order", True)


def test_a_letter_that_the_dlq_handler_parked_goes_to_the_stage_not_to_the_dead_letter_queue(at: Scene) -> None:
    make_dlq(at, "price-order")
    kill(at, at.message(), 2)
    ender = dlq_handler(Orders).using(at.handler._services)
    assert ender([{**record_of(at), "eventSourceARN": arn("given-up")}]) == {"batchItemFailures": []}
    [outcome] = redrive()
    assert fates([outcome]) == [Fate.REDRIVEN]
    assert str(outcome.to).endswith("price-order")
    work(at, "price-order")
    assert at.priced() == 1


def record_of(at: Scene) -> dict[str, Any]:
    return record(at.message())


def test_a_committed_hop_whose_worker_died_before_it_sent_anything_is_sent_back_for_that(at: Scene) -> None:
    def no_sends(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise ClientError({"Error": {"Code": "Down", "Message": ""}}, call.operation)
        return proceed()

    make_dlq(at, "price-order")
    put(at, "given-up", at.message())
    with intercept(no_sends):
        assert at.deliver(at.message()) == [False]
    [outcome] = redrive("given-up")
    assert fates([outcome]) == [Fate.REDRIVEN]
    work(at, "price-order")
    assert (at.priced(), len(at.sent("close-order"))) == (1, 1)


@pytest.mark.parametrize(("left", "fate"), [(True, Fate.REDRIVEN), (False, Fate.SUPERSEDED)])
def test_a_committed_hop_is_sent_back_where_its_item_has_something_left_to_send(
    left: bool, fate: Fate, at: Scene
) -> None:
    make_dlq(at, "price-order")
    raw(at)
    at.deliver(at.message())
    if not left:
        at.aws.client("dynamodb").update_item(
            TableName="flowguard", Key=run_key("orders", ObjectId("o1")), UpdateExpression="REMOVE outbox"
        )
    assert fates(redrive("given-up")) == [fate]


# -- where to


def test_what_came_through_sns_needs_to_be_told_where_its_stage_reads(at: Scene) -> None:
    topic = at.aws.create_topic("orders")
    at.aws.subscribe(topic, url(at, "price-order"))
    at.aws.client("sns").publish(TopicArn=topic, Message='{"order_id":"o1"}')
    at.script.pricing = reject
    work(at, "price-order")
    at.script.pricing = works
    [outcome] = redrive()
    assert outcome.failed == "it does not say which queue it came through; give --to or --flow-class"
    assert redrive(to="price-order")[0].to == "price-order"
    work(at, "price-order")
    assert at.priced() == 1


class Entry(Stage[Order, OrderState], name="price-order"):
    def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
        return Done()


class Published(Flow, name="orders", object_id="order_id", inbox=Topic(f"arn:aws:sns:{REGION}:{ACCOUNT_ID}:orders")):
    stages = (Entry,)


class Laned(Flow, name="orders", object_id="order_id", inbox=(Lane("normal", "calm"), Lane("urgent", "price-order"))):
    stages = (Entry,)


@pytest.mark.parametrize(("lane", "queue"), [({}, "price-order"), ({"lane": "normal"}, "calm")])
def test_a_letter_goes_back_to_its_lane_which_it_names_or_came_by(at: Scene, lane: dict[str, str], queue: str) -> None:
    at.aws.create_queue("calm")
    die(at, at.message()._replace(carried={name: Attribute.string(value) for name, value in lane.items()}))
    [outcome] = redrive(flow=Laned)
    assert (fates([outcome]), outcome.to) == ([Fate.REDRIVEN], queue)


def test_no_letter_goes_through_a_topic_which_would_wrap_it_once_more(at: Scene) -> None:
    die(at)
    [outcome] = redrive(flow=Published)
    assert "name the queue behind that with --to" in str(outcome.failed)


def test_to_the_dead_letters_themselves_nothing_is_sent(at: Scene) -> None:
    die(at)
    with pytest.raises(Unusable, match="is the queue of dead letters itself"):
        redrive(to=arn("dead"))


def test_to_a_fifo_queue_goes_its_group_and_an_id_of_its_own(at: Scene) -> None:
    at.aws.create_queue("orders.fifo", FifoQueue="true")
    die(at)
    redrive(to="orders.fifo")
    [found] = at.sent("orders.fifo")
    assert found["Attributes"]["MessageGroupId"] == "o1"
    assert readable(found["Attributes"]["MessageDeduplicationId"]) == "run-1.1r1.redrive"


def test_letters_of_two_objects_with_one_request_id_are_both_redriven_to_a_fifo_queue(at: Scene) -> None:
    """SQS drops what has the id of another message of the last five minutes."""
    at.aws.create_queue("orders.fifo", FifoQueue="true")
    for message in (at.message(), at.order("o2")):
        die(at, message)
        redrive(to="orders.fifo")
    assert len(at.sent("orders.fifo")) == 2


def forged(at: Scene, home: str) -> None:
    """A parked letter whose body, which is a sender's text, names another queue."""
    told = {"Type": "Notification", "MessageId": "m", "TopicArn": home, "Message": '{"order_id":"o1"}'}
    body = json.dumps({**told, "Timestamp": "2026-01-02T03:04:05.678Z"})
    put(at, "dead", at.message(redrive=1), MessageBody=body)


@pytest.mark.parametrize(
    "home",
    [
        f"arn:aws:sqs:{REGION}:999999999999:price-order",
        f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:999999999999:price-order",
        f"arn:aws:sqs:mars-1:{ACCOUNT_ID}:price-order",
    ],
)
def test_a_body_chooses_no_queue_of_another_account_or_region(at: Scene, home: str) -> None:
    forged(at, home)
    [outcome] = redrive()
    assert str(outcome.failed).startswith(
        f"it names sqs:{home}, which is not in the account and region of {arn('dead')}"
    )
    assert str(outcome.failed).endswith("; give --to or --flow-class")
    assert not outcome.deleted
    assert redrive(flow=Orders)[0].to == "price-order"


def test_the_queue_that_sqs_names_goes_before_that_of_the_body(at: Scene) -> None:
    forged(at, arn("emails"))
    with intercept(moved_from(arn("price-order"))):
        [outcome] = redrive()
    assert (outcome.to, outcome.deleted, at.sent("emails")) == (arn("price-order"), True, [])


def test_a_letter_that_sqs_moved_goes_back_to_where_sqs_says_whatever_the_rule_of_the_names(at: Scene) -> None:
    forged(at, arn("emails"))
    with intercept(moved_from(arn("price-order"))):
        [outcome] = redrive(names=Names.parse("staging-*"))
    assert (outcome.failed, outcome.to, outcome.deleted) == (None, arn("price-order"), True)


def test_where_the_class_is_given_no_letter_of_another_flow_goes_by_its_own_word(at: Scene) -> None:
    die(at)
    put(at, "dead", at.message(flow="others", redrive=1))
    ours, theirs = redrive(flow=Orders)
    assert (ours.to, ours.deleted) == ("price-order", True)
    assert str(theirs.failed).startswith("it is of flow 'others', and --flow-class is 'orders'; ")
    assert not theirs.deleted


@pytest.mark.parametrize(
    ("key", "body"),
    [("deadline", {"deadline": START}), ("answer", {"status": "COMPLETED"}), ("group", {}), ("cancel_group", {})],
)
def test_what_a_run_waits_for_goes_to_the_queue_of_answers_where_it_is_believed(key: str, body: dict[str, Any]) -> None:
    with wait_scene() as at:
        address = at.address("a").as_json()
        place: Any = {"DataType": "String", "StringValue": json.dumps({key: address})}
        queue = at.aws.client("sqs").get_queue_url(QueueName="carts-dead-letters")["QueueUrl"]
        at.aws.client("sqs").send_message(
            QueueUrl=queue, MessageBody=json.dumps(body), MessageAttributes={"flowguard": place}
        )
        at.aws_clock.advance(seconds=10)
        found = DeadLetterQueue.find(Clients(), "carts-dead-letters", at.aws_clock)
        with Reading(Clients(), found, flow=Carts, wait=0, clock=at.aws_clock) as letters:
            [outcome] = Redriver(Clients(), "flowguard", letters).redrive(next(letters.pages()))
        assert (outcome.failed, outcome.to) == (None, "answers")


# -- what goes wrong


@pytest.mark.parametrize(("later", "is_left"), [(0, False), (1, True)])
def test_a_letter_that_arrived_after_its_queue_was_looked_up_is_left(later: int, is_left: bool, at: Scene) -> None:
    die(at)
    with reading() as open_:
        [letter] = next(open_.pages())
        letter = replace(letter, sent_at=open_.queue.looked_up_at + later)
        [outcome] = Redriver(Clients(), "flowguard", open_).redrive([letter])
    assert (outcome.failed is not None, outcome.deleted) == (is_left, not is_left)


def test_a_letter_that_is_sent_and_not_deleted_says_so(at: Scene) -> None:
    die(at)

    def refuses(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "DeleteMessageBatch":
            return proceed()
        return {"Failed": [{"Id": "0", "Code": "Busy", "Message": "later", "SenderFault": False}], "Successful": []}

    with intercept(refuses):
        [outcome] = redrive()
    assert (outcome.failed, outcome.deleted) == ("it was sent, and could not be deleted: Busy: later", False)
    assert outcome.sent
    assert (len(at.sent("price-order")), len(at.sent("dead"))) == (1, 1)


def test_an_obsolete_letter_that_is_not_deleted_was_not_sent_either(at: Scene) -> None:
    die(at)
    at.deliver(at.message(redrive=1), at.second())
    with intercept(denying("DeleteMessageBatch")), reading() as open_:
        redriver = Redriver(Clients(), "flowguard", open_, drop_obsolete=True)
        [outcome] = redriver.redrive(next(open_.pages()))
    assert (outcome.judgement and outcome.judgement.fate, outcome.sent) == (Fate.COMPLETED, False)
    assert (outcome.failed or "").startswith("it could not be deleted: queue 'dead': DeleteMessageBatch is denied")


def test_a_letter_that_is_refused_was_not_sent(at: Scene) -> None:
    die(at)
    with intercept(denying("SendMessageBatch")):
        [outcome] = redrive()
    assert (outcome.sent, outcome.deleted, outcome.failed is None) == (False, False, False)


def test_a_missing_table_is_named_before_anything_is_sent(at: Scene) -> None:
    die(at)
    with reading() as open_, pytest.raises(Unusable, match=r"table 'runs': does not exist; .*--table"):
        Redriver(Clients(), "runs", open_).redrive(next(open_.pages()))
    assert (at.sent("price-order"), len(at.sent("dead"))) == ([], 1)


def test_an_unreadable_letter_fails_by_name_and_the_others_go(at: Scene) -> None:
    die(at)
    put(at, "dead", at.message(), MessageAttributes={"flowguard": {"DataType": "String", "StringValue": "{"}})
    outcomes = redrive()
    assert [outcome.deleted for outcome in outcomes] == [True, False]
    assert "it cannot be read: has" in str(outcomes[1].failed) or "is not JSON" in str(outcomes[1].failed)


def test_a_letter_that_came_too_deep_stays_until_its_flow_goes_deeper(at: Scene) -> None:
    at.deliver(at.message(depth=17))
    [kept] = redrive(flow=Orders, drop_obsolete=True)
    assert (fates([kept]), kept.deleted, at.sent("price-order")) == ([Fate.TOO_DEEP], False, [])
    [sent] = redrive()
    assert (fates([sent]), sent.deleted) == ([Fate.REDRIVEN], True), "without the class nobody knows its max_depth"
    assert work(at, "price-order") == {"batchItemFailures": []}
    assert len(at.sent("dead")) == 1
