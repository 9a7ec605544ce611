"""The names of resources at AWS: what a rule makes of a name, what is given one by one, and what stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.destinations import Queue
from flowguard.names.at_aws import AS_IN_CODE, NameKind, Names, is_foreign

TOPIC = "arn:aws:sns:eu-west-1:123456789012:orders-placed"
GIVEN = "staging-*,queues.parcels=arn:aws:sqs:eu-west-1:210987654321:theirs,tables.stock=shared-stock"


@pytest.mark.parametrize(
    ("rule", "name", "at_aws"),
    [
        ("*", "orders", "orders"),
        ("staging-*", "orders", "staging-orders"),
        ("*-staging", "orders", "orders-staging"),
        ("a-*-b", "orders", "a-orders-b"),
        ("*-staging", "orders.fifo", "orders-staging.fifo"),
        ("staging-*", "staging-orders", "staging-staging-orders"),
    ],
)
def test_a_rule_makes_the_name_at_aws_and_is_undone(rule: str, name: str, at_aws: str) -> None:
    names = Names.parse(rule)
    assert names.queue(name) == names.by_rule(name) == at_aws
    assert names.queue_in_code(at_aws) == name


@pytest.mark.parametrize(
    "name", ["arn:aws:sqs:eu-west-1:123456789012:orders", "https://sqs.eu-west-1.amazonaws.com/1/orders"]
)
def test_a_queue_given_by_its_arn_or_url_is_the_same_everywhere(name: str) -> None:
    assert Names.parse("staging-*").queue(name) == name


def test_names_can_be_given_one_by_one() -> None:
    names = Names.parse(GIVEN)
    assert names.queue("parcels") == "arn:aws:sqs:eu-west-1:210987654321:theirs"
    assert (names.table("stock"), names.queue("stock")) == ("shared-stock", "staging-stock")
    assert names.queue_in_code("theirs") == "parcels"
    assert names.queue_in_code("staging-parcels") == "staging-parcels", "no queue of the code is called that at AWS"
    assert Names.parse(str(names)) == names


def arn(queue: str, account: str = "123456789012") -> str:
    return f"arn:aws:sqs:eu-west-1:{account}:{queue}"


@pytest.mark.parametrize("name", [arn("orders-b"), "https://sqs.eu-west-1.amazonaws.com/1/orders-b"])
def test_what_is_given_exactly_is_not_taken_for_what_a_rule_has_made(name: str) -> None:
    assert Names.parse("*-b").queue_in_code(name) == name


@pytest.mark.parametrize(
    ("names", "at_aws", "in_code"),
    [
        ("*", arn("orders"), "orders"),
        ("staging-*", arn("staging-orders"), "orders"),
        ("staging-*", arn("orders"), "123456789012:orders"),
        ("*,queues.parcels=theirs", arn("orders"), "orders"),
        ("*,queues.parcels=theirs", arn("theirs"), "parcels"),
        ("*,queues.parcels=theirs", arn("parcels"), "123456789012:parcels"),
        (GIVEN, arn("theirs", "210987654321"), "parcels"),
        (GIVEN, arn("theirs"), "123456789012:theirs"),
        (
            "*,queues.parcels=https://sqs.eu-west-1.amazonaws.com/210987654321/theirs",
            arn("theirs", "210987654321"),
            "parcels",
        ),
    ],
)
def test_a_queue_of_another_deployment_is_called_as_none_of_the_code(names: str, at_aws: str, in_code: str) -> None:
    assert Names.parse(names).queue_of_arn(at_aws) == in_code


@pytest.mark.parametrize("name", [arn("orders"), "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"])
def test_one_that_the_code_gives_exactly_is_the_same_under_any_rule(name: str) -> None:
    assert Names.parse("staging-*").queue_of_arn(arn("orders")) in Queue(name).called
    assert Names.parse("staging-*").queue_of_arn(arn("orders")) not in Queue("orders").called


def test_of_a_topic_the_rule_changes_the_last_part_of_its_arn() -> None:
    names = Names.parse("staging-*")
    there = TOPIC.replace("orders-placed", "staging-orders-placed")
    assert names.topic(TOPIC) == there
    assert names.topic_in_code(there) == TOPIC
    theirs = "arn:aws:sns:eu-west-1:210987654321:placed"
    given = names.with_given(NameKind.TOPICS, {"orders-placed": theirs})
    assert given.topic(TOPIC) == theirs
    assert given.topic_in_code(theirs) == theirs.replace("placed", "orders-placed")


PRICE = "arn:aws:lambda:eu-west-1:123456789012:function:price"


@pytest.mark.parametrize(
    ("name", "at_aws"),
    [
        ("price", "staging-price"),
        ("price:live", "staging-price:live"),
        (
            "arn:aws:lambda:eu-west-1:123456789012:function:price",
            "arn:aws:lambda:eu-west-1:123456789012:function:price",
        ),
        ("123456789012:function:price", "123456789012:function:price"),
        ("function:price", "function:price"),
    ],
)
def test_of_a_function_the_alias_stays(name: str, at_aws: str) -> None:
    assert Names.parse("staging-*").function(name) == at_aws


def test_each_account_has_the_bus_default() -> None:
    names = Names.parse("staging-*")
    assert (names.bus("default"), names.bus("shop")) == ("default", "staging-shop")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "does not begin with a rule"),
        ("staging-", "does not begin with a rule"),
        ("*-*", "does not begin with a rule"),
        ("sta ging-*", "does not begin with a rule"),
        ("staging/*", "letters, digits, - and _ around it"),
        ("staging-*,parcels=theirs", "has a part that is not <kind>.<name>=<name at AWS>"),
        ("staging-*,ducks.parcels=theirs", "kinds are tables, queues, topics, functions, buses"),
        ("staging-*,", "has a part that is not"),
    ],
)
def test_what_cannot_be_read_is_refused_with_how_to_write_it(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Names.parse(text)


@pytest.mark.parametrize("name", ["a-b", "a--b", "ab", "x-orders-b", "a-orders-x", "orders"])
def test_a_name_that_no_rule_has_made_stays_as_it_is(name: str) -> None:
    names = Names.parse("a-*-b")
    assert names.queue_in_code(name) == name


def test_a_name_given_to_a_table_is_none_of_a_queue() -> None:
    names = Names.parse("staging-*,tables.stock=shared")
    assert names.queue_in_code("shared") == "shared"
    assert names.queue_in_code("staging-stock") == "stock"


def test_names_may_be_given_without_a_rule() -> None:
    names = Names.parse("*,queues.parcels=theirs")
    assert (names.queue("parcels"), names.queue_in_code("theirs")) == ("theirs", "parcels")
    assert (names.queue("orders"), names.queue_in_code("orders")) == ("orders", "orders")
    assert not names.are_those_of_the_code
    assert Names.parse("*").are_those_of_the_code
    assert Names.parse("*").topic_in_code(TOPIC) == TOPIC


def test_a_record_that_came_through_no_queue_came_through_none_of_another_deployment() -> None:
    assert not is_foreign(None)
    assert not is_foreign("orders")
    assert is_foreign("123456789012:orders")


NAME = st.from_regex(r"[A-Za-z0-9_-]{1,20}(\.fifo)?", fullmatch=True)
PART = st.from_regex(r"[A-Za-z0-9_-]{0,8}", fullmatch=True)


@given(PART, PART, NAME)
def test_what_a_rule_makes_is_undone_for_any_name(before: str, after: str, name: str) -> None:
    names = Names.parse(f"{before}*{after}")
    assert names.queue_in_code(names.queue(name)) == name


@given(PART, PART, NAME, NAME)
def test_two_names_stay_two(before: str, after: str, one: str, other: str) -> None:
    names = Names.parse(f"{before}*{after}")
    assert (names.queue(one) == names.queue(other)) == (one == other)


@given(NAME)
def test_where_nothing_is_said_names_are_those_in_the_code(name: str) -> None:
    assert AS_IN_CODE.queue(name) == AS_IN_CODE.queue_in_code(name) == AS_IN_CODE.table(name) == name
