"""Where messages go: values that are written as text in outboxes and attributes, and come back as they were."""

from __future__ import annotations

import pytest

from flowguard.destinations import Bus, Destination, Function, Queue, Topic, destination, parse_destination

TOPIC = "arn:aws:sns:eu-west-1:123456789012:told"

TEXTS: list[tuple[Destination, str]] = [
    (Queue("carts"), "sqs:carts"),
    (Queue("https://sqs.eu-west-1.amazonaws.com/123456789012/carts"), "sqs:https://sqs.eu-west-1.amazonaws.com/"),
    (Queue("arn:aws:sqs:eu-west-1:123456789012:carts"), "sqs:arn:aws:sqs:eu-west-1:123456789012:carts"),
    (Topic(TOPIC), f"sns:{TOPIC}"),
    (Function("price-cart"), "lambda:price-cart"),
    (Function("arn:aws:lambda:eu-west-1:123456789012:function:f:live"), "lambda:arn:aws:lambda:eu-west-1:"),
    (Bus("default", "shop.carts", "CartPriced"), "events:shop.carts|CartPriced|default"),
    (Bus("arn:aws:events:eu-west-1:1:event-bus/b", "s", "d"), "events:s|d|arn:aws:events:eu-west-1:1:event-bus/b"),
]


@pytest.mark.parametrize(("where", "text"), TEXTS)
def test_a_destination_is_text_and_back(where: Destination, text: str) -> None:
    assert str(where).startswith(text)
    assert parse_destination(str(where)) == where


@pytest.mark.parametrize(
    "text",
    ["", "carts", "sqs:", "sns:", "lambda:", "smtp:me", "events:default", "events:a|b", "events:a|b|", "events:||b"],
)
def test_text_that_is_no_destination_is_quoted_with_what_it_could_be(text: str) -> None:
    with pytest.raises(ValueError, match="is no destination; write sqs:…, sns:…, lambda:… or events:source") as caught:
        parse_destination(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("parts", [("b", "a|b", "t"), ("b", "s", "a|b"), ("a|b", "s", "t")])
def test_a_bus_whose_text_could_not_be_read_again_is_refused(parts: tuple[str, str, str]) -> None:
    with pytest.raises(ValueError, match=r"has a '\|', which separates its parts"):
        Bus(*parts)


def test_an_error_repeats_no_long_text() -> None:
    with pytest.raises(ValueError, match="is no destination") as unread:
        parse_destination("x" * 250_000)
    with pytest.raises(ValueError, match="which separates") as divided:
        Bus("b" * 250_000, "a|b", "t")
    assert max(len(str(unread.value)), len(str(divided.value))) < 500


def test_a_bare_text_is_a_queue() -> None:
    assert destination("carts") == Queue("carts")
    assert destination(Topic(TOPIC)) == Topic(TOPIC)


@pytest.mark.parametrize("where", [where for where, _ in TEXTS[:3]])
def test_a_queue_has_a_short_name_however_it_was_given(where: Queue) -> None:
    assert where.short_name == "carts"


@pytest.mark.parametrize(
    ("where", "fifo"),
    [
        (Queue("carts"), False),
        (Queue("carts.fifo"), True),
        (Queue("https://sqs.eu-west-1.amazonaws.com/123456789012/carts.fifo"), True),
        (Topic(TOPIC), False),
        (Topic(f"{TOPIC}.fifo"), True),
    ],
)
def test_fifo_is_in_the_name(where: Queue | Topic, fifo: bool) -> None:
    assert where.fifo is fifo
