"""Who may not use the keys that resources are under, as an account tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from flowguard.deploy.account import NotKnown
from flowguard.deploy.codec_uses import FLOW
from flowguard.deploy.key_checks import check_keys
from flowguard.deploy.key_uses import under_keys
from flowguard.deploy.needs import Deployment, Permission, QueueNeed, Role, TableNeed, TopicNeed
from flowguard.deploy.options import DeployOptions
from flowguard.destinations import Bus
from tests.deploy.planned.test_planned_account import KEY as TABLE_KEY
from tests.deploy.planned.test_planned_account import NEEDED

KEY: Final = "arn:aws:kms:eu-west-1:123456789012:key/ours"
ROLE: Final = "arn:aws:iam::123456789012:role/f"
TOPIC: Final = "arn:aws:sns:eu-west-1:123456789012:news"
ROOT: Final = {"AWS": "arn:aws:iam::123456789012:root"}
BUS: Final = Bus("default", source="shop", detail_type="done")


class Answers:
    """Answers what the check of keys asks. ``keys`` are those of resources, by their names."""

    def __init__(self, policy: Any = None, denied: Any = (), role: Any = ROLE, **keys: Any) -> None:
        self._policy = policy
        self._denied = denied
        self._role = role
        self._keys = keys
        self.asked: list[tuple[str, ...]] = []

    def _key_of(self, name: str) -> Any:
        given = self._keys.get(name, "")
        if given == "open":
            raise NotKnown("the key", name)
        return given

    def table_key(self, name: str) -> Any:
        return self._key_of(name)

    def topic_key(self, topic: str) -> Any:
        return self._key_of(topic.rpartition(":")[2])

    def queue(self, name: str, arn: str | None = None) -> Any:
        key = self._key_of(name)
        return None if key is None else {"KmsMasterKeyId": key} if key else {}

    def key(self, name: str) -> str | None:
        assert name, "a resource without a key has none to ask for"
        return None if name == "alias/aws/sqs" else f"{KEY.rpartition('/')[0]}/{name}"

    def key_policy(self, key: str) -> Any:
        assert key, "there is a key"
        self.asked.append(("policy", key))
        return self._policy

    def function(self, name: str) -> Any:
        return None if self._role is None else {"Role": self._role}

    def denied(self, role: str, actions: list[str], resource: str, context: Mapping[str, str | None]) -> Any:
        assert role == ROLE
        self.asked.append(("denied", resource, *actions, *filter(None, context.values())))
        return None if self._denied is None else [action for action in actions if action in self._denied]


def using(*permissions: Permission, **given: Any) -> Deployment:
    [function] = NEEDED.functions
    return replace(NEEDED, functions=(replace(function, permissions=permissions),), **given)


SENDS: Final = using(
    Permission("queue", "q", ("sqs:SendMessage",)),
    tables=(),
    topics=(),
    queues=(QueueNeed("q", Role.INBOX, existing=False, retention=1),),
)
READS: Final = using(
    Permission("table", "t", ("dynamodb:GetItem",)),
    tables=(TableNeed("t", TABLE_KEY, None, existing=False),),
    topics=(),
    queues=(),
)
PUBLISHES: Final = using(
    Permission("topic", TOPIC, ("sns:Publish",)), tables=(), topics=(TopicNeed(TOPIC, existing=False),), queues=()
)


def looked(needed: Deployment, answers: Answers, **options: Any) -> list[tuple[str, str, str]]:
    live: Any = answers
    chosen = DeployOptions.model_validate(options)
    return [(each.severity.value, each.resource, each.what) for each in check_keys(needed, chosen, live)]


def allows(principal: Any, **more: Any) -> dict[str, Any]:
    return {"Statement": [{"Effect": "Allow", "Principal": principal, "Action": "kms:*", "Resource": "*", **more}]}


def what(actions: str, service: str) -> str:
    return f"its role may not {actions} with the key {KEY}, through {service}"


@pytest.mark.parametrize(
    ("needed", "keys", "service"),
    [(SENDS, {"q": "ours"}, "sqs"), (READS, {"t": "ours"}, "dynamodb"), (PUBLISHES, {"news": "ours"}, "sns")],
)
def test_a_role_that_may_not_use_the_key_of_what_it_uses_is_found(needed: Deployment, keys: Any, service: str) -> None:
    answers = Answers(allows({"AWS": "arn:aws:iam::123456789012:role/other"}), **keys)
    [(severity, name, text)] = looked(needed, answers)
    assert (severity, name) == ("error", "f")
    assert text.endswith(f"with the key {KEY}, through {service}")
    [(_, key, *more)] = [each for each in answers.asked if each[0] == "denied"]
    assert (key, more[-1]) == (KEY, f"{service}.eu-west-1.amazonaws.com"), "IAM is asked with the service that uses it"
    assert looked(needed, Answers(allows("*"), **keys)) == []
    assert looked(needed, Answers(allows({"AWS": "x:x:x:x:y"}))) == [], "nothing is under a key"


DECRYPT: Final = "kms:Decrypt"


@pytest.mark.parametrize(
    ("policy", "denied", "severity"),
    [
        (allows("*"), (DECRYPT,), None),
        (allows(ROOT), (DECRYPT,), "error"),
        (allows(ROOT), (), None),
        (allows(ROOT), None, None),
        (allows({"AWS": "arn:aws:iam::1:root"}), (), "error"),
        (allows({"AWS": "arn:aws:iam::1:root"}), None, "error"),
        (allows("*", Condition={"StringEquals": {"c:d": "x"}}), (DECRYPT,), None),
        (allows("*", Condition={"StringEquals": {FLOW: "shop"}}), (), "error"),
        (None, (DECRYPT,), "warning"),
        (None, (), None),
        (None, None, None),
    ],
)
def test_the_keys_policy_and_the_roles_count_together(policy: Any, denied: Any, severity: str | None) -> None:
    told = looked(SENDS, Answers(policy, denied, q="ours"))
    assert [each[0] for each in told] == ([] if severity is None else [severity])
    assert all(DECRYPT in text for _, _, text in told)


def test_only_the_actions_that_are_lacking_are_named() -> None:
    assert looked(SENDS, Answers(allows(ROOT), (DECRYPT,), q="ours")) == [("error", "f", what(DECRYPT, "sqs"))]


@pytest.mark.parametrize("role", [None, ""])
def test_a_function_that_is_not_there_or_has_no_role_is_not_judged(role: Any) -> None:
    assert looked(SENDS, Answers(allows({"AWS": "x:x:x:x:y"}), role=role, q="ours")) == []


@pytest.mark.parametrize("key", ["", None, "open", "alias/aws/sqs"])
def test_what_is_under_no_key_of_a_customer_asks_for_nothing(key: Any) -> None:
    answers = Answers(allows({"AWS": "x:x:x:x:y"}), q=key)
    assert looked(fed(topics=(TOPIC,), function=SENDS), answers) == []
    assert answers.asked == []


def test_a_queue_that_is_given_by_its_arn_is_not_looked_at() -> None:
    [queue] = SENDS.queues
    theirs = replace(SENDS, queues=(replace(queue, arn="arn:aws:sqs:eu-west-1:210987654321:q"),))
    assert looked(theirs, Answers(allows({"AWS": "x:x:x:x:y"}), q="ours")) == []


@pytest.mark.parametrize(
    ("needed", "part", "keys"),
    [(SENDS, "queues", {"q": "other"}), (READS, "tables", {"t": "other"}), (PUBLISHES, "topics", {"news": "other"})],
)
def test_what_the_options_put_under_a_key_is_checked_elsewhere(needed: Deployment, part: str, keys: Any) -> None:
    """The key of the options counts, and the function has its permission on that already."""
    section = {"queues": "q", "tables": "t", "topics": "news"}[part]
    options = {part: {section: {"kms_key": KEY}}}
    placed = under_keys(needed, DeployOptions.model_validate(options))
    answers = Answers(allows({"AWS": "x:x:x:x:y"}), **keys)
    assert looked(placed, answers, **options) == []
    assert answers.asked == []


# -- services that feed a queue


def fed(function: Deployment = NEEDED, **given: Any) -> Deployment:
    queue = QueueNeed("q", Role.INBOX, existing=False, retention=1, **given)
    return replace(function, queues=(queue,), tables=(), topics=())


def closed(service: str, actions: str = "kms:Decrypt, kms:GenerateDataKey") -> tuple[str, str, str]:
    return ("error", "q", f"the policy of its key {KEY} does not let {service} {actions}")


@pytest.mark.parametrize(
    ("given", "services"),
    [
        ({"topics": (TOPIC,)}, ["sns.amazonaws.com"]),
        ({"rules": (BUS,)}, ["events.amazonaws.com"]),
        ({"topics": (TOPIC,), "rules": (BUS,)}, ["sns.amazonaws.com", "events.amazonaws.com"]),
        ({}, []),
    ],
)
def test_a_service_that_may_not_use_the_key_of_a_queue_that_it_feeds_is_found(given: Any, services: list[str]) -> None:
    answers = Answers(allows(ROOT), q="ours")
    assert looked(fed(**given), answers) == [closed(service) for service in services]
    assert answers.asked == ([("policy", KEY)] if services else []), "the policy is asked for where it matters"
    assert looked(fed(**given), Answers(allows({"Service": services}), q="ours")) == []
    assert looked(fed(**given), Answers(None, q="ours")) == []
    assert looked(fed(**given), Answers(allows(ROOT))) == [], "it is under no key"


def test_the_services_of_a_queue_whose_key_the_options_name_are_checked_elsewhere() -> None:
    assert looked(fed(topics=(TOPIC,), kms_key=KEY), Answers(allows(ROOT), q="ours")) == []


def test_only_the_actions_that_a_service_lacks_are_named() -> None:
    policy = allows({"Service": "sns.amazonaws.com"}, Action="kms:Decrypt")
    lacking = closed("sns.amazonaws.com", "kms:GenerateDataKey")
    assert looked(fed(topics=(TOPIC,)), Answers(policy, q="ours")) == [lacking]
    is_open = allows({"Service": "sns.amazonaws.com"}, Condition={"StringEquals": {"c:d": "x"}})
    assert looked(fed(topics=(TOPIC,)), Answers(is_open, q="ours")) == []
