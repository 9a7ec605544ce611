"""A queue of dead letters, read and given back, and letters sent back to their stages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

from flowguard.attributes import Attribute, attributes_to
from flowguard.aws.clients import Clients
from flowguard.aws.dead_letters import DeadLetterQueue, Reading, Unusable, explained
from flowguard.aws.redrive import Outcome as Redriven
from flowguard.aws.redrive import Redriver
from flowguard.clock import ManualClock
from flowguard.destinations import Topic
from flowguard.errors import Reject
from flowguard.flow import AnyFlow, Flow
from flowguard.handler import dlq_handler
from flowguard.local.account import ACCOUNT_ID, REGION
from flowguard.local.calls import ApiCall, Proceed, Response, intercept
from flowguard.message import Message
from flowguard.outcome import Done, Outcome
from flowguard.redrive import Fate
from flowguard.run import Status
from flowguard.stage import Stage
from flowguard.step import Step
from tests.scene import START, Order, Orders, OrderState, Scene, record, scene


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def arn(queue: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}"


def url(at: Scene, queue: str) -> str:
    return at.aws.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]


def reject(step: Step[OrderState]) -> None:
    raise Reject("no such tariff")


def works(step: Step[OrderState]) -> None:
    """What the handler does once its mistake is put right."""


def die(at: Scene, *messages: Message) -> None:
    """The messages end among the dead letters."""
    at.script.pricing = reject
    at.deliver(*(messages or (at.message(),)))
    at.script.pricing = works


def put(at: Scene, queue: str, message: Message, **changes: Any) -> None:
    attributes: Any = attributes_to(Attribute.to_sqs_api, message.attributes())
    at.aws.client("sqs").send_message(
        QueueUrl=url(at, queue), **{"MessageBody": message.body, "MessageAttributes": attributes, **changes}
    )


def reading(queue: str = "dead", flow: AnyFlow | None = None) -> Reading:
    clients = Clients()
    return Reading(clients, DeadLetterQueue.find(clients, queue), flow=flow, wait=0, clock=ManualClock(START))


def redrive(queue: str = "dead", *, flow: AnyFlow | None = None, **options: Any) -> list[Redriven]:
    with reading(queue, flow) as open_:
        redriver = Redriver(Clients(), "flowguard", open_, **options)
        return [outcome for page in open_.pages() for outcome in redriver.redrive(page)]


def fates(outcomes: list[Redriven]) -> list[Fate | None]:
    return [outcome.judgement.fate if outcome.judgement else None for outcome in outcomes]


def work(at: Scene, queue: str) -> Any:
    """The function takes what is in the queue, as Lambda's trigger hands it over."""
    records = [{**found, "EventSourceARN": arn(queue)} for found in at.sent(queue)]
    return at.handler(records)


# -- reading


def test_looking_at_the_letters_consumes_none_and_leaves_none_hidden(at: Scene) -> None:
    die(at, *(at.message(object_id=f"o{i}", request_id=f"r{i}") for i in range(23)))
    for count in (1, 2):
        with reading() as open_:
            letters = [letter for page in open_.pages() for letter in page]
        assert len({letter.message_id for letter in letters}) == len(letters) == 23
        assert {letter.receive_count for letter in letters} == {count}, "SQS counts whoever looks"


def test_the_letters_are_given_back_where_the_reader_fails(at: Scene) -> None:
    die(at)

    def read_and_fail() -> None:
        with reading() as open_:
            next(open_.pages())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_and_fail()
    assert len(at.sent("dead")) == 1


def test_a_reader_that_may_not_give_back_says_how_long_the_letters_stay_hidden(at: Scene) -> None:
    die(at)
    with intercept(denying("ChangeMessageVisibilityBatch")), reading() as open_:
        assert [len(page) for page in open_.pages()] == [1]
    assert open_.warnings[0].startswith("letters stay hidden for up to 300 s: ")


