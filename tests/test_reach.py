"""A letter may name a destination of its own account and region, and no other."""

from __future__ import annotations

import pytest

from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.reach import is_beside

ARN = "arn:aws:sqs:eu-west-1:123456789012:dead"
URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/dead"
HERE = "eu-west-1:123456789012"


@pytest.mark.parametrize(
    "to",
    [
        Queue("emails"),
        Queue("emails.fifo"),
        Queue(f"arn:aws:sqs:{HERE}:emails"),
        Queue("https://sqs.eu-west-1.amazonaws.com/123456789012/emails.fifo"),
        Topic(f"arn:aws:sns:{HERE}:told"),
        Function("tell"),
        Function(f"arn:aws:lambda:{HERE}:function:tell"),
        Function(f"arn:aws:lambda:{HERE}:function:tell:live"),
        Bus("default", "shop", "told"),
        Bus(f"arn:aws:events:{HERE}:event-bus/default", "shop", "told"),
    ],
    ids=str,
)
def test_what_is_beside_the_queue(to: Destination) -> None:
    assert is_beside(to, arn=ARN, url=URL)


@pytest.mark.parametrize(
    "to",
    [
        Queue("arn:aws:sqs:eu-west-1:999999999999:emails"),
        Queue("arn:aws:sqs:us-east-1:123456789012:emails"),
        Queue("arn:aws-cn:sqs:eu-west-1:123456789012:emails"),
        Queue(f"arn:aws:sns:{HERE}:emails"),
        Queue(f"arn:aws:sqs:{HERE}:999999999999:emails"),
        Queue(f"arn:aws:sqs:{HERE}"),
        Queue("https://sqs.eu-west-1.amazonaws.com/999999999999/emails"),
        Queue("https://sqs.us-east-1.amazonaws.com/123456789012/emails"),
        Queue("http://sqs.eu-west-1.amazonaws.com/123456789012/emails"),
        Queue("https://evil.example/123456789012/emails"),
        Queue("https://sqs.eu-west-1.amazonaws.com/123456789012/emails?x"),
        Queue("https://sqs.eu-west-1.amazonaws.com/123456789012/"),
        Queue("HTTPS://sqs.eu-west-1.amazonaws.com/123456789012/emails"),
        Topic("arn:aws:sns:eu-west-1:999999999999:told"),
        Topic(f"arn:aws:sns:{HERE}:told:more"),
        Function("999999999999:function:tell"),
        Function("us-east-1:999999999999:function:tell"),
        Function("arn:aws:lambda:eu-west-1:999999999999:function:tell"),
        Bus("arn:aws:events:eu-west-1:999999999999:event-bus/default", "shop", "told"),
    ],
    ids=str,
)
def test_what_is_not(to: Destination) -> None:
    assert not is_beside(to, arn=ARN, url=URL)
