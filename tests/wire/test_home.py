"""Which destinations are in the function's own account and region: all others may be anybody's."""

from __future__ import annotations

import pytest

from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.wire.home import Home, is_local

HOME = Home("aws", "eu-west-1", "123456789012")
HERE = "eu-west-1:123456789012"
NAMED = [Queue("replies"), Queue("replies.fifo"), Function("told"), Bus("default", "shop", "Paid")]
BY_ADDRESS = [
    Queue(f"arn:aws:sqs:{HERE}:replies"),
    Queue(f"arn:aws:sqs:{HERE}:replies.fifo"),
    Queue("https://sqs.eu-west-1.amazonaws.com/123456789012/replies"),
    Queue("https://eu-west-1.queue.amazonaws.com/123456789012/replies"),
    Topic(f"arn:aws:sns:{HERE}:told"),
    Topic(f"arn:aws:sns:{HERE}:told.fifo"),
    Function(f"arn:aws:lambda:{HERE}:function:told"),
    Function(f"arn:aws:lambda:{HERE}:function:told:$LATEST"),
    Function(f"arn:aws:lambda:{HERE}:function:told:live"),
    Bus(f"arn:aws:events:{HERE}:event-bus/default", "shop", "Paid"),
]
ELSEWHERE = [
    Queue("arn:aws:sqs:eu-west-1:999999999999:replies"),
    Queue("arn:aws:sqs:us-east-1:123456789012:replies"),
    Queue("arn:aws-cn:sqs:eu-west-1:123456789012:replies"),
    Queue(f"arn:aws:sqs:{HERE}:999999999999:replies"),  # whoever splits it from the right finds the other account
    Queue(f"arn:aws:sns:{HERE}:replies"),
    Queue(f"arn:aws:sqs:{HERE}:"),
    Queue("https://sqs.eu-west-1.amazonaws.com/999999999999/replies"),
    Queue("https://sqs.us-east-1.amazonaws.com/123456789012/replies"),
    Queue("http://sqs.eu-west-1.amazonaws.com/123456789012/replies"),
    Queue("https://evil.example/123456789012/replies"),
    Queue("https://sqs.eu-west-1.amazonaws.com.evil.example/123456789012/replies"),
    Queue("https://evil.example/sqs.eu-west-1.amazonaws.com/123456789012/replies"),
    Queue("https://sqs.eu-west-1.amazonaws.com@evil.example/123456789012/replies"),
    Queue("123456789012/replies"),
    Queue("replies\n"),
    Queue("replies?x"),
    Topic("told"),
    Topic("arn:aws:sns:eu-west-1:999999999999:told"),
    Topic(f"arn:aws:sqs:{HERE}:told"),
    Function("arn:aws:lambda:eu-west-1:999999999999:function:told"),
    Function(f"arn:aws:lambda:{HERE}:layer:told"),
    Function("999999999999:function:told"),
    Function("999999999999:told"),
    Function("told:live"),
    Bus("arn:aws:events:eu-west-1:999999999999:event-bus/default", "shop", "Paid"),
    Bus(f"arn:aws:events:{HERE}:rule/default", "shop", "Paid"),
    Bus("de fault", "shop", "Paid"),
]


@pytest.mark.parametrize("to", [*NAMED, *BY_ADDRESS], ids=str)
def test_what_is_named_barely_or_by_this_account_and_region_is_here(to: Destination) -> None:
    assert is_local(to, HOME)


@pytest.mark.parametrize("to", ELSEWHERE, ids=repr)
def test_anything_else_is_elsewhere(to: Destination) -> None:
    assert not is_local(to, HOME)


@pytest.mark.parametrize("to", NAMED, ids=str)
def test_a_bare_name_is_here_wherever_that_is(to: Destination) -> None:
    assert is_local(to, None)


@pytest.mark.parametrize("to", [*BY_ADDRESS, *ELSEWHERE], ids=repr)
def test_where_the_account_is_not_known_only_bare_names_are_here(to: Destination) -> None:
    assert not is_local(to, None)


@pytest.mark.parametrize(
    ("arns", "home"),
    [
        ((f"arn:aws:lambda:{HERE}:function:price:live",), HOME),
        ((f"arn:aws:lambda:{HERE}:function:price", "arn:aws:sqs:us-east-1:999999999999:carts"), HOME),
        ((None, f"arn:aws:sqs:{HERE}:carts"), HOME),
        (("price", f"arn:aws:sqs:{HERE}:carts"), HOME),
        (("arn:aws-us-gov:sqs:us-gov-west-1:123456789012:q",), Home("aws-us-gov", "us-gov-west-1", "123456789012")),
        ((None, None), None),
        (("arn:aws:sqs:eu-west-1::carts", "arn:aws:s3:::bucket"), None),
    ],
)
def test_the_first_arn_that_says_where_it_is_is_believed(arns: tuple[str | None, ...], home: Home | None) -> None:
    assert Home.of(*arns) == home


# -- beside a queue whose URL is known ---------------------------------------------------------------------------------

DEAD_ARN = "arn:aws:sqs:eu-west-1:123456789012:dead"
DEAD_URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/dead"
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
def test_a_letter_may_go_to_what_is_beside_its_queue(to: Destination) -> None:
    assert is_local(to, Home.of(DEAD_ARN), beside=DEAD_URL)


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
def test_and_to_nothing_else(to: Destination) -> None:
    assert not is_local(to, Home.of(DEAD_ARN), beside=DEAD_URL)


def test_an_emulators_queues_are_beside_each_other() -> None:
    home, beside = Home.of("arn:aws:sqs:elasticmq:000000000000:dead"), "http://localhost:9324/000000000000/dead"
    assert is_local(Queue("http://localhost:9324/000000000000/emails"), home, beside=beside)
    assert not is_local(Queue("http://localhost:9325/000000000000/emails"), home, beside=beside)
    assert not is_local(Queue("http://localhost:9324/000000000000/emails"), home)
