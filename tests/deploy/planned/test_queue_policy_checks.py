"""What the policies of a queue deny to functions, topics and rules, and what else reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from flowguard.deploy.needs import Deployment, Permission, QueueNeed, Role
from flowguard.deploy.other_readers import other_readers
from flowguard.deploy.planned.resources import HERE
from flowguard.deploy.planned.values import UNKNOWN
from flowguard.deploy.queue_policy_checks import check_queue_policy
from flowguard.destinations import Bus
from tests.deploy.planned.test_planned_account import NEEDED

ARN: Final = "arn:aws:sqs:eu-west-1:123456789012:q"
TOPIC: Final = "arn:aws:sns:eu-west-1:123456789012:news"
RULE: Final = "arn:aws:events:eu-west-1:123456789012:rule/r"
ROLE: Final = "arn:aws:iam::123456789012:role/f"
BUS: Final = Bus("default", source="shop", detail_type="done")
ALL: Final = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}
DENY: Final = {**ALL, "Effect": "Deny"}


class Answers:
    """Answers what a check of a queue asks. Of what is not given nothing may be read."""

    def __init__(self, **given: Any) -> None:
        self._given = given

    def queue_policies(self, queue: str) -> Any:
        return self._given.get("policies")

    def function(self, name: str) -> Any:
        return self._given.get("function", {"Role": ROLE})

    def subscriptions(self, topic: str) -> Any:
        return self._given.get("subscriptions")

    def rules(self, queue: str, bus: str) -> Any:
        return self._given.get("rules")

    def readers(self, queue: str) -> Any:
        return self._given.get("readers")

    def pipes(self, source: str) -> Any:
        return self._given.get("pipes")


def queue(**given: Any) -> QueueNeed:
    return QueueNeed("q", Role.INBOX, existing=False, retention=1, **given)


def sending() -> Deployment:
    """A deployment whose function sends to the queue."""
    [function] = NEEDED.functions
    permission = Permission("queue", "q", ("sqs:SendMessage",))
    return replace(NEEDED, functions=(replace(function, permissions=(permission,)),))


def looked(
    *statements: Mapping[str, Any], need: QueueNeed | None = None, needed: Deployment = NEEDED, **given: Any
) -> list[tuple[str, str]]:
    answers: Any = Answers(**{"policies": [{"Statement": [*statements]}], **given})
    looked_at = check_queue_policy(needed, queue() if need is None else need, {"QueueArn": ARN}, answers)
    return [(each.rule, each.what) for each in looked_at]


FED: Final = queue(topics=(TOPIC,))
RULED: Final = queue(rules=(BUS,))
SUBSCRIBED: Final = [{"Endpoint": f"{ARN}x", "TopicArn": f"{TOPIC}x"}, {"Endpoint": ARN, "TopicArn": TOPIC}]


def test_a_topic_that_is_let_in_is_right() -> None:
    assert looked(ALL, need=FED, subscriptions=SUBSCRIBED) == []


@pytest.mark.parametrize("statements", [[], [DENY], [ALL, DENY]])
def test_a_topic_that_is_kept_out_is_found(statements: list[Mapping[str, Any]]) -> None:
    what = f"its policy does not let sns.amazonaws.com send there for {TOPIC}"
    assert looked(*statements, need=FED, subscriptions=SUBSCRIBED) == [("queue-closed", what)]
    assert looked(*statements, subscriptions=SUBSCRIBED) == [], "it feeds another queue"


def test_a_topic_that_may_be_kept_out_is_noted() -> None:
    condition = {"Condition": {"StringEquals": {"c:d": "x"}}}
    what = f"its policy may not let sns.amazonaws.com send there for {TOPIC}"
    assert looked({**ALL, **condition}, need=FED, subscriptions=SUBSCRIBED) == [("queue-policy-open", what)]


@pytest.mark.parametrize(
    "subscriptions", [None, [], [{"Endpoint": f"{ARN}x", "TopicArn": TOPIC}], [{"TopicArn": TOPIC}]]
)
def test_a_topic_without_a_subscription_of_the_queue_sends_nothing(subscriptions: Any) -> None:
    assert looked(need=FED, subscriptions=subscriptions) == []


def test_a_rule_is_let_in_or_kept_out_or_may_be() -> None:
    only_it = {**ALL, "Condition": {"ArnEquals": {"aws:SourceArn": RULE}}}
    assert looked(only_it, need=RULED, rules=[RULE]) == []
    closed = ("queue-closed", f"its policy does not let events.amazonaws.com send there for {RULE}-2")
    assert looked(only_it, need=RULED, rules=[RULE, f"{RULE}-2"]) == [closed]
    is_open = ("queue-policy-open", "its policy may not let events.amazonaws.com send there for a rule")
    assert looked(only_it, need=RULED, rules=[UNKNOWN]) == [is_open]
    assert looked(need=RULED, rules=None) == []
    assert looked(rules=[RULE]) == [], "it sends to another queue"


IN_A_FILE: Final = RULE.replace("123456789012", HERE.account)


@pytest.mark.parametrize(
    "condition",
    [
        {"StringEquals": {"aws:SourceAccount": "210987654321"}},
        {"ArnEquals": {"aws:SourceArn": RULE.replace("123456789012", "210987654321")}},
    ],
)
def test_another_account_in_a_condition_keeps_out_what_a_file_leaves_open(condition: Any) -> None:
    """Without the account in the options, the one that is written there may be right."""
    statement = {**ALL, "Condition": condition}
    here = replace(NEEDED, account="123456789012")
    what = f"its policy does not let events.amazonaws.com send there for {IN_A_FILE}"
    assert looked(statement, need=RULED, needed=here, rules=[IN_A_FILE]) == [("queue-closed", what)]
    there = replace(NEEDED, account="210987654321")
    assert looked(statement, need=RULED, needed=there, rules=[IN_A_FILE]) == []
    assert looked(statement, need=RULED, rules=[IN_A_FILE]) == []
    assert looked(statement, need=RULED, needed=here, rules=[UNKNOWN])[0][0] == "queue-policy-open"


@pytest.mark.parametrize(
    "condition",
    [{"StringEquals": {"aws:SourceAccount": HERE.account}}, {"ArnEquals": {"aws:SourceArn": IN_A_FILE}}],
)
def test_the_account_that_a_file_leaves_open_is_the_deployments(condition: Any) -> None:
    here = replace(NEEDED, account="123456789012")
    assert looked({**ALL, "Condition": condition}, need=RULED, needed=here, rules=[IN_A_FILE]) == []


def test_policies_that_may_not_be_read_and_queues_of_others_are_not_judged() -> None:
    assert looked(need=FED, subscriptions=SUBSCRIBED, policies=None) == []
    theirs = replace(FED, arn=ARN)
    assert looked(need=theirs, subscriptions=SUBSCRIBED) == []


def test_what_is_denied_to_a_function_is_found_with_its_actions() -> None:
    reads = queue(reader="f")
    [(rule, what)] = looked(ALL, DENY, need=reads)
    assert (rule, "sqs:ReceiveMessage" in what, ROLE in what) == ("queue-denied", True, True)
    assert "sqs:SendMessage" not in what
    assert looked(ALL, DENY, needed=sending()) == [
        ("queue-denied", f"its policy denies sqs:SendMessage to {ROLE}, the role of f")
    ]
    only = {**DENY, "Action": "sqs:ReceiveMessage"}
    assert looked(only, need=reads) == [
        ("queue-denied", f"its policy denies sqs:ReceiveMessage to {ROLE}, the role of f")
    ]
    assert looked(only, needed=sending()) == []
    assert looked(DENY) == [], "no function uses it"


def test_what_may_be_denied_is_noted_with_the_actions() -> None:
    condition = {"Condition": {"StringEquals": {"c:d": "x"}}}
    may = {**DENY, "Action": "sqs:ReceiveMessage", **condition}
    what = f"its policy may deny sqs:ReceiveMessage to {ROLE}, the role of f"
    assert looked(may, need=queue(reader="f")) == [("queue-policy-open", what)]


@pytest.mark.parametrize("function", [None, {}, {"Role": ""}, {"Role": "imported"}])
def test_a_role_that_is_not_known_is_not_judged(function: Any) -> None:
    assert looked(DENY, need=queue(reader="f"), function=function) == []


# -- what else reads it


def readers(**given: Any) -> list[str]:
    answers: Any = Answers(**given)
    return [*other_readers(NEEDED, ARN, answers)]


def test_what_else_reads_a_queue_is_named() -> None:
    arn = "arn:aws:lambda:eu-west-1:123456789012:function:"
    mappings = [{"FunctionArn": f"{arn}{name}"} for name in ("z", "f", "a:live", "a")]
    assert readers(readers=mappings, pipes=["q", "p"]) == [
        "the function a",
        "the function z",
        "the pipe p",
        "the pipe q",
    ]
    assert readers(readers=mappings) == ["the function a", "the function z"]
    assert readers(pipes=["p"]) == ["the pipe p"]
    assert readers() == []
