"""A queue of dead letters, read and given back, and letters sent back to their stages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading, Unusable, explained
from flowguard.aws.redriver import Outcome as Redriven
from flowguard.aws.redriver import Redriver
from flowguard.clock import ManualClock
from flowguard.destinations import Topic
from flowguard.errors import Reject
from flowguard.flow import AnyFlow, Flow
from flowguard.handler import dlq_handler
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import Message
from flowguard.worker.redrive import Fate
from tests.scene import ENGINES, START, Order, Orders, OrderState, Scene, record, scene


@pytest.fixture(params=ENGINES)
def at(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with scene(engine=request.param) as found:
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
    die(at, *(at.order(f"o{i}", request_id=f"r{i}") for i in range(23)))
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


def moved_from(source: str) -> Any:
    """SQS says that it moved each letter from this queue. moto's does not say it."""

    def say(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == "ReceiveMessage":
            for found in answer.get("Messages", []):
                found["Attributes"]["DeadLetterQueueSourceArn"] = source
        return answer

    return say


def test_where_the_class_is_given_no_letter_of_another_flow_goes_by_its_own_word(at: Scene) -> None:
    die(at)
    put(at, "dead", at.message(flow="others", redrive=1))
    ours, theirs = redrive(flow=Orders)
    assert (ours.to, ours.deleted) == ("price-order", True)
    assert str(theirs.failed).startswith("it is of flow 'others', and --flow-class is 'orders'; ")
    assert not theirs.deleted


# -- messages that were not sent


def park(at: Scene, to: str, **changes: Any) -> None:
    """A message that its destination refused for good, as it lies among the dead letters."""
    unsent = {"kind": "side", "to": to, "id": "run-1.1.0", "attributes": {"a": ["String", "b"]}, "group": "o1"}
    place = {"version": 1, "hop": 1, "object": "o1", "error": ["Refused", "no such queue", START], "unsent": unsent}
    said = {**at.message().attributes(), "flowguard": Attribute.string(json.dumps({**place, **changes}))}
    attributes: Any = attributes_to(Attribute.to_sqs_api, said)
    at.aws.client("sqs").send_message(QueueUrl=url(at, "dead"), MessageBody="hello", MessageAttributes=attributes)


def test_an_unsent_message_goes_where_it_was_to_go_as_it_was(at: Scene) -> None:
    at.aws.create_queue("mails.fifo", FifoQueue="true")
    park(at, "sqs:mails.fifo")
    [outcome] = redrive()
    assert outcome.judgement == (Fate.REDRIVEN, "sent to where it was to go")
    assert (outcome.to, outcome.deleted, at.sent("dead")) == ("mails.fifo", True, [])
    [found] = at.sent("mails.fifo")
    assert (found["Body"], list(found["MessageAttributes"])) == ("hello", ["a"])
    assert found["Attributes"]["MessageGroupId"] == "o1"
    assert found["Attributes"]["MessageDeduplicationId"] == "run-1.1.0"


@pytest.mark.parametrize("to", [arn("emails"), f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT_ID}/emails"])
def test_an_unsent_message_goes_to_an_arn_or_url_of_the_same_account(at: Scene, to: str) -> None:
    park(at, f"sqs:{to}")
    [outcome] = redrive()
    assert (outcome.failed, outcome.to, len(at.sent("emails"))) == (None, to, 1)


def test_an_unsent_message_goes_to_a_topic_too(at: Scene) -> None:
    topic = at.aws.create_topic("told")
    at.aws.subscribe(topic, url(at, "emails"))
    park(at, f"sns:{topic}")
    [outcome] = redrive()
    assert (outcome.failed, outcome.to, outcome.deleted) == (None, f"sns:{topic}", True)
    assert json.loads(at.sent("emails")[0]["Body"])["Message"] == "hello"


def test_an_unsent_message_goes_elsewhere_where_that_is_said(at: Scene) -> None:
    park(at, "sqs:emails")
    [outcome] = redrive(to="completed")
    assert outcome.judgement == (Fate.REDRIVEN, "sent to where --to says")
    assert (at.sent("emails"), [found["Body"] for found in at.sent("completed")]) == ([], ["hello"])


@pytest.mark.parametrize(
    "to",
    [
        f"sqs:arn:aws:sqs:{REGION}:999999999999:emails",
        "sqs:https://evil.example/123456789012/emails",
        f"sns:arn:aws:sns:{REGION}:999999999999:told",
        f"lambda:arn:aws:lambda:{REGION}:999999999999:function:tell",
        f"events:shop|told|arn:aws:events:{REGION}:999999999999:event-bus/default",
    ],
)
def test_an_unsent_message_leaves_the_account_only_where_that_is_allowed(at: Scene, to: str) -> None:
    park(at, to)
    [outcome] = redrive()
    assert str(outcome.failed).startswith(f"it names {to}, which is not in the account and region of {arn('dead')}")
    assert "--elsewhere" in str(outcome.failed)
    assert not outcome.deleted
    with intercept(noting := Noting()):
        redrive(elsewhere=True)
    assert noting.sent, "where it is allowed it is tried"
    assert redrive(to="emails")[0].deleted


class Noting:
    """Answers what would leave this account, and notes that it was asked."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation in ("SendMessageBatch", "PublishBatch", "Invoke", "PutEvents", "GetQueueUrl"):
            self.sent.append(call.operation)
            if call.operation != "GetQueueUrl":
                raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not yours"}}, call.operation)
        return proceed()


def test_an_unsent_message_that_sqs_moved_may_be_anybodys_and_is_sent_nowhere(at: Scene) -> None:
    park(at, "sqs:emails")
    with intercept(moved_from(arn("price-order"))):
        for options in ({}, {"to": "emails"}, {"elsewhere": True}, {"drop_obsolete": True}):
            [outcome] = redrive(**options)
            assert str(outcome.failed).startswith(f"SQS moved it here from {arn('price-order')}, so anybody may")
            assert not outcome.deleted
    assert at.sent("emails") == []


def test_an_unsent_message_is_not_sent_back_to_the_dead_letters(at: Scene) -> None:
    park(at, f"sqs:{arn('dead')}")
    [outcome] = redrive()
    assert outcome.failed == "it names the queue of dead letters itself; give --to"


def test_an_unsent_message_whose_queue_is_still_missing_stays(at: Scene) -> None:
    park(at, "sqs:nowhere")
    park(at, "sqs:emails")
    missing, sent = sorted(redrive(), key=lambda outcome: outcome.deleted)
    assert "queue 'nowhere': does not exist" in str(missing.failed)
    assert (missing.deleted, sent.deleted, len(at.sent("dead"))) == (False, True, 1)


def test_a_next_hops_message_goes_to_the_inbox_that_refused_it(at: Scene) -> None:
    at.deliver(at.message())
    [onward] = at.sent("close-order")
    place = json.loads(onward["MessageAttributes"]["flowguard"]["StringValue"])
    said = {**place, "redrive": 1, "to": "sqs:close-order"}
    onward["MessageAttributes"]["flowguard"]["StringValue"] = json.dumps(said)
    at.aws.client("sqs").send_message(QueueUrl=url(at, "dead"), **sent_again(onward))
    [outcome] = redrive()
    assert (fates([outcome]), outcome.to, outcome.deleted) == ([Fate.REDRIVEN], "close-order", True)
    assert work(at, "close-order") == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert item.status is Status.COMPLETED


@pytest.mark.parametrize(
    ("to", "why"),
    [
        (f"sqs:arn:aws:sqs:{REGION}:999999999999:close-order", "is not in the account and region"),
        (f"sns:arn:aws:sns:{REGION}:{ACCOUNT_ID}:orders", "name the queue behind that with --to"),
        ("sqs:dead", "it names the queue of dead letters itself"),
    ],
)
def test_a_next_hops_message_goes_to_no_other_account_no_topic_and_not_back(at: Scene, to: str, why: str) -> None:
    put(at, "dead", at.message(), MessageAttributes=onward_attributes(at, to))
    [outcome] = redrive()
    assert why in str(outcome.failed)
    assert redrive(to="close-order")[0].deleted


def onward_attributes(at: Scene, to: str) -> Any:
    place = {"version": 1, "hop": 1, "object": "o1", "redrive": 1, "to": to}
    said = {**at.message().attributes(), "flowguard": Attribute.string(json.dumps(place))}
    return attributes_to(Attribute.to_sqs_api, said)


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
        (NoRegionError(), "x: no region is known; give --region, or set AWS_DEFAULT_REGION"),
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
