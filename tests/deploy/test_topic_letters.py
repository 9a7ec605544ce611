"""What SQS gives up of a topic's queue goes back to that queue: the function of dead letters may send there."""

from __future__ import annotations

from typing import Final

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step, Topic, dlq_handler, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock
from flowguard.deploy.audit import audited
from flowguard.deploy.derive import needs_of
from flowguard.deploy.found import FoundFunction, FunctionKind
from flowguard.deploy.options import DeployOptions
from flowguard.settings import Settings
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.testing import sns_to_sqs_event
from flowguard.testing.lambda_events import Event
from tests.deploy.exercised import actions_of, granted, needs
from tests.deploy.waiting import Order

PLACED: Final = "arn:aws:sns:us-east-1:210987654321:placed"
"""A topic of another team: everybody else who gets what is published there would get what is published again."""

QUEUE: Final = "by-topic-place"
ARN: Final = "arn:aws:sqs:us-east-1:123456789012:"
PUBLISHED_AT: Final = 1_800_000_000_000


class Place(Stage[Order], name="place", then="ship", inbox=Topic(PLACED)):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Ship.message(order)


class Ship(Stage[Order], name="ship", inbox="to-ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class ByTopic(Flow, name="by-topic", object_id="order_id"):
    stages = (Place, Ship)


handler = lambda_handler(ByTopic)
killed = dlq_handler(ByTopic)

OPTIONS: Final = DeployOptions.model_validate({"queues": {QUEUE: {"senders": []}}})


def given_up() -> Event:
    """The record of a notification that no function was invoked with, as SQS has moved it."""
    event = sns_to_sqs_event(ARN + QUEUE, Order(order_id="o1"), topic=PLACED, published_at=PUBLISHED_AT)
    [record] = event["Records"]
    record["eventSourceARN"] = f"{ARN}by-topic-killed"
    record["attributes"]["DeadLetterQueueSourceArn"] = ARN + QUEUE
    return event


@pytest.mark.slow("compares what a role allows with the calls")
def test_the_function_of_dead_letters_may_do_what_brings_a_record_back() -> None:
    needed = needs(__name__, options=OPTIONS)
    clock = ManualClock(PUBLISHED_AT + 60_000)
    with MemoryAWS(clock=clock) as aws, intercept(Recorder()) as calls:
        aws.create_table("flowguard")
        for queue in needed.queues:
            aws.create_queue(queue.name)
        function = killed.using(aws_services(Settings(), Clients(), clock=clock))
        calls.calls.clear()
        assert function(given_up()) == {"batchItemFailures": []}
        assert len(aws.messages(QUEUE)) == 1
    made = {("by-topic-killed", action, on) for call in calls.calls for action, on in actions_of(call)}
    assert ("by-topic-killed", "sqs:SendMessage", QUEUE) in made
    assert sorted(made - granted(needed)) == []


def test_a_queue_of_another_account_keeps_its_arn() -> None:
    class Shelve(Stage[Order], name="shelve", inbox="arn:aws:sqs:us-east-1:210987654321:shelves"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    class Shelving(Flow, name="shelving", object_id="order_id"):
        stages = (Shelve,)

    found = FoundFunction(__name__, "killed", FunctionKind.KILLED, (Shelving,))
    serving = FoundFunction(__name__, "shelve", FunctionKind.STAGES, (Shelving,), ((Shelving, Shelve),))
    [function] = [each for each in needs_of([serving, found], DeployOptions()).functions if each.definition is found]
    sends = [each.name for each in function.permissions if "sqs:SendMessage" in each.actions]
    assert "arn:aws:sqs:us-east-1:210987654321:shelves" in sends


def test_it_may_not_publish_to_the_topic() -> None:
    assert [one for one in granted(needs(__name__, options=OPTIONS)) if one[1] == "sns:Publish"] == []


def test_a_queue_that_is_closed_lets_it_in() -> None:
    queue = audited(needs(__name__, options=OPTIONS), OPTIONS).partition(f"\n  {QUEUE}, inbox\n")[2]
    assert f"sent to by by-topic-handler, by-topic-killed, the topic {PLACED}\n" in queue