def test_letters_that_come_round_again_end_the_reading(at: Scene) -> None:
    die(at)

    def visible_at_once(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ReceiveMessage":
            params: Any = call.params
            params["VisibilityTimeout"] = 0
        return proceed()

    with intercept(visible_at_once), reading() as open_:
        assert [len(page) for page in open_.pages()] == [1]
    assert "longer --visibility" in open_.warnings[0]


def test_a_queue_is_found_by_name_url_and_arn(at: Scene) -> None:
    die(at)
    for name in ("dead", url(at, "dead"), arn("dead")):
        found = DeadLetterQueue.find(Clients(), name)
        assert (found.url, found.arn, found.count) == (url(at, "dead"), arn("dead"), 1)


# -- sending back


def test_a_letter_goes_back_to_the_queue_it_came_through_and_its_run_goes_on(at: Scene) -> None:
    die(at)
    [outcome] = redrive()
    assert (fates([outcome]), outcome.to, outcome.deleted) == ([Fate.REDRIVEN], arn("price-order"), True)
    assert work(at, "price-order") == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert (item.request_id, item.redrive, item.status, at.priced()) == ("run-1", 1, Status.RUNNING, 1)
    assert at.sent("dead") == []


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


def sent_again(found: Any) -> dict[str, Any]:
    return {"MessageBody": found["Body"], "MessageAttributes": found["MessageAttributes"]}


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
    assert (item.request_id, item.redrive, at.priced()) == ("run-1", 1, 1)


def test_a_record_without_ids_comes_back_as_the_request_that_it_was(at: Scene) -> None:
    make_dlq(at, "price-order")
    put(at, "given-up", at.message(), MessageAttributes={})
    [outcome] = redrive("given-up")
    work(at, "price-order")
    item = at.item()
    assert item is not None
    assert (item.request_id, item.redrive) == (outcome.letter.message_id, 1)


def test_of_several_queues_it_must_be_said_which(at: Scene) -> None:
    make_dlq(at, "price-order", "close-order")
    put(at, "given-up", at.message())
    [outcome] = redrive("given-up")
    assert "a dead-letter queue of several; give --to or --flow-class" in str(outcome.failed)
    [by_class] = redrive("given-up", flow=Orders)
    assert (by_class.to, by_class.deleted) == ("price-order", True)


def test_a_letter_that_the_dlq_handler_parked_goes_to_the_stage_not_to_the_dead_letter_queue(at: Scene) -> None:
    make_dlq(at, "price-order")
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
    assert found["Attributes"]["MessageDeduplicationId"] == "run-1.1.1.redrive"


# -- what goes wrong


def denying(operation: str) -> Any:
    def deny(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, operation)
        return proceed()

    return deny


def test_a_missing_table_is_named_before_anything_is_sent(at: Scene) -> None:
    die(at)
    with reading() as open_, pytest.raises(Unusable, match=r"table 'runs': does not exist; .*--table"):
        Redriver(Clients(), "runs", open_).redrive(next(open_.pages()))
    assert (at.sent("price-order"), len(at.sent("dead"))) == ([], 1)


def test_a_missing_queue_is_named() -> None:
    with scene(), pytest.raises(Unusable, match=r"queue 'nope': does not exist; check its name"):
        DeadLetterQueue.find(Clients(), "nope")


def test_denied_access_names_the_action_to_allow(at: Scene) -> None:
    with intercept(denying("GetQueueAttributes")), pytest.raises(Unusable, match=r"allow it .*: GetQueueAttributes"):
        DeadLetterQueue.find(Clients(), "dead")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NoRegionError(), "x: no region is known; give --region, or set AWS_REGION"),
        (NoCredentialsError(), "x: there are no credentials; sign in, or choose a profile with AWS_PROFILE"),
        (EndpointConnectionError(endpoint_url="http://h"), "is --endpoint-url right, and can it be reached?"),
        (ClientError({"Error": {"Code": "ExpiredToken"}}, "X"), "x: the credentials are not accepted (ExpiredToken)"),
        (ClientError({"Error": {"Code": "Odd", "Message": "so"}}, "X"), "x: Odd: so"),
    ],
)
def test_every_error_of_aws_says_what_to_put_right(error: Exception, told: str) -> None:
    with pytest.raises(Unusable) as caught, explained("x"):
        raise error
    assert told in str(caught.value)


def test_an_unreadable_letter_fails_by_name_and_the_others_go(at: Scene) -> None:
    die(at)
    put(at, "dead", at.message(), MessageAttributes={"flowguard": {"DataType": "String", "StringValue": "{"}})
    outcomes = redrive()
    assert [outcome.deleted for outcome in outcomes] == [True, False]
    assert "it cannot be read: has" in str(outcomes[1].failed) or "is not JSON" in str(outcomes[1].failed)
