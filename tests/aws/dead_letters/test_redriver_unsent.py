"""Messages that were refused for good lie among the dead letters, and are sent where they were to go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.protocol.run import Status
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.worker.redrive import Fate
from tests.aws.dead_letters.letters import (
    arn,
    fates,
    moved_from,
    put,
    redrive,
    sent_again,
    url,
    work,
)
from tests.scene import START, Scene


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
    assert noting.sent[1:], "where it is allowed it is tried, after the look for the letters' own queue"
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
    with intercept(Recorder()) as made, intercept(moved_from(arn("price-order"))):
        for options in ({}, {"to": "emails"}, {"elsewhere": True}, {"drop_obsolete": True}):
            [outcome] = redrive(**options)
            assert str(outcome.failed).startswith(f"SQS moved it here from {arn('price-order')}, so anybody may")
            assert not outcome.deleted
    asked = [call.params["QueueName"] for call in made.calls if call.operation == "GetQueueUrl"]
    assert asked.count("emails") == 1, "by whoever says --to, and by nobody else"
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
    with intercept(Recorder()) as made:
        [outcome] = redrive()
    assert why in str(outcome.failed)
    asked = [call.params for call in made.calls if call.operation == "GetQueueUrl"]
    assert not [one for one in asked if one.get("QueueOwnerAWSAccountId") == "999999999999"], "nobody looks there"
    assert redrive(to="close-order")[0].deleted


def onward_attributes(at: Scene, to: str) -> Any:
    place = {"version": 1, "hop": 1, "object": "o1", "redrive": 1, "to": to}
    said = {**at.message().attributes(), "flowguard": Attribute.string(json.dumps(place))}
    return attributes_to(Attribute.to_sqs_api, said)
