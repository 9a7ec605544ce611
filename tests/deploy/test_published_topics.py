"""The key of a topic to which a stage publishes, and from which no queue here gets anything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step, Topic, dlq_handler, lambda_handler
from flowguard.deploy.audit import audited
from flowguard.deploy.cloudformation import cloudformation
from flowguard.deploy.key_policy import key_policies
from flowguard.deploy.needs import Deployment, Permission
from flowguard.deploy.options import DeployOptions
from tests.deploy.test_derive import Deploy
from tests.deploy.test_derive import deploy as deploy  # noqa: PLC0414 - a fixture
from tests.deploy.waiting import Order

HERE = "123456789012"
NEWS = f"arn:aws:sns:eu-west-1:{HERE}:news"
KEY = f"arn:aws:kms:eu-west-1:{HERE}:key/1234abcd-12ab-34cd-56ef-1234567890ab"


class Tell(Stage[Order], name="tell", inbox="to-tell"):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        step.send(Topic(NEWS), order)
        return Done()


class Telling(Flow, name="telling", object_id="order_id", reply_to=()):
    stages = (Tell,)


def told(deploy: Deploy, **options: Any) -> Deployment:
    return deploy({"account": HERE, **options}, tell=lambda_handler(Telling), dead=dlq_handler(Telling))


def uses(needed: Deployment, key: str = KEY) -> list[Permission]:
    return [one for one in needed.function("telling-tell").permissions if one.name == key]


def without_effect(needed: Deployment) -> list[str]:
    return [note for note in needed.notes if "it has no effect" in note]


@pytest.mark.parametrize("name", ["news", NEWS])
@pytest.mark.parametrize("more", [{}, {"existing": True}])
def test_who_publishes_uses_the_key_of_the_topic(name: str, more: dict[str, Any], deploy: Deploy) -> None:
    given = {"topics": {name: {"kms_key": KEY, **more}}}
    needed = told(deploy, **given)
    options = DeployOptions.model_validate({"account": HERE, **given})
    assert uses(needed) == [Permission("key", KEY, ("kms:Decrypt", "kms:GenerateDataKey"), ("sns",))]
    assert without_effect(needed) == []
    policy = json.loads(key_policies(needed, options))[KEY]
    assert [statement["Sid"] for statement in policy["Statement"]] == ["FunctionsSns"]
    assert f"key {KEY}: kms:Decrypt, kms:GenerateDataKey through sns" in audited(needed, options)
    assert "AWS::SNS::Topic" not in cloudformation(needed, options)


def test_a_topic_without_a_key_of_its_own_is_not_under_the_deployments(deploy: Deploy) -> None:
    for topics in ({}, {"news": {"existing": True}}):
        needed = told(deploy, topics=topics, kms_key=KEY)
        assert needed.topics == ()
        assert all("sns" not in use.via for use in uses(needed))


def test_a_block_that_changes_nothing_is_said(deploy: Deploy) -> None:
    assert len(without_effect(told(deploy, topics={"olds": {"kms_key": KEY}}))) == 1
    assert len(without_effect(told(deploy, topics={NEWS: {"existing": True}}))) == 1
    assert len(without_effect(told(deploy, topics={"to-tell": {"existing": True}}))) == 1


def test_a_topic_under_another_name_is_under_its_key(deploy: Deploy) -> None:
    needed = told(deploy, topics={"news": {"name": "prod-news", "kms_key": KEY}})
    assert [topic.arn for topic in needed.topics] == [f"{NEWS.removesuffix('news')}prod-news"]
    assert uses(needed)


def test_a_topic_that_a_queue_is_subscribed_to_is_there_once(deploy: Deploy) -> None:
    class Hear(Stage[Order], name="hear", inbox=Topic(NEWS)):
        def handle(self, order: Order, step: Step[Any]) -> Outcome:
            step.send(Topic(NEWS), order)
            return Done()

    class Hearing(Flow, name="hearing", object_id="order_id", reply_to=()):
        stages = (Hear,)

    given = {"topics": {"news": {"kms_key": KEY}}}
    [topic] = deploy(given, hear=lambda_handler(Hearing), dead=dlq_handler(Hearing)).topics
    assert (topic.existing, topic.kms_key) == (False, KEY)


def renamed(needed: Deployment) -> list[str]:
    return [note for note in needed.notes if "by the rule staging" in note]


STAGING = {"settings": {"names": "staging-*"}}
NOTE = (
    f"{NEWS} is arn:aws:sns:eu-west-1:{HERE}:staging-news by the rule staging-*, and no template here makes that; "
    'where its owner has no such topic, say [topics."news"] name = "news"'
)


@pytest.mark.parametrize("topics", [{}, {"news": {"existing": True}}, {NEWS: {"kms_key": KEY}}])
def test_a_rule_that_renames_a_topic_of_others_is_said(topics: dict[str, Any], deploy: Deploy) -> None:
    assert renamed(told(deploy, topics=topics, **STAGING)) == [NOTE]


def test_a_topic_with_a_name_of_its_own_keeps_it_under_the_rule(deploy: Deploy) -> None:
    needed = told(deploy, topics={"news": {"name": "news"}}, **STAGING)
    assert renamed(needed) == []
    [topic] = [one.name for one in needed.function("staging-telling-tell").permissions if one.target == "topic"]
    assert topic == NEWS
    assert renamed(told(deploy, topics={"news": {"name": "news-of-all"}}, **STAGING)) == [], "the options say so"
    assert renamed(told(deploy)) == [], "without a rule it has its own name"


class Listen(Stage[Order], name="listen", inbox=Topic(NEWS)):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        return Done()


class Listening(Flow, name="listening", object_id="order_id", reply_to=()):
    stages = (Listen,)


@pytest.mark.parametrize(
    ("more", "is_said"),
    [
        ({"account": HERE}, False),
        ({"account": "210987654321"}, True),
        ({"account": HERE, "topics": {"news": {"existing": True}}}, True),
    ],
)
def test_of_topics_that_queues_hear_the_rule_is_said_where_they_are_not_made(
    more: dict[str, Any], is_said: bool, deploy: Deploy
) -> None:
    needed = deploy({**STAGING, **more}, listen=lambda_handler(Listening), dead=dlq_handler(Listening))
    assert bool(renamed(needed)) is is_said
